#!/usr/bin/env bash
# tools/build_kernels.sh FOLDER: compiles kernels/ for CUDA into FOLDER/kernels.fatbin. FOLDER/report.txt is what the compiler
# says of registers and spills, FOLDER/kernels.ptx the code as it is for newer devices. A spill is a failure. The same compiler
# gives the same bytes in every folder. tools/archive_kernels.sh makes what a library links.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
nvcc=build/cuda/toolkit/bin/nvcc
mkdir -p "$folder"
work=$(mktemp -d "$folder/.work-XXXXXX")
trap 'rm -rf "$work"' EXIT

# What nvcc 13.0 cannot compile keeps it busy for ever.
compile() {
    timeout 1200 "$nvcc" -O3 -Werror all-warnings "$@" kernels/kernels.cu
}
targets=()
for architecture in 80 90 100; do
    targets+=(-gencode "arch=compute_$architecture,code=sm_$architecture")
done
targets+=(-gencode arch=compute_80,code=compute_80)
if ! compile -fatbin "${targets[@]}" -Xptxas -v,--warn-on-spills -o "$work/kernels.fatbin" > "$work/report.txt" 2>&1; then
    cat "$work/report.txt" >&2
    echo "The kernels do not compile, or spill registers." >&2
    exit 1
fi
compile -ptx -arch=compute_80 -o "$work/kernels.ptx"
if grep _INTERNAL_ "$work/kernels.ptx" >&2; then
    echo "The compiler has put the folder's path into these names, as it does for a static variable in a function." >&2
    exit 1
fi

for file in report.txt kernels.ptx kernels.fatbin; do
    mv "$work/$file" "$folder/$file"
done

#!/usr/bin/env bash
# tools/build_kernels.sh FOLDER: compiles kernels/ for CUDA into FOLDER/libmmsb_kernels.a, an archive that holds nothing but the
# image. FOLDER/report.txt is what the compiler says of registers and spills, FOLDER/kernels.ptx the code as it is for newer
# devices. A spill is a failure. The same compiler gives the same bytes in every folder.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1
nvcc=build/cuda/toolkit/bin/nvcc
mkdir -p "$folder"
work=$(mktemp -d "$folder/.work-XXXXXX")
trap 'rm -rf "$work"' EXIT

# What nvcc 13.0 cannot compile keeps it busy for ever.
compile() {
    timeout 300 "$nvcc" -O3 -Werror all-warnings "$@" kernels/kernels.cu
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

cat > "$work/image.S" << 'ASSEMBLER'
    .section .rodata
    .balign 64
    .globl mmsb__kernel_image
    .globl mmsb__kernel_image_end
    .hidden mmsb__kernel_image
    .hidden mmsb__kernel_image_end
mmsb__kernel_image:
    .incbin "kernels.fatbin"
mmsb__kernel_image_end:
    .section .note.GNU-stack, "", %progbits
ASSEMBLER
(
    cd "$work"
    gcc -c image.S -o image.o
    ar rcD libmmsb_kernels.a image.o
)
for file in report.txt kernels.ptx libmmsb_kernels.a; do
    mv "$work/$file" "$folder/$file"
done

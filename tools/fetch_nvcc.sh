#!/usr/bin/env bash
# Makes build/cuda/toolkit a link to a CUDA toolkit with a compiler that knows sm_100: that of the nvcc on PATH, else CUDA_HOME,
# else the pinned wheels' in build/cuda. Whoever finds it there already is done.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/cuda
exec 9> build/cuda/lock
flock 9

knows_sm_100() {
    "$1" --list-gpu-arch 2> /dev/null | grep -qx compute_100
}

# choose FOLDER: the toolkit in it, if it serves.
choose() {
    knows_sm_100 "$1/bin/nvcc" || return 1
    ln -sfn "$1" build/cuda/toolkit
    echo "CUDA compiler: $1/bin/nvcc, $(build/cuda/toolkit/bin/nvcc --version | grep -o 'release.*')"
}

found=$(command -v nvcc || true)
if [[ -n $found ]] && choose "$(dirname "$(dirname "$(realpath "$found")")")"; then
    exit 0
fi
if [[ -n ${CUDA_HOME:-} ]] && choose "$CUDA_HOME"; then
    exit 0
fi

requirements=tools/requirements/cuda.txt
wheels=$PWD/build/cuda/wheels
pins=$(cat "$requirements" tools/requirements/cuda-headers.txt)
if [[ $(cat "$wheels/pins" 2> /dev/null) != "$pins" ]]; then
    echo "No nvcc for sm_100 on PATH or in CUDA_HOME: taking NVIDIA's wheels (100 MB) into build/cuda; MMSB_CUDA=off does without"
    rm -rf "$wheels" build/cuda/venv
    python3 -m venv build/cuda/venv
    if ! build/cuda/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target "$wheels" \
        -r "$requirements"; then
        rm -rf "$wheels" build/cuda/venv
        echo "The wheels of $requirements cannot be had. Install CUDA 12.8 or newer and put nvcc on PATH, or set MMSB_CUDA=off" \
            "to build without kernels for CUDA." >&2
        exit 1
    fi
    rm -rf build/cuda/venv
    echo "$pins" > "$wheels/pins"
fi
toolkit=$(dirname "$(dirname "$(find "$wheels/nvidia" -path '*/bin/nvcc')")")
choose "$toolkit" || {
    echo "nvcc from the wheels in $wheels does not run. Set MMSB_CUDA=off to build without kernels for CUDA." >&2
    exit 1
}

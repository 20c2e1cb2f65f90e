#!/usr/bin/env bash
# tools/build_wheel.sh FOLDER VERSION: the Python wheel with the library inside, for every glibc from 2.28 on, and the tool, which
# needs no C library: that of this machine may be newer. MMSB_MACHINE=aarch64 builds it for arm64 on another machine.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 version=$2
floor=2.28

machine=${MMSB_MACHINE:-$(uname -m)}
if [[ $machine == aarch64 ]]; then
    export GOARCH=arm64
    [[ ${MMSB_CUDA:-on} == off ]] || CC=$PWD/tools/zig_cc.sh tools/archive_kernels.sh build/kernels/arm64
fi
library=$PWD/build/wheel-library${MMSB_MACHINE:+-$MMSB_MACHINE}/libmmsb.so
CC=$PWD/tools/zig_cc.sh tools/build_library.sh "${library#"$PWD/"}"
newest=$(objdump -T "$library" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
if [[ $(printf '%s\n' "${newest#GLIBC_}" "$floor" | sort -V | tail -n 1) != "$floor" ]]; then
    echo "The library for the wheel needs $newest, and the wheel promises $floor." >&2
    exit 1
fi

tool=$(dirname "$library")/mmsb
CGO_ENABLED=0 go build -ldflags "-s -w -buildid= -X main.version=$version" -o "$tool" ./cmd/mmsb

rm -rf "$folder"
export MMSB_WHEEL_LIBRARY=$library MMSB_WHEEL_TOOL=$tool MMSB_WHEEL_PLATFORM=manylinux_${floor/./_}_$machine
build/venv/bin/python -m pip --python build/venv-wheel/bin/python wheel \
    --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$folder" ./bindings/python
ls "$folder"/*.whl

#!/usr/bin/env bash
# tools/build_library.sh OUTPUT [-tags TAG] [go build flags]: builds the shared library as OUTPUT, with the link libmmsb.so.0
# beside it. The same tree gives the same bytes in every folder. CC chooses the C compiler, MMSB_CUDA=off leaves out the kernels
# for CUDA.
set -euo pipefail
cd "$(dirname "$0")/.."
output=$1
shift
tags=
if [[ ${1:-} == -tags ]]; then
    tags=$2
    shift 2
fi
if [[ ${MMSB_CUDA:-on} != off ]]; then
    if [[ ! -e build/kernels/$(go env GOARCH)/libmmsb_kernels.a ]]; then
        echo "No kernels in build/kernels: make builds them first. MMSB_CUDA=off builds without." >&2
        exit 1
    fi
    tags+=,mmsbcuda
fi

folder=$(dirname "$output")
mkdir -p "$folder" build

# The tag tells the C code that calls from C enter Go without a lock (mmsb_build_info says so).
overlay=()
if flock build/library.lock tools/go-overlay/apply.sh build/go-overlay; then
    tags+=,mmsboverlay
    if [[ -e build/go-overlay/overlay.json ]]; then
        overlay=(-overlay build/go-overlay/overlay.json)
    fi
fi
export CGO_ENABLED=1 CGO_CFLAGS="${CGO_CFLAGS:--O2 -g}"

# These are not on cgo's list of allowed flags: they go straight to the linker. asyncpreemptoff keeps Go from sending SIGURG to
# the threads of the program it is loaded into.
linker="-Wl,-soname,libmmsb.so.0 -Wl,--version-script=$PWD/capi/mmsb.map -Wl,-T,$PWD/capi/go_start.ld -Wl,--no-undefined"
linker+=" -Wl,-z,nodelete -Wl,--build-id=none"
work=$(mktemp -d "$folder/.library-XXXXXX")
trap 'rm -rf "$work"' EXIT
go build -trimpath -buildvcs=false -buildmode=c-shared "${overlay[@]}" -tags "$tags" "$@" \
    -ldflags "-buildid= -X=runtime.godebugDefault=asyncpreemptoff=1 -extldflags '$linker'" \
    -o "$work/libmmsb.so" ./capi
mv "$work/libmmsb.so" "$output"
ln -sfn "$(basename "$output")" "$folder/libmmsb.so.0"

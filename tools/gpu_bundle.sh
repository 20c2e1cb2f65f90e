#!/usr/bin/env bash
# tools/gpu_bundle.sh ARCHIVE VERSION: one archive of what checks and measures the library on a GPU: the library for every glibc
# from 2.28 on, the driver's conformance suite, tests in C and Python, benchmarks, and NVIDIA's compute-sanitizer. It is unpacked
# on any machine with a driver, and tests/gpu/run.sh in it runs everything.
set -euo pipefail
cd "$(dirname "$0")/.."
archive=$1 version=$2
most=$((60 << 20))

work=$(mktemp -d build/.gpu-bundle-XXXXXX)
trap 'rm -rf "$work"' EXIT
bundle=$work/mmsb-gpu-bundle
mkdir -p "$bundle"/{bin,lib,python}
cp build/wheel-library/libmmsb.so "$bundle/lib/libmmsb.so.0"
ln -s libmmsb.so.0 "$bundle/lib/libmmsb.so"
strip --strip-debug "$bundle/lib/libmmsb.so.0"

export CC=$PWD/tools/zig_cc.sh
go test -c -trimpath -buildvcs=false -buildmode=exe -tags gpu,mmsbcuda,netgo,osusergo -ldflags '-s -w' \
    -o "$bundle/bin/conformance" ./gpu/cuda
flags=(-std=gnu11 -D_GNU_SOURCE -O2 -Iinclude -pthread)
link=("-L$bundle/lib" -lmmsb -ldl -lm -Wl,--enable-new-dtags,-rpath,\$ORIGIN/../lib)
"$CC" -c "${flags[@]}" -Itests/c tests/c/places_test.c -o "$work/places.o"
"$CC" "$work/places.o" -pthread "${link[@]}" -o "$bundle/bin/places"
objects=()
for source in gpu bench disk peers empty; do
    "$CC" -c "${flags[@]}" -Ibench "bench/$source.c" -o "$work/$source.o"
    objects+=("$work/$source.o")
done
"$CC" "${objects[@]}" -pthread "${link[@]}" -o "$bundle/bin/bench"

cp -r bindings/python/src/mmsb "$bundle/python"
find "$bundle/python" -name __pycache__ -prune -exec rm -rf {} +
cp tests/gpu/places.py "$bundle/python"
cp tests/gpu/run.sh LICENSE "$bundle"
echo "$version" > "$bundle/VERSION"

# As its wheel has it, without what is to be read, and 32 bits.
cp -r build/cuda/sanitizer/nvidia/*/compute-sanitizer "$bundle/sanitizer"
rm -rf "$bundle/sanitizer/"{docs,include,x86}
chmod +x "$bundle/sanitizer/"{compute-sanitizer,TreeLauncher*}

tar --sort=name --owner=0 --group=0 --numeric-owner -C "$work" -cJf "$work/archive" mmsb-gpu-bundle
size=$(stat -c %s "$work/archive")
if ((size > most)); then
    echo "The archive has $size bytes; $most are the most that it should have." >&2
    exit 1
fi
mkdir -p "$(dirname "$archive")"
mv "$work/archive" "$archive"
echo "$archive: $((size >> 20)) MiB; unpack it on a machine with a GPU, and run mmsb-gpu-bundle/run.sh"

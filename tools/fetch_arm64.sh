#!/usr/bin/env bash
# What builds and runs programs for arm64 on another machine, from Debian's packages, extracted and not installed: a linker
# (build/bin/aarch64-linux-gnu-gcc), an emulator (build/bin/qemu-aarch64), and in build/arm64/root a Python with its C library,
# whose programs the emulator runs.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$PWD/build/arm64
mkdir -p build/bin "$folder"
echo "extracting Debian's gcc for arm64, qemu and a Python for arm64 into $folder"
tools/extract_debs.sh "$folder/gcc" gcc-aarch64-linux-gnu libc6-dev-arm64-cross
tools/extract_debs.sh "$folder/qemu" qemu-user-static
find "$folder/qemu" -type f ! -name qemu-aarch64-static -delete
DEB_ARCHITECTURE=arm64 tools/extract_debs.sh "$folder/root" python3 libstdc++6

# wrap NAME COMMAND: build/bin/NAME runs the command.
wrap() {
    printf '#!/bin/sh\n%s "$@"\n' "$2" > "build/bin/$1.new"
    chmod +x "build/bin/$1.new"
    mv "build/bin/$1.new" "build/bin/$1"
}
wrap aarch64-linux-gnu-gcc \
    "LD_LIBRARY_PATH='$folder/gcc/usr/lib/$(gcc -dumpmachine)' exec '$folder/gcc/usr/bin/aarch64-linux-gnu-gcc'"
wrap qemu-aarch64 "exec '$folder/qemu/usr/bin/qemu-aarch64-static' -L '$folder/root'"
aarch64-linux-gnu-gcc --version | head -n 1
qemu-aarch64 --version | head -n 1
qemu-aarch64 "$folder/root/usr/bin/python3" --version

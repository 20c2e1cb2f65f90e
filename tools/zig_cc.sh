#!/usr/bin/env bash
# A C compiler for programs that must run on glibc 2.28 and newer. zig's clang compiles with the headers of that glibc; gcc
# links against zig's stubs of it, because zig's own linker refuses --wrap, on which the stack-bounds fix stands. MMSB_MACHINE is
# what they are to run on, such as aarch64; gcc is then aarch64-linux-gnu-gcc.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
export ZIG_GLOBAL_CACHE_DIR=$root/build/zig-cache ZIG_LOCAL_CACHE_DIR=$root/build/zig-cache
machine=${MMSB_MACHINE:-$(uname -m)}
zig=("$root/build/venv-wheel/bin/python" -m ziglang cc -target "$machine-linux-gnu.2.28" -fno-sanitize=undefined)

for argument in "$@"; do
    case $argument in
    -c | -E | -S | --version | -v | -dumpmachine) exec "${zig[@]}" "$@" ;;
    esac
done

stubs=$root/build/glibc-2.28${MMSB_MACHINE:+-$MMSB_MACHINE}
if [[ ! -e $stubs/libc.so ]]; then
    work=$(mktemp -d "$root/build/.stubs-XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo 'int nothing;' > "$work/nothing.c"
    # zig makes the stubs when it links, and -v says where.
    for file in $("${zig[@]}" -shared -v "$work/nothing.c" -o "$work/nothing.so" 2>&1 | tr ' ' '\n' |
        grep -E '/(lib(c|ld|m|dl|pthread|rt)\.so\.[0-9]|libc_nonshared\.a)$'); do
        cp "$file" "$work"
    done
    for library in "$work"/lib{m,dl,pthread,rt}.so.*; do
        ln -s "$(basename "$library")" "${library%.so.*}.so"
    done
    echo 'GROUP(libc.so.6 libc_nonshared.a AS_NEEDED(libld.so.2))' > "$work/libc.so"
    rm "$work"/nothing.*
    mv -T "$work" "$stubs"
    trap - EXIT
fi
exec "${MMSB_MACHINE:+$MMSB_MACHINE-linux-gnu-}gcc" -L"$stubs" "$@"

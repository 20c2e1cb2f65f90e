#!/usr/bin/env bash
# Puts abidw and abidiff into build/bin: those on PATH, else Debian's extracted into build/abigail.
set -euo pipefail
cd "$(dirname "$0")/.."
# What an earlier run put into build/bin is not the system's.
PATH=${PATH//"$PWD/build/bin:"/}
mkdir -p build/bin

if command -v abidw > /dev/null && command -v abidiff > /dev/null; then
    for program in abidw abidiff; do
        ln -sfn "$(command -v "$program")" "build/bin/$program"
    done
    exit 0
fi
folder=$PWD/build/abigail
tools/extract_debs.sh "$folder" abigail-tools
libraries=$(dirname "$(find "$folder/usr/lib" -name 'libabigail.so.*' -print -quit)")
for program in abidw abidiff; do
    printf '#!/bin/sh\nLD_LIBRARY_PATH="%s" exec "%s" "$@"\n' "$libraries" "$folder/usr/bin/$program" > "build/bin/$program.new"
    chmod +x "build/bin/$program.new"
    mv "build/bin/$program.new" "build/bin/$program"
done
build/bin/abidw --version

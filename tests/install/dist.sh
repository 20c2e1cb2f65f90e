#!/usr/bin/env bash
# Unpacks the source archive into a folder of its own, builds it where PATH has no git, to the same bytes, and runs the quickstart
# in C against what was built. What this tree has downloaded is shared, and Go's packages as they are compiled.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$(mktemp -d "${TMPDIR:-/tmp}/mmsb-dist-XXXXXX")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
unset MMSB_LIBRARY MAKEFLAGS MFLAGS MAKELEVEL
. tests/install/steps.sh

makes_the_same_twice() {
    make dist && mv build/libmmsb-*.tar.gz "$work" && touch README.md && make dist &&
        cmp "$work"/libmmsb-*.tar.gz build/libmmsb-*.tar.gz
}

unpacks_into_one_folder() {
    mkdir "$work/source" && tar -xzf build/libmmsb-*.tar.gz -C "$work/source" && cd "$work"/source/libmmsb-* && [[ ! -e .git ]] &&
        diff <(cd "$root" && tools/tree_files.sh | sort -z | tr '\0' '\n') <(tools/tree_files.sh | sort -z | tr '\0' '\n')
}

# Everything on PATH but git.
without_git() {
    local program folder folders
    mkdir -p "$work/bin"
    IFS=: read -ra folders <<< "$PATH"
    for folder in "${folders[@]}"; do
        for program in "$folder"/*; do
            [[ ! -x $program || -d $program || $(basename "$program") == git* ]] ||
                ln -s "$program" "$work/bin" 2> /dev/null || true
        done
    done
    PATH=$work/bin
    hash -r
    ! command -v git
}

# A comment at the end makes Go compile a package anew, to the same code: its cache knows a source by its bytes. Not a file with
# import "C": cgo makes names from its bytes. Not the kernels: their bytes are in a flag, and they are compiled without the cache.
changes_all_sources() {
    local file
    cd "$work"/source/libmmsb-* && find . \( -name '*.c' -o -name '*.go' \) -not -path './kernels/*' | while read -r file; do
        [[ $file == *.go ]] && grep -q 'import "C"' "$file" || echo '// elsewhere' >> "$file"
    done
}

builds_without_git() {
    without_git && cd "$work"/source/libmmsb-* && CUDA_HOME="$root/build/cuda/toolkit" make lib tool \
        GOCACHE="$root/build/cache/go" GOMODCACHE="$root/build/cache/go-modules"
}

gives_the_same_library() {
    cmp "$root/build/libmmsb.so" "$work"/source/libmmsb-*/build/libmmsb.so
}

runs_the_quickstart() {
    cd "$work"/source/libmmsb-* &&
        gcc -std=c99 examples/quickstart.c -Iinclude -Lbuild -lmmsb "-Wl,-rpath,$PWD/build" -o "$work/quickstart" &&
        "$work/quickstart" && build/mmsb version
}

step "the same files give the same archive" makes_the_same_twice
step "the archive has the tracked files in one folder" unpacks_into_one_folder
step "its sources are changed, but for what they say" changes_all_sources
step "it builds without git" builds_without_git
step "the library has the same bytes" gives_the_same_library
step "the quickstart in C with what was built" runs_the_quickstart
close_steps

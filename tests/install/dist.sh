#!/usr/bin/env bash
# Unpacks the source archive into a folder of its own, builds it where PATH has no git, and runs the quickstart in C against what
# was built. What this tree has downloaded and compiled is shared; the kernels are left out.
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

builds_without_git() {
    without_git && cd "$work"/source/libmmsb-* && make lib tool MMSB_CUDA=off GOCACHE="$root/build/cache/go" \
        GOMODCACHE="$root/build/cache/go-modules"
}

runs_the_quickstart() {
    cd "$work"/source/libmmsb-* &&
        gcc -std=c99 examples/quickstart.c -Iinclude -Lbuild -lmmsb "-Wl,-rpath,$PWD/build" -o "$work/quickstart" &&
        "$work/quickstart" && build/mmsb version
}

step "the same files give the same archive" makes_the_same_twice
step "the archive has the tracked files in one folder" unpacks_into_one_folder
step "it builds without git" builds_without_git
step "the quickstart in C with what was built" runs_the_quickstart
close_steps

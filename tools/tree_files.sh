#!/usr/bin/env bash
# tools/tree_files.sh [OPTION...]: the files of the tree, each ended by a zero byte: what `git ls-files OPTION...` lists. Where
# the tree is no checkout, as unpacked from an archive: all that is not made.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ -e .git ]]; then
    git ls-files -z "$@"
else
    find . \( -path ./build -o -name '.*_cache' -o -name __pycache__ \) -prune -o ! -type d -printf '%P\0'
fi

#!/usr/bin/env bash
# tools/abi.sh check|update: the exported symbols and the public types of build/libmmsb.so against abi/, or the types written
# anew.
#   abi/libmmsb.symbols  a line a function: name@node and the release it came with; `make generate` writes it from the header
#   abi/libmmsb-0.abi    what abidw sees of functions and types, restricted to include/
set -euo pipefail
cd "$(dirname "$0")/.."
library=build/libmmsb.so
symbols=abi/libmmsb.symbols
types=abi/libmmsb-0.abi
export LC_ALL=C

exported_symbols() {
    nm -D --defined-only "$library" | awk '$2 != "A" { sub("@@", "@", $3); print $3 }' | sort
}

listed_symbols() {
    grep -v '^#' "$symbols" | cut -d ' ' -f 1
}

# Public types only, so that Go's own and the page records stay out of the comparison.
describe() {
    abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-corpus-path --no-comp-dir-path \
        --no-show-locs --type-id-style hash --no-write-default-sizes --out-file "$1" "$library"
}

case ${1:-} in
update)
    describe "$types"
    ;;
check)
    passed=0
    failed=0
    if diff -u <(listed_symbols) <(exported_symbols); then
        passed=$((passed + 1))
    else
        echo "The library exports (+) other symbols than $symbols lists (-), which follows include/mmsb.h." >&2
        failed=$((failed + 1))
    fi
    # abidiff's status is 0 only when nothing differs.
    describe build/libmmsb.abi
    if abidiff "$types" build/libmmsb.abi; then
        passed=$((passed + 1))
    else
        echo "Public functions or types differ from $types. If that is meant: docs/abi.md, then make abi-update." >&2
        failed=$((failed + 1))
    fi
    echo "$passed passed, $failed failed"
    exit "$failed"
    ;;
*)
    echo "usage: tools/abi.sh check|update" >&2
    exit 2
    ;;
esac

#!/usr/bin/env bash
# tools/abi.sh check|update: the exported symbols and the public types of build/libmmsb.so against abi/, or abi/ written anew.
#   abi/libmmsb.symbols  a line a function: name@node and the release it came with
#   abi/libmmsb-0.abi    what abidw sees of functions and types, restricted to include/
set -euo pipefail
cd "$(dirname "$0")/.."
library=build/libmmsb.so
symbols=abi/libmmsb.symbols
types=abi/libmmsb-0.abi
export LC_ALL=C

# The release of each function is the last word of its comment in the header.
exported_symbols() {
    join -a 1 -e '?' -o 0,1.2,2.2 \
        <(nm -D --defined-only "$library" | awk '$2 != "A" { split($3, part, "@@"); print part[1], part[2] }' | sort) \
        <(awk '/Since [0-9]/ { match($0, /Since [0-9.]+[0-9]/); since = substr($0, RSTART + 6, RLENGTH - 6) }
               /^MMSB_API/ { match($0, /mmsb_[a-z0-9_]+\(/); print substr($0, RSTART, RLENGTH - 1), since }' include/mmsb.h |
            sort) |
        awk '{ print $1 "@" $2, $3 }'
}

# Public types only, so that Go's own and the page records stay out of the comparison.
describe() {
    abidw --headers-dir include --drop-private-types --exported-interfaces-only --no-corpus-path --no-comp-dir-path \
        --no-show-locs --type-id-style hash --no-write-default-sizes --out-file "$1" "$library"
}

case ${1:-} in
update)
    mkdir -p abi
    exported_symbols > "$symbols"
    describe "$types"
    ;;
check)
    passed=0
    failed=0
    if diff -u "$symbols" <(exported_symbols); then
        passed=$((passed + 1))
    else
        echo "The exported symbols differ from $symbols. If that is meant: make abi-update, and CHANGELOG.md." >&2
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

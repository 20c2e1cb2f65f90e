#!/usr/bin/env bash
# tools/fuzz.sh CALLS [SEED]: random calls of the C ABI against a model, on a library with assertions whose C door counts the
# lines that ran. Fails below 90 % of them.
set -euo pipefail
cd "$(dirname "$0")/.."
wanted=90
folder=$PWD/build/coverage
rm -rf "$folder"
mkdir -p "$folder/tmp"

# The door alone is compiled for that, by flags in a file that -overlay puts into its package; all else is as compiled for
# build/test/libmmsb.so. The compiler's notes lie beside the objects in Go's work folder, which -work keeps. The define makes the
# door compile anew.
cat > "$folder/coverage.go" << FLAGS
package main

// #cgo CFLAGS: --coverage -fprofile-update=atomic -DMMSB_COVERAGE_RUN=$$
// #cgo LDFLAGS: --coverage
import "C"
FLAGS
python3 - "$folder" << 'OVERLAY'
import json, os, sys

replaced = "build/go-overlay/overlay.json"
overlay = json.load(open(replaced)) if os.path.exists(replaced) else {"Replace": {}}
overlay["Replace"][os.path.abspath("capi/coverage.go")] = sys.argv[1] + "/coverage.go"
json.dump(overlay, open(sys.argv[1] + "/overlay.json", "w"))
OVERLAY
GOTMPDIR=$folder/tmp CGO_CFLAGS="${CGO_CFLAGS:-} -DMMSB_INVARIANTS" \
    CGO_CFLAGS_ALLOW='--coverage|-fprofile-update=atomic' CGO_LDFLAGS_ALLOW=--coverage \
    tools/build_library.sh "$folder/libmmsb.so" -tags mmsbtest,invariants -work -overlay "$folder/overlay.json" \
    2> "$folder/build.log" || { cat "$folder/build.log"; exit 1; }

status=0
LD_LIBRARY_PATH=$folder build/c/fuzz.run "$@" || status=1

# b001 is what Go calls the package it was asked to build.
for count in "$folder"/tmp/go-build*/b001/*.gcda; do
    gcov --no-output --object-directory "$(dirname "$count")" "$count" 2> /dev/null
done | awk -v wanted="$wanted" '
    /^File / { file = substr($2, 2, length($2) - 2) }
    /^Lines executed:/ && file ~ /\.c$/ && file !~ /_cgo|test_hooks/ {
        split($0, part, /[:%]/)
        total += $NF
        ran += part[2] * $NF / 100
        printf "%6.1f %% of %4d lines  %s\n", part[2], $NF, file
        file = ""
    }
    END {
        covered = total ? 100 * ran / total : 0
        printf "the fuzz reached %.1f %% of the lines of the C door (%d wanted)\n", covered, wanted
        print (covered >= wanted ? "1 passed, 0 failed" : "0 passed, 1 failed")
        exit covered < wanted
    }' || status=1
exit $status

#!/bin/sh
# run.sh [FOLDER]: checks and measures the library on this machine's GPU, and writes what came out to FOLDER (results beside
# this script): results.txt to read, results.json for programs, and what each program has said. It needs an NVIDIA driver, glibc
# 2.28 or newer and a shell with the usual tools; python3, where there is one, for the checks of the Python package.
#
# Each check has passed, failed, or was not run, with the reason. The exit status is 1 where one has failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-$here/results}
mkdir -p "$out" || exit 2
out=$(cd "$out" && pwd)
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
TMPDIR=${TMPDIR:-$out}
export LD_LIBRARY_PATH TMPDIR

text() { # a line as a string of JSON
    printf '%s' "$1" | tr '\t\r\n' '   ' | sed 's/\\/\\\\/g; s/"/\\"/g'
}

failed=0
entries=
note() { # NAME VERDICT SECONDS REASON
    printf '%-36s %-8s %6s s  %s\n' "$1" "$2" "$3" "$4"
    entries="$entries${entries:+,
}    {\"name\": \"$(text "$1")\", \"verdict\": \"$2\", \"seconds\": $3, \"text\": \"$(text "$4")\"}"
    if [ "$2" = failed ]; then failed=1; fi
}

# check NAME COMMAND...: a program that prints `not run: REASON` for what this machine does not have.
check() {
    name=$1
    shift
    said=$out/$(printf '%s' "$name" | tr -c 'a-zA-Z0-9' '-').txt
    begin=$(date +%s)
    "$@" > "$said" 2>&1
    status=$?
    seconds=$(($(date +%s) - begin))
    reason=$(grep -m 1 -o 'not run: .*' "$said")
    if [ $status -ne 0 ]; then
        note "$name" failed $seconds "exit status $status, $(tail -n 1 "$said")"
    elif [ -n "$reason" ]; then
        note "$name" "not run" $seconds "$reason"
    else
        note "$name" passed $seconds "$(grep -E 'passed|^ok|^PASS' "$said" | tail -n 1)"
    fi
}

measure() {
    "$here/bin/bench" > "$out/rows.jsonl" || return
    grep -q '"ours"' "$out/rows.jsonl" || sed -n '1s/.*"why": "\([^"]*\)".*/not run: \1/p' "$out/rows.jsonl"
}

# sanitizer: the machine's own compute-sanitizer, which knows its driver, else the one here, where it starts.
sanitizer() {
    for found in "$(command -v compute-sanitizer)" /usr/local/cuda*/bin/compute-sanitizer "$here/sanitizer/compute-sanitizer"; do
        if [ -x "$found" ] && "$found" --version > /dev/null 2>&1; then
            echo "$found"
            return
        fi
    done
}

unchecked() { note "$1" "not run" 0 "not run: $2"; }

gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null | head -n 1)
{
    echo "libmmsb $(cat "$here/VERSION"), $(uname -srm), GPU: ${gpu:-not known to nvidia-smi}"
    check "conformance of the driver" "$here/bin/conformance" -test.v -test.run '^TestGPU'
    check "pages in every place" env MMSB_TEST_GPU="${MMSB_TEST_GPU:-1}" "$here/bin/places"
    if command -v python3 > /dev/null; then
        check "the Python package" env PYTHONPATH="$here/python" MMSB_LIBRARY="$here/lib/libmmsb.so.0" \
            python3 "$here/python/places.py"
    else
        unchecked "the Python package" "there is no python3"
    fi
    # The suite makes calls that the driver refuses: those are no finding of memcheck's.
    sanitizer=$(sanitizer)
    for tool in "memcheck --report-api-errors no" racecheck initcheck; do
        if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
            unchecked "compute-sanitizer, ${tool%% *}" "there is neither /dev/nvidiactl nor /dev/dxg"
        elif [ -n "$sanitizer" ]; then
            # shellcheck disable=SC2086 # the tool and its options are words
            check "compute-sanitizer, ${tool%% *}" "$sanitizer" --tool $tool --error-exitcode 9 \
                "$here/bin/conformance" -test.v -test.run '^TestGPU'
        else
            unchecked "compute-sanitizer, ${tool%% *}" "compute-sanitizer does not start on this machine"
        fi
    done
    check "speed of kernels and syncs" measure
    number='\([0-9.e+-]*\)' string='"\([^"]*\)"'
    grep -h '"kind": "row"' "$out/rows.jsonl" 2> /dev/null |
        sed -n "s/.*\"what\": $string, \"unit\": $string.*\"ours\": $number, \"peer\": $number.*/\1: \3 \2, \4 beside it/p"
    {
        printf '{\n  "version": "%s",\n  "system": "%s",\n  "gpu": "%s",\n  "checks": [\n%s\n  ],\n  "rows": [\n' \
            "$(text "$(cat "$here/VERSION")")" "$(text "$(uname -srm)")" "$(text "$gpu")" "$entries"
        grep -h '^{' "$out/rows.jsonl" 2> /dev/null | sed '$!s/$/,/; s/^/    /'
        printf '  ]\n}\n'
    } > "$out/results.json"
    echo "$failed" > "$out/.failed"
} | tee "$out/results.txt"
status=$(cat "$out/.failed" 2> /dev/null || echo 2) # 2: it was cut off
rm -f "$out/.failed"
exit "$status"

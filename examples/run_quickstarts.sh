#!/bin/sh
# Runs the quickstarts and the programs of the README, of docs/state-that-survives.md and of docs/interchange.md unchanged against
# the library that `make` built. Without a GPU they use the simulated device, which they ask for; one run without asking for it
# checks that there is then no device.
# Last line: N passed, M failed. Exit code 0 only if nothing failed.
#
# Environment, by default what `make` built: MMSB_LIBRARY, PYTHON, JULIA; CC and CXX.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
work=$root/build/quickstarts
MMSB_LIBRARY=${MMSB_LIBRARY:-$root/build/libmmsb.so}
PYTHON=${PYTHON:-$root/build/venv/bin/python}
if [ -z "${JULIA:-}" ]; then
    JULIA=$(command -v julia) || JULIA=$root/build/julia/usr/bin/julia
fi
# Julia writes compiled code into its depot.
JULIA_DEPOT_PATH=${JULIA_DEPOT_PATH:-$root/build/julia-depot}
export MMSB_LIBRARY JULIA_DEPOT_PATH
libraries=$(dirname "$MMSB_LIBRARY")

passed=0
failed=0

# check NAME COMMAND...: prints one line, and the command's output if it failed.
check() {
    name=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        code=$?
        failed=$((failed + 1))
        echo "FAILED  $name (exit code $code)"
        sed 's/^/        /' "$work/output"
    fi
}

runs_in_c() {
    "${CC:-cc}" -std=c99 -Wall -Wextra -pedantic -Werror -Iinclude "$work/$1" -o "$work/c" \
        -L"$libraries" -lmmsb "-Wl,-rpath,$libraries" && (cd "$work" && ./c)
}

runs_in_cxx() {
    "${CXX:-c++}" -std=c++17 -Wall -Wextra -pedantic -Werror -Iinclude -x c++ "$work/$1" -o "$work/cxx" \
        -L"$libraries" -lmmsb "-Wl,-rpath,$libraries" && (cd "$work" && ./cxx)
}

runs_in_python() {
    (cd "$work" && "$PYTHON" "$1")
}

becomes_julia() {
    cd "$work" && exec "$JULIA" --startup-file=no "--project=$root/bindings/julia" "$@"
}

runs_in_julia() {
    (becomes_julia "$@")
}

# The programs of a document in a language: the lines between ```LANGUAGE and ```.
programs_of() {
    awk -v start="\`\`\`$2" '$0 == "```" { inside = 0 } inside; $0 == start { inside = 1 }' "$1"
}

rm -rf "$work"
mkdir -p "$work" || exit 1
cp examples/quickstart.c examples/quickstart.py examples/quickstart.jl "$work" || exit 1
for language in c python julia; do
    case $language in python) ending=py ;; julia) ending=jl ;; *) ending=$language ;; esac
    programs_of README.md $language >"$work/readme.$ending"
    check "the README has a program in $language" test -s "$work/readme.$ending"
    programs_of docs/state-that-survives.md $language >"$work/survives.$ending"
    check "the guide to stores has a program in $language" test -s "$work/survives.$ending"
done
for program in quickstart readme survives; do
    check "$program.c as C99" runs_in_c "$program.c"
    check "$program.c as C++17" runs_in_cxx "$program.c"
    check "$program.py" runs_in_python "$program.py"
    check "$program.jl" runs_in_julia "$program.jl"
done

# The guide's programs count their runs: what one run has written the next one has.
runs_again() {
    "$@" && grep -qx "run $count" "$work/output"
}
count=3 check "survives.c goes on" runs_again runs_in_c survives.c
count=2 check "survives.py goes on" runs_again runs_in_python survives.py
count=2 check "survives.jl goes on" runs_again runs_in_julia survives.jl
programs_of docs/interchange.md python >"$work/interchange.py"
check "interchange.py" runs_in_python interchange.py
programs_of docs/interchange.md cpp >"$work/interchange.cpp"
check "interchange.cpp" runs_in_cxx interchange.cpp
cp examples/cache.cpp "$work" || exit 1
check "cache.cpp" runs_in_cxx cache.cpp
check "document_store.py" runs_in_python "$root/examples/document_store.py"

# Gray–Scott, undisturbed, and killed at three steps: both end with the same picture.
killed_gray_scott() {
    program=$root/examples/gray_scott.jl
    kills=0
    runs_in_julia "$program" undisturbed 600 undisturbed.png || return
    for step in 50 200 400; do
        becomes_julia "$program" killed 600 killed.png >"$work/killed.log" 2>&1 &
        looks=0 # it may come to its end unseen on a busy machine
        until grep -q "^step $step\$\|ERROR" "$work/killed.log" || [ $((looks += 1)) -gt 3000 ]; do sleep 0.01; done
        kill -9 $!
        wait $!
        [ $? -eq 137 ] && kills=$((kills + 1))
    done
    runs_in_julia "$program" killed 600 killed.png && [ $kills -gt 0 ] && cmp "$work/undisturbed.png" "$work/killed.png"
}
check "gray_scott.jl, killed and restored" killed_gray_scott

# Simulation is never silent: a program that does not ask for it has no device.
sed '/options.simulate/d' "$work/quickstart.c" >"$work/unasked.c"
says_no_device() {
    [ -e /dev/nvidiactl ] || MMSB_SIMULATE=off runs_in_c unasked.c 2>&1 | grep -q "no NVIDIA driver\|no device"
}
check "unasked.c finds no device" says_no_device

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

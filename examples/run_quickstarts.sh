#!/bin/sh
# Runs the quickstarts and the README's programs against the library that `make` built. The whole quickstarts need a device;
# until the library has them, quickstarts-today.patch deletes what needs one, and this script makes sure that the patch only
# deletes.
# Last line: N passed, M failed. Exit code 0 only when nothing failed.
#
# Environment, each with what `make` built as its default: MMSB_LIBRARY, PYTHON, JULIA; CC and CXX.
set -u
cd "$(dirname "$0")/.." || exit 1
root=$PWD
work=$root/build/quickstarts
MMSB_LIBRARY=${MMSB_LIBRARY:-$root/build/libmmsb.so}
PYTHON=${PYTHON:-$root/build/venv/bin/python}
if [ -z "${JULIA:-}" ]; then
    JULIA=$(command -v julia) || JULIA=$root/build/julia/usr/bin/julia
fi
# Julia writes what it compiles into its depot.
JULIA_DEPOT_PATH=${JULIA_DEPOT_PATH:-$root/build/julia-depot}
export MMSB_LIBRARY JULIA_DEPOT_PATH
libraries=$(dirname "$MMSB_LIBRARY")

passed=0
failed=0

# check NAME COMMAND...: one line, with the command's output where it failed.
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

only_deletes() {
    "$PYTHON" examples/only_deletes.py "$1" "$2"
}

# The planted mistake: one character more than the original must be refused.
refuses_additions() {
    sed '1s/$/ /' "$1" >"$work/added" && ! only_deletes "$1" "$work/added"
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

runs_in_julia() {
    (cd "$work" && "$JULIA" --startup-file=no "--project=$root/bindings/julia" "$1")
}

# The README's program in a language: what stands between ```LANGUAGE and ```.
readme_program() {
    awk -v start="\`\`\`$1" '$0 == "```" { inside = 0 } inside; $0 == start { inside = 1 }' README.md
}

rm -rf "$work"
mkdir -p "$work" || exit 1
cp examples/quickstart.c examples/quickstart.py examples/quickstart.jl "$work" || exit 1
# Without the ceiling git would find this repository and skip files in its ignored build folder, silently.
if ! GIT_CEILING_DIRECTORIES=$root/build git -C "$work" apply -p2 "$root/examples/quickstarts-today.patch"; then
    echo "quickstarts-today.patch does not apply" >&2
    echo "0 passed, 1 failed"
    exit 1
fi

for file in quickstart.c quickstart.py quickstart.jl; do
    check "$file: the patch deletes something" sh -c '! cmp -s "$1" "$2"' - "examples/$file" "$work/$file"
    check "$file: the patch only deletes" only_deletes "examples/$file" "$work/$file"
    check "$file: an added character is refused" refuses_additions "examples/$file"
done
for language in c python julia; do
    case $language in python) ending=py ;; julia) ending=jl ;; *) ending=$language ;; esac
    readme_program $language >"$work/readme.$ending"
    check "the README has a program in $language" test -s "$work/readme.$ending"
done
for program in quickstart readme; do
    check "$program.c as C99" runs_in_c "$program.c"
    check "$program.c as C++17" runs_in_cxx "$program.c"
    check "$program.py" runs_in_python "$program.py"
    check "$program.jl" runs_in_julia "$program.jl"
done

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/usr/bin/env bash
# tools/check.sh PART...: the parts of `make check`, rules and vet, each from quick to slow. Every check runs, also after one has
# failed; the last lines count them.
set -uo pipefail
cd "$(dirname "$0")/.."

check=build/venv-check/bin
passed=0
failed=0
failed_rules=0 # pytest counts its own

# step NAME COMMAND...: one line; the command's output where it failed.
step() {
    local name=$1 output
    shift
    if output=$("$@" 2>&1); then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        failed=$((failed + 1))
        printf '%s\nFAILED  %s\n' "$output" "$name"
    fi
}

# files PATTERN...: tracked and new files whose names match; the quickstarts keep the bytes they came with.
files() {
    local file pattern
    tools/tree_files.sh --cached --others --exclude-standard | while read -rd '' file; do
        for pattern; do
            # shellcheck disable=SC2053
            [[ $file != $pattern || $file == examples/quickstart.* || ! -e $file ]] || echo "$file"
        done
    done
}

# over KIND... -- COMMAND...: the command with those files as its last arguments.
over() {
    local kinds=()
    while [[ $1 != -- ]]; do
        kinds+=("$1")
        shift
    done
    shift
    files "${kinds[@]}" | xargs -r "$@"
}

go_format() {
    local unformatted
    unformatted=$(over '*.go' -- gofmt -l) && [[ -z $unformatted ]] || {
        echo "$unformatted"
        return 1
    }
}

shell_syntax() {
    local file bad=0
    while read -r file; do
        "$(head -n 1 "$file" | grep -o '[a-z]*$')" -n "$file" || bad=1
    done < <(files '*.sh' .ci/run)
    return $bad
}

# The header includes nothing but what it needs, so it must compile with nothing before it.
header_alone() {
    "$@" -Iinclude -Wall -Wextra -pedantic -Werror -fsyntax-only -include mmsb.h /dev/null
}

# cxx_header COMPILER: mmsb.hpp alone, in both of its forms, and its tests.
cxx_header() {
    local compile=("$1" -std=c++17 -Iinclude -Itests/c -Wall -Wextra -pedantic -Werror -fsyntax-only) name=$1
    step "mmsb.hpp alone, $name" "${compile[@]}" -x c++ -include mmsb.hpp /dev/null
    step "mmsb.hpp without exceptions, $name" "${compile[@]}" -fno-exceptions -DMMSB_EXPECTED -x c++ -include mmsb.hpp /dev/null
    step "programs with mmsb.hpp, $name" "${compile[@]}" tests/c/hpp_test.cpp tests/c/hpp_expected_test.cpp examples/cache.cpp
}

# The Python package has rules of its own in its pyproject.toml; tools and tests have tools/ruff.toml.
python_lint() {
    files '*.py' | grep -v '^bindings/' | xargs "$check/ruff" "$@" --quiet --no-cache --config tools/ruff.toml &&
        (cd bindings/python && ../../"$check/ruff" "$@" --quiet --no-cache src tests hatch_build.py)
}

# The package's own settings for the package; of the tools, those that are typed.
python_types() {
    "$check/mypy" --strict --no-error-summary --cache-dir build/mypy tools/generate_interface.py tools/c_header.py \
        docs/site/build.py &&
        (cd bindings/python && ../../"$check/mypy" --strict --no-error-summary --cache-dir ../../build/mypy \
        --python-executable ../../build/venv/bin/python)
}

rules() {
    step "generated files follow mmsb.h" "$check/python" tools/generate_interface.py --check
    step "shell scripts parse" shell_syntax
    step "header alone as C99" header_alone gcc -x c -std=c99
    step "header alone as C11" header_alone gcc -x c -std=c11
    step "header alone as C++17" header_alone g++ -x c++ -std=c++17
    cxx_header g++
    ! command -v clang++ > /dev/null || cxx_header clang++
    step "gofmt" go_format
    step "clang-format" over '*.c' '*.h' '*.cpp' '*.hpp' '*.cu' -- "$check/clang-format" --dry-run -Werror
    step "ruff check" python_lint check
    step "ruff format" python_lint format --check
    step "mypy --strict" python_types
    step "go.mod is tidy" go mod tidy -diff
    "$check/python" -m pytest -q -p no:cacheprovider tests/check || failed_rules=1
}

vet() {
    step "go vet" go vet ./...
    step "go vet with kernels" go vet -tags netgo,osusergo,mmsbcuda ./gpu/kernels
    step "staticcheck" build/bin/staticcheck ./...
}

for part; do
    "$part"
done
echo "$passed passed, $failed failed"
exit $((failed + failed_rules > 0))

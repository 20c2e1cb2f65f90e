#!/usr/bin/env bash
# Installs the wheel into a clean environment and uses it from another folder, with nothing that points to this one.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$PWD/build/test-wheel
rm -rf "$work"
mkdir -p "$work/elsewhere"

shopt -s nullglob
wheels=(build/wheel/mmsb-*-py3-none-manylinux_2_28_"$(uname -m)".whl)
((${#wheels[@]} == 1)) || { echo "expected one wheel in build/wheel, found: $(ls build/wheel)" >&2; exit 1; }
wheel=$PWD/${wheels[0]}

python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel"
cd "$work/elsewhere"
env -u MMSB_LIBRARY -u PYTHONPATH "$work/venv/bin/python" - "$work/venv" << 'PROGRAM'
import sys

import mmsb

assert mmsb.__file__.startswith(sys.argv[1]), mmsb.__file__
with mmsb.Context() as context:
    page = context.create_page(4096)
    page.write(7, b"hello")
    assert page.read(7, 5) == b"hello"
with open("/proc/self/maps") as maps:
    libraries = {line.split()[-1] for line in maps if "libmmsb" in line}
assert len(libraries) == 1 and libraries.pop().startswith(sys.argv[1])
with mmsb.open("state") as store:
    store.create_page(4096)
PROGRAM
version=$("$work/venv/bin/mmsb" --version)
[[ $version == *"$(basename "$wheel" | cut -d - -f 2)"* ]] || { echo "the tool says $version" >&2; exit 1; }
"$work/venv/bin/mmsb" store verify state > /dev/null
echo "1 passed, 0 failed"

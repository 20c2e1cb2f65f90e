#!/usr/bin/env bash
# The wheel for arm64, which was built on another machine: a Python for arm64 gets it, and the quickstart and the tool run, all
# emulated. What an emulator shows is that the code runs and its calls fit, not how an arm64 machine orders memory.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$root/build/test-arm64
system=$root/build/arm64/root
rm -rf "$work"
mkdir -p "$work/site"
unset MMSB_LIBRARY
. tests/install/steps.sh

# NumPy for the Python that is emulated, at this tree's version.
export PYTHONPATH=$work/site
python=$(basename "$(readlink -f "$system/usr/bin/python3")")
# The emulator keeps some bytes for each page of addresses, also of those that are only reserved. Simulated devices would reserve
# 16 TiB, and less where that is refused, but for one as large as the machine's memory: Go has 34 GiB beside that.
addresses=$((6 * $(awk '$1 == "MemTotal:" { print $2 }' /proc/meminfo) + (40 << 20)))
emulated() {
    (ulimit -v "$addresses" && cd "$work" && timeout 1200 qemu-aarch64 "$system/usr/bin/$python" "$@")
}

installs() {
    local numpy
    numpy=$(build/venv/bin/python -c 'import importlib.metadata as m; print(m.version("numpy"))') &&
        build/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --target "$work/site" --no-deps \
            --only-binary :all: --implementation cp --python-version "${python#python}" --platform manylinux_2_28_aarch64 \
            --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64 \
            "numpy==$numpy" build/wheel-arm64/mmsb-*_aarch64.whl
}

is_for_arm64() {
    readelf -h "$work/site/mmsb/_lib/libmmsb.so" "$work/site/bin/mmsb" | grep -c 'Machine: *AArch64' | grep -x 2 &&
        [[ $(printf 'GLIBC_2.28\n%s\n' "$(readelf -W --dyn-syms "$work/site/mmsb/_lib/libmmsb.so" |
            grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)" | sort -V | tail -n 1) == GLIBC_2.28 ]]
}

quickstart() {
    emulated "$root/examples/quickstart.py" && emulated - << 'PROGRAM'
import platform

import mmsb

assert platform.machine() == "aarch64", platform.machine()
assert "sm_90" in mmsb.build_info(), mmsb.build_info()  # GPUs run the same code beside processors of both kinds
with mmsb.open("state") as store:
    page = store.create_page(1 << 20, id=1)
    page.array("float32")[:] = 1.0
    page.write(7, b"hello")
    store.name("here")
with mmsb.open("state", at="here") as then:
    assert then.page(1).read(7, 5) == b"hello"
PROGRAM
}

tool() {
    qemu-aarch64 "$work/site/bin/mmsb" version && qemu-aarch64 "$work/site/bin/mmsb" store verify "$work/state" &&
        qemu-aarch64 "$work/site/bin/mmsb" snapshot verify testdata/snapshots/*/*
}

# A wheel for another machine is no wheel for this one.
refused_here() {
    ! build/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --target "$work/here" \
        build/wheel-arm64/mmsb-*_aarch64.whl
}

step "the wheel installs, and NumPy" installs
step "library and tool are for arm64 and glibc 2.28" is_for_arm64
step "the quickstart in Python, emulated, and a store" quickstart
step "the tool, emulated, on that store and on files of this tree" tool
[[ $(uname -m) == aarch64 ]] || step "this machine refuses the wheel" refused_here
close_steps

#!/usr/bin/env bash
# Debian's checker on the packages of `make deb`; then dpkg installs them into a root of their own, without root, where programs
# find the library as on a system. Prints `N passed, M failed`.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$root/build/test-deb
system=$work/system
triplet=$(gcc -dumpmachine)
libraries=$system/usr/lib/$triplet
rm -rf "$work"
mkdir -p "$work" "$system"/var/lib/dpkg/{info,updates}
touch "$system/var/lib/dpkg/status"
unset MMSB_LIBRARY PYTHONPATH MAKEFLAGS MFLAGS MAKELEVEL
. tests/install/steps.sh

lintian_finds_nothing() {
    build/bin/lintian --allow-root --fail-on error,warning "$@"
}

# A mistake that is planted: the library may be executed.
lintian_would_find_something() {
    dpkg-deb --raw-extract build/deb/libmmsb0_*.deb "$work/spoiled" && chmod +x "$work/spoiled/usr/lib/$triplet/"*.so.*.* &&
        dpkg-deb --build --root-owner-group -z1 "$work/spoiled" "$work/spoiled.deb" &&
        ! lintian_finds_nothing "$work/spoiled.deb" > "$work/spoiled.txt" && grep shared-library-is-executable "$work/spoiled.txt"
}

gives_the_same_twice() {
    tools/build_debs.sh "$work/again" "$(dpkg-deb -f build/deb/libmmsb0_*.deb Version | cut -d - -f 1)" &&
        diff -r build/deb "$work/again"
}

# libc6 and python3 are not in that root.
dpkg_there() {
    PATH=$PATH:/usr/sbin:/sbin dpkg --root="$system" --force-not-root --force-script-chrootless --force-depends "$@"
}

dpkg_installs() {
    dpkg_there --install build/deb/*.deb &&
        [[ $(dpkg-query --admindir="$system/var/lib/dpkg" -W -f '${db:Status-Status}\n' | sort | uniq -c) == *"4 installed" ]] &&
        (cd "$system" && md5sum --quiet -c var/lib/dpkg/info/*.md5sums)
}

quickstart_in_c() {
    local flags
    flags=$(PKG_CONFIG_SYSROOT_DIR=$system PKG_CONFIG_LIBDIR=$libraries/pkgconfig pkg-config --cflags --libs mmsb) || return
    echo "$flags"
    # shellcheck disable=SC2086
    cd "$work" && gcc -std=c99 "$root/examples/quickstart.c" $flags -o c && LD_LIBRARY_PATH=$libraries ./c
}

by_cmake() {
    cmake -S tests/install/consumer -B "$work/cmake" -DCMAKE_PREFIX_PATH="$system/usr" && cmake --build "$work/cmake" &&
        grep "mmsb_DIR:PATH=$libraries" "$work/cmake/CMakeCache.txt" && "$work/cmake/consumer_c" && "$work/cmake/consumer_cpp"
}

tool_runs() {
    "$system/usr/bin/mmsb" snapshot verify testdata/snapshots/*/* && zcat "$system/usr/share/man/man1/mmsb.1.gz" | grep -q '^\.TH'
}

quickstart_in_python() {
    export PYTHONPATH=$system/usr/lib/python3/dist-packages
    cp examples/quickstart.py "$work" && cd "$work" && "$root/build/venv/bin/python" quickstart.py &&
        "$root/build/venv/bin/python" - "$system" << 'PROGRAM'
import importlib.metadata
import sys

import mmsb

mmsb.Context().close()
assert mmsb.__file__.startswith(sys.argv[1]), mmsb.__file__
assert importlib.metadata.version("mmsb") == mmsb.__version__
with open("/proc/self/maps") as maps:
    assert {line.split()[-1].startswith(sys.argv[1]) for line in maps if "libmmsb" in line} == {True}
PROGRAM
}

dpkg_removes() {
    dpkg_there --purge libmmsb0 libmmsb-dev mmsb python3-mmsb &&
        [[ -z $(find "$system" -path "$system/var" -prune -o ! -type d -print) ]]
}

. tests/install/cmake_and_pkg_config.sh
step "lintian finds nothing" lintian_finds_nothing build/deb/*.deb
step "lintian finds a planted mistake" lintian_would_find_something
step "the same tree gives the same packages" gives_the_same_twice
step "dpkg installs them" dpkg_installs
step "the quickstart in C, by pkg-config with a sysroot" quickstart_in_c
step "a program by find_package" by_cmake
step "the tool and its manual page" tool_runs
step "the quickstart in Python" quickstart_in_python
step "dpkg removes them" dpkg_removes
close_steps

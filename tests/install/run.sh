#!/usr/bin/env bash
# Installs the library in two ways and builds and runs a C and a C++ program against it by find_package, by pkg-config and by
# add_subdirectory. Prints `N passed, M failed`.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$root/build/test-install
rm -rf "$work"
mkdir -p "$work"
unset MMSB_LIBRARY MAKEFLAGS MFLAGS MAKELEVEL

. tests/install/cmake_and_pkg_config.sh
. tests/install/steps.sh

install_by_make() {
    make install PREFIX="$work/by-make"
}

install_by_cmake() {
    cmake -S . -B "$work/cmake" && cmake --build "$work/cmake" && cmake --install "$work/cmake" --prefix "$work/by-cmake"
}

same_files() {
    diff -r "$work/by-make" "$work/by-cmake"
}

# consumer FOLDER OPTION...: configures, builds and runs both programs.
consumer() {
    local folder=$work/$1
    shift
    cmake -S tests/install/consumer -B "$folder" "$@" && cmake --build "$folder" && "$folder/consumer_c" && "$folder/consumer_cpp"
}

# A prefix that was moved must still work, so it is.
moved_prefix() {
    mv "$work/by-make" "$work/moved" && consumer find-package -DCMAKE_PREFIX_PATH="$work/moved"
}

installed_tool() {
    local prefix=$work/moved script
    "$prefix/bin/mmsb" version | grep -q "^mmsb [0-9]*\.[0-9]*\.[0-9]*$" &&
        "$prefix/bin/mmsb" snapshot verify testdata/snapshots/*/* &&
        grep -q "^\.B \"mmsb snapshot verify FILE" "$prefix/share/man/man1/mmsb.1" || return 1
    for script in bash-completion/completions/mmsb zsh/site-functions/_mmsb fish/vendor_completions.d/mmsb.fish; do
        [[ -s $prefix/share/$script ]] || return 1
    done
    bash -n "$prefix/share/bash-completion/completions/mmsb"
}

# An older or newer minor is refused while the ABI number is 0.
other_version_refused() {
    sed 's/find_package(mmsb 0.1 /find_package(mmsb 0.2 /' tests/install/consumer/CMakeLists.txt > "$work/CMakeLists.txt"
    cp tests/install/consumer/consumer.c "$work"
    ! cmake -S "$work" -B "$work/refused" -DCMAKE_PREFIX_PATH="$work/moved"
}

# by_pkg_config COMPILER LANGUAGE STANDARD
by_pkg_config() {
    local flags
    flags=$(PKG_CONFIG_PATH=$work/moved/lib/pkgconfig pkg-config --cflags --libs mmsb) || return 1
    # shellcheck disable=SC2086
    "$1" -x "$2" -std="$3" -Wall -Wextra -pedantic -Werror tests/install/consumer/consumer.c -x none $flags \
        -Wl,-rpath,"$work/moved/lib" -o "$work/by-pkg-config" && "$work/by-pkg-config"
}

cache_by_pkg_config() {
    local flags
    flags=$(PKG_CONFIG_PATH=$work/moved/lib/pkgconfig pkg-config --cflags --libs mmsb) || return 1
    # shellcheck disable=SC2086
    g++ -std=c++17 -Wall -Wextra -pedantic -Werror examples/cache.cpp $flags -Wl,-rpath,"$work/moved/lib" -o "$work/cache" &&
        "$work/cache"
}

step "make install" install_by_make
step "cmake --install" install_by_cmake
step "both install the same files" same_files
step "find_package, from a moved prefix" moved_prefix
step "the tool, its manual page and completions" installed_tool
step "find_package refuses another minor release" other_version_refused
step "pkg-config, C99" by_pkg_config gcc c c99
step "pkg-config, C++17" by_pkg_config g++ c++ c++17
step "pkg-config, mmsb.hpp" cache_by_pkg_config
step "add_subdirectory" consumer subdirectory -DMMSB_SOURCE="$root"
close_steps

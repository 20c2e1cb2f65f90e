#!/usr/bin/env bash
# The Julia package as Pkg takes it, in a depot of its own: its build step finds the library in each of its ways, or builds it,
# refuses what is none, and the quickstart runs unchanged. Prints `N passed, M failed`. What this tree has compiled is shared.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
work=$root/build/test-julia-package
rm -rf "$work"
mkdir -p "$work"/{alone,checkout,depot/registries/Empty,system}
export GOCACHE=$root/build/cache/go GOMODCACHE=$root/build/cache/go-modules MMSB_CUDA=off
unset MMSB_LIBRARY MAKEFLAGS MFLAGS MAKELEVEL JULIA_PROJECT JULIA_LOAD_PATH
. tests/install/steps.sh

# A depot without a registry makes Pkg fetch the general one, of which this package needs nothing.
printf 'name = "Empty"\nuuid = "3e3e2a4c-0000-4000-8000-000000000001"\nrepo = ""\n\n[packages]\n' \
    > "$work/depot/registries/Empty/Registry.toml"
export JULIA_DEPOT_PATH=$work/depot
julia=$(readlink -f build/julia/usr/bin/julia)

# The package as Pkg lays it into a depot: alone, its files not to be written. And in a checkout, in which nothing is built.
cp -r bindings/julia "$work/alone/MMSB"
rm -f "$work"/alone/MMSB/deps/{build.log,library-path.txt}
find "$work/alone/MMSB" -type f -exec chmod a-w {} +
tools/tree_files.sh --cached --others --exclude-standard | tar --null --files-from=- --ignore-failed-read -cf - 2> /dev/null |
    tar -xf - -C "$work/checkout"

# Libraries that are none of ours: one of other releases, and one of something else.
echo 'int mmsb_abi_version(void) { return 4711; }' | gcc -shared -fPIC -x c - -Wl,-soname,libmmsb.so.0 -o "$work/other.so"
echo 'int nothing;' | gcc -shared -fPIC -x c - -o "$work/nothing.so"

# builds FOLDER: Pkg takes the package that lies there, and runs its build step.
builds() {
    rm -rf "$work/depot/environments"
    "$julia" --startup-file=no -e 'using Pkg; Pkg.develop(path = ARGS[1]); Pkg.build("MMSB"; verbose = true)' "$1"
}

quickstart_has() {
    cat > "$work/which.jl" << PROGRAM
include("$root/examples/quickstart.jl")
using Libdl
println(only(realpath(path) for path in dllist() if occursin("libmmsb", path)) == realpath("$1") ? "the library is $1" : dllist())
PROGRAM
    "$julia" --startup-file=no "$work/which.jl" | tee "$work/which.txt" && grep -qx "the library is $1" "$work/which.txt"
}

named() {
    MMSB_LIBRARY=$root/build/libmmsb.so builds "$work/alone/MMSB" && quickstart_has "$root/build/libmmsb.so"
}

of_system() {
    cp build/libmmsb.so "$work/system/libmmsb.so.0" && export LD_LIBRARY_PATH=$work/system && builds "$work/alone/MMSB" &&
        quickstart_has "$work/system/libmmsb.so.0"
}

# The system's is of another release.
of_checkout() {
    cp "$work/other.so" "$work/system/libmmsb.so.0" && LD_LIBRARY_PATH=$work/system builds "$work/checkout/bindings/julia" 2>&1 |
        tee "$work/built.txt" && grep "passed over: .*has ABI version 4711" "$work/built.txt" &&
        quickstart_has "$work/checkout/build/libmmsb.so"
}

# refuses MESSAGE FILE: the build step says so of the file that MMSB_LIBRARY names, or of none. Pkg 1.5 does not fail then.
refuses() {
    local folder=$work/refused
    rm -rf "$folder" "$work/alone/MMSB/deps/library-path.txt"
    cp -r "$work/alone/MMSB" "$folder"
    if [[ -n $2 ]]; then
        export MMSB_LIBRARY=$2
    fi
    builds "$folder" > "$work/refused.txt" 2>&1
    cat "$work/refused.txt"
    grep -q "$1" "$work/refused.txt" &&
        [[ ! -e $folder/deps/library-path.txt ]]
}

step "the library that MMSB_LIBRARY names, and the quickstart" named
step "the system's library, and the quickstart" of_system
step "a checkout's library is built, not the system's of another release, and the quickstart" of_checkout
step "no library is refused" refuses "no libmmsb.so.0 on this system fits" ""
step "a missing file is refused" refuses "/nowhere/libmmsb.so does not exist.*MMSB_LIBRARY names it" /nowhere/libmmsb.so
step "another release is refused" refuses "has ABI version 4711, [0-9]* expected" "$work/other.so"
step "another library is refused" refuses "is not libmmsb: it has no function mmsb_abi_version" "$work/nothing.so"
step "what is no library is refused" refuses "README.md" "$root/README.md"
close_steps

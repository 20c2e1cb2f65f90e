#!/usr/bin/env bash
# Puts the peers of the benchmarks into build/peers, without root and without touching the system: mimalloc and hwloc as
# Debian's packages, extracted, with lists of apt's own in build/; UMF and safetensors from their wheels. A peer that cannot be
# had is named, and its rows are then not reached.
set -uo pipefail
cd "$(dirname "$0")/.."

readonly mimalloc_version=2.0.9+ds-2 hwloc_version=2.9.0-1 umf_version=1.2.0 safetensors_version=0.8.0
readonly peers=$PWD/build/peers work=$PWD/build/peers/work
readonly wanted="mimalloc $mimalloc_version, hwloc $hwloc_version, UMF $umf_version, safetensors $safetensors_version"

[ "$(cat "$peers/versions" 2>/dev/null)" = "$wanted" ] && exit 0
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/tree"
cd "$work" || exit 1

apt=(-q -o "Dir::State=$work/state" -o "Dir::State::status=/var/lib/dpkg/status" -o "Dir::Cache=$work/cache"
    -o "APT::Sandbox::User=$(id -un)" -o "Acquire::Languages=none" -o "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false")

# Where a system has no apt, or its release has other versions, the packages stay away.
debian_packages() {
    apt-get "${apt[@]}" update &&
        apt-get "${apt[@]}" download "libmimalloc2.0=$mimalloc_version" "libhwloc15=$hwloc_version" &&
        for package in ./*.deb; do dpkg -x "$package" tree || return 1; done &&
        find tree -name 'libmimalloc.so.*' -exec cp -P {} "$peers/" \; &&
        find tree -name 'libhwloc.so.15*' -exec cp -P {} "$peers/" \;
}

python=python3
[ -x ../../venv/bin/python ] && python=../../venv/bin/python

# wheel NAME VERSION FOLDER: its files into the folder.
wheel() {
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps "$1==$2" && "$python" -m zipfile -e "$1-$2"-*.whl "$3"
}

umf_wheel() {
    wheel umf "$umf_version" tree && find tree -name 'libumf.so.1' -exec cp -L {} "$peers/" \;
}

debian_packages >debian.log 2>&1 || echo "bench: no mimalloc $mimalloc_version: $(tail -n 1 debian.log)" >&2
umf_wheel >umf.log 2>&1 || echo "bench: no UMF $umf_version: $(tail -n 1 umf.log)" >&2
wheel safetensors "$safetensors_version" "$peers/python" >safetensors.log 2>&1 ||
    echo "bench: no safetensors $safetensors_version: $(tail -n 1 safetensors.log)" >&2
cd "$peers" || exit 1
if [ -e libmimalloc.so.2 ] && [ -e libhwloc.so.15 ] && [ -e libumf.so.1 ] && [ -e python/safetensors ]; then
    rm -rf "$work"
    echo "$wanted" >versions
fi

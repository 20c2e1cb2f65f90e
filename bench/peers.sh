#!/usr/bin/env bash
# Puts the peers of the benchmarks into build/peers, without root and without touching the system: mimalloc, hwloc, LMDB,
# RocksDB and SQLite as Debian's packages, extracted, with lists of apt's own in build/; UMF and safetensors from their wheels. A
# peer that cannot be had is named, and its rows are then not reached.
set -uo pipefail
cd "$(dirname "$0")/.."

readonly mimalloc_version=2.0.9+ds-2 hwloc_version=2.9.0-1 umf_version=1.2.0 safetensors_version=0.8.0
readonly peers=$PWD/build/peers work=$PWD/build/peers/work
readonly lmdb_version=0.9.24-1 rocksdb_version=7.8.3-2 gflags_version=2.2.2-2 snappy_version=1.1.9-3
readonly sqlite_version=3.40.1-2+deb12u2
readonly wanted="mimalloc $mimalloc_version, hwloc $hwloc_version, UMF $umf_version, safetensors $safetensors_version, \
LMDB $lmdb_version, RocksDB $rocksdb_version, gflags $gflags_version, snappy $snappy_version, SQLite $sqlite_version"

[ "$(cat "$peers/versions" 2>/dev/null)" = "$wanted" ] && exit 0
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/tree"
cd "$work" || exit 1

apt=(-q -o "Dir::State=$work/state" -o "Dir::State::status=/var/lib/dpkg/status" -o "Dir::Cache=$work/cache"
    -o "APT::Sandbox::User=$(id -un)" -o "Acquire::Languages=none" -o "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false")

# debian FILE PACKAGE=VERSION: the package's files of that name. Where a system has no apt, or its release has other versions,
# they stay away.
debian() {
    apt-get "${apt[@]}" download "$2" && dpkg -x "${2%%=*}"_*.deb tree && find tree -name "$1*" -exec cp -P {} "$peers/" \;
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

apt-get "${apt[@]}" update >apt.log 2>&1
debs=("libmimalloc.so libmimalloc2.0=$mimalloc_version" "libhwloc.so.15 libhwloc15=$hwloc_version"
    "liblmdb.so.0 liblmdb0=$lmdb_version" "librocksdb.so.7.8 librocksdb7.8=$rocksdb_version"
    "libgflags.so.2.2 libgflags2.2=$gflags_version" "libsnappy.so.1 libsnappy1v5=$snappy_version"
    "libsqlite3.so.0 libsqlite3-0=$sqlite_version")
for deb in "${debs[@]}"; do
    debian "${deb% *}" "${deb#* }" >debian.log 2>&1 || echo "bench: no ${deb#* }: $(tail -n 1 debian.log)" >&2
done
umf_wheel >umf.log 2>&1 || echo "bench: no UMF $umf_version: $(tail -n 1 umf.log)" >&2
wheel safetensors "$safetensors_version" "$peers/python" >safetensors.log 2>&1 ||
    echo "bench: no safetensors $safetensors_version: $(tail -n 1 safetensors.log)" >&2
cd "$peers" || exit 1
if [ -e libmimalloc.so.2 ] && [ -e libhwloc.so.15 ] && [ -e libumf.so.1 ] && [ -e python/safetensors ] && [ -e liblmdb.so.0 ] &&
    [ -e librocksdb.so.7.8 ] && [ -e libgflags.so.2.2 ] && [ -e libsnappy.so.1 ] && [ -e libsqlite3.so.0 ]; then
    rm -rf "$work"
    echo "$wanted" >versions
fi

#!/usr/bin/env bash
# tests/gpu/bundle.sh ARCHIVE: unpacks the archive into a bare root, which has a shell with its tools and a stand-in for the
# driver's library, but no compiler, no Python, no network and no root, and runs it there.
set -euo pipefail
cd "$(dirname "$0")/../.."
archive=$1
if ! unshare --user --map-root-user --mount --net true 2> /dev/null; then
    echo "not run: this system does not let a program make namespaces of its own"
    exit 0
fi
root=$(mktemp -d "$PWD/build/.bare-root-XXXXXX")
trap 'rm -rf "$root"' EXIT
mkdir -p "$root"/{bin,dev,driver,proc,tmp}
touch "$root/dev/null"

# copy FILE TARGET: with the libraries that it is linked with, where they are here.
copy() {
    cp -L "$1" "$root$2"
    ldd "$1" 2> /dev/null | grep -o '/[^ ]*' | while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done
}
for tool in sh cat date dirname env grep head mkdir rm sed tail tee tr uname; do copy "$(command -v $tool)" "/bin/$tool"; done
copy build/fakecuda/libcuda.so.1 /driver/libcuda.so.1
c_library=$(ldd /bin/sh | grep -o '/[^ ]*/libc\.so\.6')
for part in dl m pthread resolv rt util; do cp -L "${c_library%/*}"/lib$part.so.[0-9] "$root${c_library%/*}"; done # all of glibc
tar -C "$root" -xJf "$archive"

# shellcheck disable=SC2016 # the inner shell's
unshare --user --map-root-user --mount --net sh -c '
    mount --rbind /proc "$0/proc" && mount --bind /dev/null "$0/dev/null" && exec env -i PATH=/bin TMPDIR=/tmp BENCH_QUICK=1 \
        MMSB_TEST_GPU=stand-in LD_LIBRARY_PATH=/driver "$(command -v chroot)" "$0" /bin/sh /mmsb-gpu-bundle/run.sh' "$root" ||
    { cat "$root"/mmsb-gpu-bundle/results/*.txt; exit 1; }

python3 - "$root/mmsb-gpu-bundle/results/results.json" << 'PROGRAM'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    results = json.load(file)
verdicts = {check["name"]: check["verdict"] for check in results["checks"]}
wanted = {"conformance of the driver": "passed", "pages in every place": "passed", "speed of kernels and syncs": "passed"}
assert verdicts.items() >= wanted.items(), verdicts
assert set(verdicts.values()) == {"passed", "not run"}, verdicts
assert sum(row["kind"] == "row" and "ours" in row for row in results["rows"]) == 23, results["rows"]
print(f"{len(wanted)} passed, 0 failed")
PROGRAM

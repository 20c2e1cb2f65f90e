#!/usr/bin/env bash
# The benchmarks: bench/run.sh [part of a row's name]. Builds what is missing into build/, runs, prints the table and writes
# build/bench.json. BENCH_QUICK=1: a few milliseconds a row and no verdicts, to see that everything runs.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly out=$PWD/build/bench library=$PWD/build
readonly cc=${CC:-cc} cxx=${CXX:-c++}
export BENCH_FILTER=${1:-} BENCH_PEERS=$PWD/build/peers BENCH_BUILD=$out BENCH_FILES=$PWD/build/bench-files

if [ ! -e "$library/libmmsb.so.0" ]; then
    echo "bench: $library/libmmsb.so.0 is missing: run make first" >&2
    exit 1
fi
mkdir -p "$out" "$BENCH_FILES"
trap 'rm -rf "$BENCH_FILES"' EXIT
bench/peers.sh

# -fno-plt: a call into a linked library is then one indirect call, like the calls of the peers that are opened at run time.
# -falign: where a loop of calls happens to lie is worth half a nanosecond, to us or to the peer.
flags=(-std=c11 -D_GNU_SOURCE -O2 -g -Wall -Wextra -Werror -fno-plt -falign-functions=64 -falign-loops=64 -Iinclude -Ibench)
"$cc" "${flags[@]}" -fPIC -shared -Wl,-soname,libbench_empty.so bench/empty.c -o "$out/libbench_empty.so"
"$cxx" -std=c++17 -O2 -g -Wall -Wextra -Werror -fPIC -shared -Wl,-soname,libbench_ordered_set.so bench/ordered_set.cpp \
    -o "$out/libbench_ordered_set.so"
for program in pages calls deltas kernels gpu commands memory snapshots journal cache store pools; do
    "$cc" "${flags[@]}" "bench/$program.c" bench/bench.c bench/disk.c bench/bases.c bench/peers.c -o "$out/$program" \
        "$library/libmmsb.so" -Wl,--as-needed "$out/libbench_empty.so" "$out/libbench_ordered_set.so" -Wl,--no-as-needed \
        -ldl -pthread -Wl,--enable-new-dtags,-z,now "-Wl,-rpath,$library:$out"
done
if [ -d "$library/go/bin" ]; then export PATH=$library/go/bin:$PATH; fi
if command -v go >/dev/null; then
    go build -trimpath -buildvcs=false -buildmode=c-shared -o "$BENCH_PEERS/libcgo_empty.so" ./bench/cgo_empty
fi

python=python3
if [ -x build/venv/bin/python ]; then python=build/venv/bin/python; fi

rows=$out/rows.jsonl
: >"$rows"
for program in pages calls deltas kernels gpu commands memory snapshots journal cache store pools; do
    echo "bench: $program" >&2
    "$out/$program" >>"$rows"
done
echo "bench: memory, Go collections" >&2
GODEBUG=gctrace=1 GOGC=1 "$out/memory" collect >>"$rows" 2>"$out/collections.txt" || {
    tail -n 1 "$out/collections.txt" >&2
    exit 1
}
echo "bench: python" >&2
export MMSB_LIBRARY=$library/libmmsb.so
"$python" bench/python.py >>"$rows"
PYTHONPATH=$BENCH_PEERS/python "$python" bench/snapshots.py >>"$rows"
PYTHONPATH=$BENCH_PEERS/python "$python" bench/state.py >>"$rows"
if command -v go >/dev/null; then
    "$python" bench/runtime.py >>"$rows"
    "$python" bench/sync.py >>"$rows"
fi
"$python" bench/table.py "$rows" build/bench.json

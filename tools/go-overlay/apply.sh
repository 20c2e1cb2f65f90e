#!/usr/bin/env bash
# tools/go-overlay/apply.sh FOLDER: prepares what `go build -overlay FOLDER/overlay.json` needs, patched copies of files of Go's
# runtime:
#   main-init-done.diff takes a lock out of the way from C into Go. Until 1.26 every such call receives from the closed channel
#     main_init_done, under the channel's lock, so calls do not scale over threads; 1.27 tests a flag first, and so does the copy.
#   sweep-wait.diff lets the collector's background sweeper sleep where another thread sweeps the rest: 1.26 tries again without
#     a pause while Go has an idle processor, though the machine may have none.
#   monitor-sleep.diff lets the thread that watches over Go's processors wake up 1000 times a second at most, instead of 50 000:
#     it takes them from goroutines in system calls, and the library gives Go more of them than it needs.
#   callers-stay.diff keeps it from interrupting a thread of C that is in a call into Go, which it does as if all calls of 10 ms
#     were one.
# Leaves no overlay.json where Go does the first by itself. Fails, with one line, where that does not fit: the library is then
# built without any. Files that are as they should be stay untouched: another build may be reading them.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
runtime=$(go env GOROOT)/src/runtime

rm -rf new
if grep -q 'mainInitDone.Load()' "$runtime/cgocall.go"; then
    rm -f overlay.json
    exit 0
fi

# patched DIFF FILE...: copies files of the runtime into new, unless another diff has changed them there, and patches them; leaves
# them as they are where it does not fit.
patched() {
    local diff=$1
    shift
    mkdir -p new
    local file
    for file; do
        [ -e "new/$file" ] || cp "$runtime/$file" new
    done
    (cd new && python3 "$here/patch.py" "$here/$diff" 2>> ../apply.log)
}

: > apply.log
if ! patched main-init-done.diff proc.go cgocall.go; then
    rm -f overlay.json
    echo "go-overlay: the patch does not fit $(go env GOVERSION): calls from C into Go will not scale over threads" >&2
    exit 1
fi
patched sweep-wait.diff mgcsweep.go ||
    echo "go-overlay: sweep-wait.diff does not fit $(go env GOVERSION): collections will cost more processor time" >&2
patched monitor-sleep.diff proc.go ||
    echo "go-overlay: monitor-sleep.diff does not fit $(go env GOVERSION): saves will disturb other threads more" >&2
patched callers-stay.diff proc.go ||
    echo "go-overlay: callers-stay.diff does not fit $(go env GOVERSION): some calls into Go will take milliseconds" >&2
replaced=
for file in new/*; do
    replaced+="${replaced:+, }\"$runtime/${file#new/}\": \"$PWD/${file#new/}\""
done
printf '{"Replace": {%s}}\n' "$replaced" > new/overlay.json
for file in new/*; do
    cmp -s "$file" "${file#new/}" || mv "$file" "${file#new/}"
done
rm -rf new

#!/usr/bin/env bash
# tools/go-overlay/apply.sh FOLDER: prepares what `go build -overlay FOLDER/overlay.json` needs to take a lock out of the
# way from C into Go. Until 1.26 every such call receives from the closed channel main_init_done, under the channel's lock,
# so calls do not scale over threads; 1.27 tests a flag first, and so does the patched copy. Leaves no overlay.json where
# Go does so itself. Fails, with one line, where the patch does not fit: the library is then built without it. Files that are as
# they should be stay untouched: another build may be reading them.
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
mkdir new
cp "$runtime/proc.go" "$runtime/cgocall.go" new
if ! (cd new && python3 "$here/patch.py" "$here/main-init-done.diff") 2> apply.log; then
    rm -f overlay.json
    echo "go-overlay: the patch does not fit $(go env GOVERSION): calls from C into Go will not scale over threads" >&2
    exit 1
fi
printf '{"Replace": {"%s": "%s", "%s": "%s"}}\n' \
    "$runtime/proc.go" "$PWD/proc.go" "$runtime/cgocall.go" "$PWD/cgocall.go" > new/overlay.json
for file in proc.go cgocall.go overlay.json; do
    cmp -s "new/$file" "$file" || mv "new/$file" "$file"
done
rm -rf new

#!/usr/bin/env bash
# tools/dist.sh ARCHIVE NAME: the source in one archive, whose folder is NAME: the tracked files as they lie in the tree. The same
# files give the same bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
archive=$1 name=$2
mkdir -p "$(dirname "$archive")"
work=$(mktemp "$archive.XXXXXX")
trap 'rm -f "$work"' EXIT
tools/tree_files.sh | LC_ALL=C sort -z |
    tar --create --format=gnu --owner=0 --group=0 --numeric-owner --mode=u+rw,go+r,go-w,a+X --mtime="@$(tools/source_date.sh)" \
        --transform="flags=r;s,^,$name/," --null --no-recursion --files-from=- | gzip -9n > "$work"
chmod 644 "$work"
mv "$work" "$archive"
trap - EXIT
echo "$archive: $(stat -c %s "$archive") bytes"

#!/usr/bin/env bash
# tools/source_date.sh: the time of the source in seconds since 1970, which everything packed carries: SOURCE_DATE_EPOCH, else the
# last commit's; in an unpacked archive its files have it.
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ -n ${SOURCE_DATE_EPOCH:-} ]]; then
    echo "$SOURCE_DATE_EPOCH"
elif [[ -e .git ]]; then
    git log -1 --format=%ct
else
    stat -c %Y include/mmsb.h
fi

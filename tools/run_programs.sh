#!/usr/bin/env bash
# tools/run_programs.sh PROGRAM...: runs each, goes on after a failure, fails if one failed.
set -uo pipefail
(($#)) || { echo "no test programs" >&2; exit 1; }
failed=0
for program in "$@"; do
    name=$(basename "$program" .run)
    echo "== $name"
    "$program" || { echo "$name: exit status $?" >&2; failed=1; }
done
exit $failed

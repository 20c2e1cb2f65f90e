#!/usr/bin/env bash
# tools/campaign.sh HOURS [SEED]: the long random tests in turn, each round with other numbers, until the time is over; a round
# that has begun is ended. What failed is shown whole, with the command that repeats it.
set -uo pipefail
cd "$(dirname "$0")/.."
round=${2:-1}
end=$(awk -v hours="$1" -v now="$(date +%s)" 'BEGIN { print int(now + hours * 3600) }')
passed=0
failed=0
begin=$SECONDS

# part TARGET VARIABLE COUNT: one long test of the Makefile; those that number what they run go on where the round before ended.
part() {
    local from=$round command
    [[ $1 == test-fuzz || $1 == crash ]] || from=$((round * $3))
    command="make --no-print-directory $1 $2=$3 SEED=$from"
    if $command > build/campaign.log 2>&1; then
        passed=$((passed + 1))
        echo "ok      $command"
    else
        failed=$((failed + 1))
        cat build/campaign.log
        echo "FAILED  $command"
    fi
}

while (($(date +%s) < end)); do
    part test-fuzz CALLS 200000
    part crash RUNS 150
    part stores STORES 100
    part histories HISTORIES 300
    part fuzz-files FILES 1000
    part pools PROGRAMS 500
    part simulate SCHEDULES 100000
    round=$((round + 1))
done
echo "$((SECONDS - begin)) s; the next round is SEED=$round"
echo "$passed passed, $failed failed"
exit $((failed > 0))

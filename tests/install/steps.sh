#!/usr/bin/env bash
# What the scripts of this folder have in common. `step NAME COMMAND...` runs a command in a shell of its own and prints one line,
# and the command's output if it failed; `close_steps` prints `N passed, M failed` and exits. $work is the script's folder.
passed=0
failed=0

step() {
    local name=$1
    shift
    if ("$@") > "$work/output" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        failed=$((failed + 1))
        cat "$work/output"
        echo "FAILED  $name"
    fi
}

close_steps() {
    echo "$passed passed, $failed failed"
    exit $((failed > 0))
}

#!/bin/bash
# weft::oslocks reports each place where a task waits while it holds a lock of the operating system.
. "$2/test/tools/support.sh"

"$(program oslocks)" >out 2>err || fail "the program failed" err
count() { # count PATTERN WANTED
  n=$(grep -c -- "$1" err)
  [ "$n" = "$2" ] || fail "'$1' is reported $n times, not $2" err
}
count "holds a lock of the operating system" 3
count "task 'sleeper'.* waits" 1
count "task 'yielder'.* yields" 1
count "task 'coroutine'.* waits" 1
count "sleeps_with_a_mutex" 1
count "careful" 0
finish

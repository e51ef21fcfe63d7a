#!/bin/bash
# gdb on a running program: `weft tasks`, `weft bt`, `weft switch`; the backtrace of a running fiber
# ends at its base; and the program continues undisturbed.
. "$2/test/tools/support.sh"
need gdb
gdb_can_run_programs || skip "gdb cannot run programs here: $(tail -n 1 can_run.txt)"

run_gdb live.txt -ex 'break everybody_is_parked' -ex run \
  -ex 'echo == tasks\n' -ex 'weft tasks' \
  -ex 'echo == bt 2\n' -ex 'weft bt 2' \
  -ex 'echo == plain\n' -ex bt \
  -ex 'echo == switch\n' -ex 'weft switch selector' -ex 'frame function wait_for_either' \
  -ex 'echo == go on\n' -ex continue --args "$(program parked)" stop
expect live.txt \
  '^== tasks' '^loop: 7 task\(s\)$' '^  main ' ' deep-fiber .* in innermost_call' ' not-yet-run ' \
  '^== bt 2' ' innermost_call \(' ' middle_call \(' ' outer_call \(' ' weft_context_entry \(\)$' \
  '^== plain' '^#0  everybody_is_parked' ' act \(' ' run_all \(' ' weft_context_entry \(\)$' \
  '^== switch' ' wait_for_either \(' \
  '^== go on' '^done$' 'exited normally'
expect_not live.txt 'corrupt|Backtrace stopped|Python Exception|Traceback'

# A pool counts its tasks in another way.
run_gdb pool.txt -ex 'break everybody_is_parked' -ex run -ex 'weft tasks' -ex kill \
  --args "$(program parked)" pool
expect pool.txt '^pool.*: 7 task\(s\)' ' deep-fiber .* in innermost_call' ' not-yet-run '
expect_not pool.txt 'Python Exception|Traceback|no member'

# Many tasks, and a limit.
run_gdb many.txt -ex 'break everybody_is_parked' -ex run -ex 'weft tasks -flat -n 1200' \
  --args "$(program parked)" stop 1000
expect many.txt '^loop: 2007 task\(s\)$' '^  main ' \
  '^  crowd .* in .* at parked_prog.cpp:' '^  swarm .* in leaf_coroutine' \
  '^  \.\.\. and 807 more task\(s\)$'
expect_status 1200 "$(grep -c 'tid [0-9]*, ' many.txt)" 'tasks listed'

# What it says when there is nothing to see.
run_gdb not_run.txt -ex 'weft tasks' "$(program parked)"
expect not_run.txt '^weft: the program is not being run, and there is no core file'
run_gdb no_program.txt -ex 'weft tasks'
expect no_program.txt '^weft: no program'
run_gdb no_weft.txt -ex 'break main' -ex 'starti' -ex 'weft tasks' -ex kill --args /bin/true
expect no_weft.txt '^weft: no weft in this program'
run_gdb unknown.txt -ex 'break everybody_is_parked' -ex run -ex 'weft bt 99' \
  --args "$(program parked)" stop
expect unknown.txt '^weft: no task 99'
if command -v objcopy >/dev/null; then
  objcopy --strip-debug "$(program parked)" stripped
  run_gdb stripped.txt -ex 'break everybody_is_parked' -ex run -ex 'weft tasks' -ex kill \
    --args ./stripped stop
  expect stripped.txt '^weft: no debug information about the library'
fi
run_gdb help.txt -ex 'help weft'
expect help.txt '^weft tasks ' '^weft bt ' '^weft switch '
finish

#!/bin/bash
# A core file, opened with tools/gdb/weft.py: every task is listed by name with what it waits for,
# and the stack of a parked fiber is shown down to its base.
. "$2/test/tools/support.sh"
need gdb

# make_core PROGRAM MODE: leaves ./core
make_core() {
  rm -f core core.*
  (ulimit -c unlimited && exec "$(program "$1")" "$2") >out.txt 2>err.txt
  local found
  found=$(find . -maxdepth 1 -name 'core*' | head -n 1)
  if [ -n "$found" ]; then
    test "$found" = ./core || mv "$found" core
    return
  fi
  # The kernel hands core files to another program, or none may be written. gdb's own stop at the
  # first page it cannot read, in the middle of a mapping too, so the guards must be mappings.
  echo "note: no core file from the kernel ($(cat /proc/sys/kernel/core_pattern)); gdb makes it"
  gdb_can_run_programs || skip "no core file, and gdb cannot run programs here"
  WEFT_STACK_GUARD=mprotect run_gdb made.txt -ex run -ex 'generate-core-file core' -ex kill \
    --args "$(program "$1")" "$2"
  test -f core || fail "no core file" made.txt
}

make_core parked crash
run_gdb tasks.txt -ex 'weft tasks' "$(program parked)" core
expect tasks.txt \
  '^loop: 7 task\(s\)$' \
  '^  main \(tid 1, fiber\) running on thread 1' \
  "^    scope 'workers' #[0-9]+$" \
  '^      deep-fiber \(tid 2, fiber\) blocked: channel recv #[0-9]+ in innermost_call' \
  '^      deep-coroutine \(tid 3, coroutine\) blocked: channel recv #[0-9]+ in leaf_coroutine' \
  '^      mixed \(tid 4, fiber\) blocked: channel recv #[0-9]+ in leaf_coroutine' \
  "^    scope 'waiters' #[0-9]+$" \
  '^      selector \(tid 5, fiber\) blocked: channel recv #[0-9]+ \| sleep in wait_for_either' \
  '^      stubborn \(tid 6, fiber\) blocked: .* in stay_although_cancelled.*, cancelled: killed$' \
  '^        shield$' \
  '^      not-yet-run \(tid 7, fiber\) ready$'
expect_not tasks.txt 'Python Exception|Traceback|cannot be read'

run_gdb bt.txt -ex 'weft bt 2' "$(program parked)" core
expect bt.txt '^deep-fiber \(tid 2' '^#0  ' ' innermost_call \(.*marker.*parked_prog.cpp:' \
  ' middle_call \(' ' outer_call \(' ' weft_context_entry \(\)$'
expect_not bt.txt 'corrupt|Backtrace stopped|Python Exception|crash_here \(.*#1'

run_gdb coroutine.txt -ex 'weft bt deep-coroutine' "$(program parked)" core
expect coroutine.txt '^#0  leaf_coroutine\(weft::Channel<int>&\)' '^#1  branch_coroutine' \
  '^#2  trunk_coroutine'

run_gdb running.txt -ex 'weft bt 1' "$(program parked)" core
expect running.txt '^#0  .*crash_here \(' ' act \(' ' run_all \(' ' weft_context_entry \(\)$'

run_gdb switch.txt -ex 'weft switch 2' -ex 'frame function middle_call' -ex 'info args' \
  -ex 'weft switch off' -ex 'frame 0' -ex 'bt' "$(program parked)" core
expect switch.txt ' middle_call \(' 'marker = 41' '^#0  .*crash_here' ' run_all \('

run_gdb all.txt -ex 'weft bt all' "$(program parked)" core
expect all.txt 'crash_here' 'outer_call' 'trunk_coroutine' 'fiber_that_awaits' 'wait_for_either' \
  'stay_although_cancelled' 'not-yet-run' 'it has not run yet'

run_gdb errors.txt -ex 'weft bt 99' "$(program parked)" core
expect errors.txt '^weft: no task 99; `weft tasks` lists those that exist'

# One that died of a stack overflow: the task that overflowed is the one that ran.
make_core overflow recursion
run_gdb overflow.txt -ex 'weft tasks' -ex 'weft bt glutton' "$(program overflow)" core
expect overflow.txt '  main \(tid 1, fiber\) blocked: scope #' \
  '    scope #' '      bystander \(tid 2, fiber\) blocked: channel recv #' \
  '      glutton \(tid 3, fiber\) running on thread 1' '^glutton' '^#0  (.* )?recurse \(' ' weft_context_entry \(\)$'
finish

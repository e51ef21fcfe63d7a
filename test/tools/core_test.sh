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

# section NAME: what gdb printed between `echo == NAME` and the next one
section() {
  awk -v name="== $1" '/^== /{ on = $0 == name; next } on' all.txt >"$1.txt"
}

make_core parked crash
run_gdb all.txt \
  -ex 'echo == tasks\n' -ex 'weft tasks' \
  -ex 'echo == fiber\n' -ex 'weft bt 2' \
  -ex 'echo == coroutine\n' -ex 'weft bt deep-coroutine' \
  -ex 'echo == running\n' -ex 'weft bt 1' \
  -ex 'echo == switch\n' -ex 'weft switch 2' -ex 'frame function middle_call' -ex 'info args' \
  -ex 'echo == back\n' -ex 'weft switch off' -ex 'bt' \
  -ex 'echo == everybody\n' -ex 'weft bt all' \
  -ex 'echo == error\n' -ex 'weft bt 99' "$(program parked)" core
expect_not all.txt 'corrupt|Backtrace stopped|Python Exception|Traceback|cannot be read'

section tasks
expect tasks.txt \
  '^loop: 7 task\(s\)$' \
  '^  main \(tid 1, fiber\) running on thread 1' \
  "^    scope 'workers'$" \
  '^      deep-fiber \(tid 2, fiber\) blocked: channel recv #[0-9]+ in innermost_call' \
  '^      deep-coroutine \(tid 3, coroutine\) blocked: channel recv #[0-9]+ in leaf_coroutine' \
  '^      mixed \(tid 4, fiber\) blocked: channel recv #[0-9]+ in leaf_coroutine' \
  "^    scope 'waiters'$" \
  '^      selector \(tid 5, fiber\) blocked: channel recv #[0-9]+ \| sleep in wait_for_either' \
  '^      stubborn \(tid 6, fiber\) blocked: .* in stay_although_cancelled.*, cancelled: killed$' \
  '^        shield$' \
  '^      not-yet-run \(tid 7, fiber\) ready$'
section fiber
expect fiber.txt '^deep-fiber \(tid 2' '^#0  ' ' innermost_call \(.*marker.*parked_prog.cpp:' \
  ' middle_call \(' ' outer_call \(' ' weft_context_entry \(\)$'
expect_not fiber.txt 'crash_here'
section coroutine
expect coroutine.txt '^#0  leaf_coroutine\(weft::Channel<int>&\)' '^#1  branch_coroutine' \
  '^#2  trunk_coroutine'
section running
expect running.txt '^#0  .*crash_here \(' ' act \(' ' run_all \(' ' weft_context_entry \(\)$'
section switch
expect switch.txt ' middle_call \(' 'marker = 41'
section back
expect back.txt '^#0  .*crash_here' ' run_all \('
expect_not back.txt 'innermost_call'
section everybody
expect everybody.txt 'crash_here' 'outer_call' 'trunk_coroutine' 'fiber_that_awaits' \
  'wait_for_either' 'stay_although_cancelled' 'not-yet-run' 'it has not run yet'
section error
expect error.txt '^weft: no task 99; `weft tasks` lists those that exist'

# One that died of a stack overflow: the task that overflowed is the one that ran.
make_core overflow recursion
run_gdb overflow.txt -ex 'weft tasks' -ex 'weft bt glutton' "$(program overflow)" core
expect overflow.txt '  main \(tid 1, fiber\) blocked: scope #' \
  '    scope #' '      bystander \(tid 2, fiber\) blocked: channel recv #' \
  '      glutton \(tid 3, fiber\) running on thread 1' \
  '^glutton' '^#0  (.* )?recurse \(' ' weft_context_entry \(\)$'
finish

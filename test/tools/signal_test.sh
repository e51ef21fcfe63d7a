#!/bin/bash
# A waiting program prints who waits for what when it gets the signal of dump_on_signal(), as often
# as asked, and goes on waiting.
. "$2/test/tools/support.sh"

"$(program parked)" idle >out.txt 2>err.txt &
started=$!
if wait_for_line out.txt '^ready$'; then
  kill -QUIT $started
  # The last task of the tree: then all of it is there.
  wait_for_line err.txt 'not-yet-run|stay_although_cancelled'
  wait_for_line err.txt 'weft::Worker::fiber_main'
  expect err.txt \
    '^weft: loop: [67] task\(s\)$' \
    '^  main \(tid 1, fiber\) blocked: sleep, stack at most [0-9]+ of 262144$' \
    ' wait_for_signals\(\)\+0x' \
    "^    scope 'workers'$" \
    '^      deep-fiber \(tid 2, fiber\) blocked: channel recv #[0-9]+, stack at most ' \
    ' innermost_call\(' ' middle_call\(' ' outer_call\(' ' weft::Worker::fiber_main\(' \
    '^      deep-coroutine \(tid 3, coroutine\) blocked: channel recv #' \
    ' leaf_coroutine\(' ' branch_coroutine\(' ' trunk_coroutine\(' \
    '^      mixed \(tid 4, fiber\)' ' fiber_that_awaits\(' \
    "^    scope 'waiters'$" \
    '^      selector .* blocked: channel recv #[0-9]+ \| sleep' ' wait_for_either\(' \
    '^      stubborn .*, cancelled: killed$' ' stay_although_cancelled\('
  # Nothing lies below a fiber's first function.
  expect_not err.txt 'weft_context_entry'
  if grep -A1 'weft::Worker::fiber_main' err.txt | grep -v fiber_main | grep -q '^ *0x'; then
    fail "addresses below the base of a fiber" err.txt
  fi
  kill -QUIT $started
  for _ in $(seq 200); do
    test "$(grep -c '^weft: loop:' err.txt)" -ge 2 && break
    sleep 0.05
  done
  expect_status 2 "$(grep -c '^weft: loop:' err.txt)" 'dumps printed' err.txt
fi
kill -TERM $started
wait $started 2>/dev/null
expect_status $((128 + 15)) $? 'the program lives until it is told to end'
started=""
finish

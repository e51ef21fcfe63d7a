#!/bin/bash
# Overflowing a 64 KiB stack, by recursion and by one large array, is caught and named; with both
# kinds of guard. The process dies of SIGSEGV.
. "$2/test/tools/support.sh"

for guard in automatic mprotect; do
  for way in recursion array; do
    variables=()
    if [ $guard != automatic ]; then variables=("WEFT_STACK_GUARD=$guard"); fi
    (ulimit -c 0 && exec env "${variables[@]}" "$(program overflow)" $way) >out.txt 2>err.txt
    status=$?
    expect_status $((128 + 11)) $status "$way, guard $guard" err.txt
    expect err.txt "^weft: stack overflow in task 'glutton' \(tid 3\), stack size 65536$"
  done
done
finish

#!/bin/bash
# Memcheck has nothing to say about switches, deep stacks, exceptions in fibers and coroutines.
. "$2/test/tools/support.sh"
need valgrind

valgrind --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect,possible \
  "$(program valgrind)" >out.txt 2>err.txt
status=$?
if grep -q 'debuginfo reader: ensure_valid failed' err.txt; then
  skip "this valgrind cannot read the debug information of this compiler"
fi
expect_status 0 $status 'valgrind' err.txt
expect out.txt '^3210 3210$'
expect err.txt 'ERROR SUMMARY: 0 errors from 0 contexts'
# It guesses from large changes of the stack pointer, unless it was told of our stacks.
expect_not err.txt 'client switching stacks'
finish

#!/bin/bash
# perf follows the stack of a running fiber down to its base.
. "$2/test/tools/support.sh"
need perf

perf record -q -e cpu-clock:u --call-graph fp -o perf.data "$(program parked)" busy \
  >out.txt 2>err.txt || skip "perf cannot record here: $(head -n 1 err.txt)"
perf script -i perf.data -F comm,ip,sym >script.txt 2>err.txt ||
  skip "perf cannot read what it recorded: $(head -n 1 err.txt)"
grep -q ' compute' script.txt || skip "perf has no samples of the program"
# The stack of one sample, innermost first; samples are separated by empty lines.
awk 'BEGIN { RS = "" } / compute/ { print; exit }' script.txt >sample.txt
expect sample.txt ' compute' ' act' ' run_all' ' weft::Worker::fiber_main' ' weft_context_entry$'
expect_status "$(grep -c . sample.txt)" "$(grep -n weft_context_entry sample.txt | cut -d: -f1)" \
  'the line of the base' sample.txt
finish

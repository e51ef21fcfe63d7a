#!/bin/bash
# `weft doctor` says which way of waiting was chosen and why, obeys the environment, and fails with
# a clear word where something would not work.
. "$2/test/tools/support.sh"

weft=$build/bin/weft
test -x "$weft" || skip "the command line tool is not built"
unset WEFT_LEAN WEFT_IO WEFT_STACK_SIZE WEFT_STACK_GUARD WEFT_MEASURE_STACKS WEFT_TEST_SCALE
unset WEFT_NO_SETUP

"$weft" doctor >plain.txt 2>&1
expect_status 0 $? 'weft doctor' plain.txt
expect plain.txt '^  version +[0-9]' '^  compiler +(gcc|clang) ' '^  kernel +Linux ' \
  '^  cores +[0-9]+' '^  workers +[0-9]+ in a pool' \
  '^  waiting +by epoll(, with io_uring for files)?: .' \
  '^[ !] io_uring +(works|does not work: .)' \
  '^  stacks +[0-9]+ KiB, guarded by (madvise|mprotect): .' '^  locks +(lean|cost) ' \
  '^[ !] descriptors +[0-9]+' \
  '^  mappings +[0-9]+' '^  huge pages ' '^  trial ' '^  environment +none of .*WEFT_IO' \
  '^Everything works\.$'
# What won is what works.
if grep -q '^  io_uring *works' plain.txt; then
  expect plain.txt '^  waiting +by epoll, with io_uring for files: a test submission came back'
  WEFT_IO=uring "$weft" doctor >uring.txt 2>&1
  expect_status 0 $? 'WEFT_IO=uring' uring.txt
  expect uring.txt '^  waiting +by io_uring: asked for by WEFT_IO=uring'
else
  expect plain.txt '^  waiting +by epoll: '
  WEFT_IO=uring "$weft" doctor >uring.txt 2>&1
  expect_status 1 $? 'WEFT_IO=uring without io_uring' uring.txt
  expect uring.txt '^X waiting +io_uring was asked for by WEFT_IO=uring, but '
fi

WEFT_IO=epoll WEFT_STACK_SIZE=64k WEFT_STACK_GUARD=mprotect "$weft" doctor >epoll.txt 2>&1
expect_status 0 $? 'WEFT_IO=epoll' epoll.txt
expect epoll.txt '^  waiting +by epoll: asked for by WEFT_IO=epoll' \
  '^  stacks +64 KiB, guarded by mprotect: asked for by WEFT_STACK_GUARD'
expect epoll.txt '^  environment +WEFT_IO=epoll '
expect epoll.txt '^  environment +WEFT_STACK_SIZE=64k '

WEFT_IO=kqueue "$weft" doctor >nonsense.txt 2>&1
expect_status 1 $? 'WEFT_IO=kqueue' nonsense.txt
expect nonsense.txt \
  '^X waiting +WEFT_IO=kqueue is not a way to wait; use epoll, uring, mixed or auto' \
  '^X trial ' '^Lines with an X '

WEFT_STACK_SIZE=much "$weft" doctor >stack.txt 2>&1
expect_status 1 $? 'WEFT_STACK_SIZE=much' stack.txt
expect stack.txt '^X stacks +.*WEFT_STACK_SIZE=.much. is not a size'

WEFT_LEAN=0 "$weft" doctor >upright.txt 2>&1
expect_status 0 $? 'WEFT_LEAN=0' upright.txt
expect upright.txt '^  locks +cost an atomic change of a word each: ' '^  environment +WEFT_LEAN=0 '

# Every variable that something here reads is known.
names=$(grep -rhoE '"WEFT_[A-Z_]+"' "$2/include" "$2/src" "$2/test/support" | tr -d '"')
for name in $(sort -u <<<"$names"); do
  env "$name=1" "$weft" doctor >known.txt 2>&1
  expect known.txt "^  environment +$name=1 \\("
done

WEFT_OI=epoll "$weft" doctor >unknown.txt 2>&1
expect_status 0 $? 'an unknown variable' unknown.txt
expect unknown.txt '^! environment +WEFT_OI=epoll is unknown'

WEFT_IO='"\' "$weft" doctor --json >json.txt 2>&1
expect_status 1 $? 'weft doctor --json' json.txt
if command -v python3 >/dev/null; then
  python3 - >parsed.txt 2>&1 <<'END'
import json
report = json.load(open("json.txt"))
assert report["works"] is False
states = {finding["name"]: finding["state"] for finding in report["findings"]}
assert states["waiting"] == "broken", states
assert states["version"] == "fine", states
END
  expect_status 0 $? 'the JSON is what it should be' parsed.txt
fi
finish

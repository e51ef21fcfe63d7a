#!/bin/sh
# check-output.sh EXPECTED COMMAND...: runs COMMAND; it must succeed and, if the file EXPECTED
# exists, print exactly its contents on standard output.
expected=$1
shift

actual=$(mktemp) || exit 1
trap 'rm -f "$actual"' EXIT
"$@" >"$actual" </dev/null
status=$?
cat "$actual"
if [ "$status" -ne 0 ]; then
  echo "check-output: exit status $status from: $*" >&2
  exit 1
fi
if [ -e "$expected" ] && ! diff -u "$expected" "$actual" >&2; then
  echo "check-output: the output differs from $expected (lines with + were printed)" >&2
  exit 1
fi

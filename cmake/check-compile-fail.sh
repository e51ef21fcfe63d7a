#!/bin/sh
# check-compile-fail.sh SOURCE COMPILER FLAGS...: succeeds if SOURCE compiles with -DWEFT_CONTROL,
# fails to compile without it, and the compiler's words match the `// expect:` line of SOURCE.
source=$1
shift

expect=$(sed -n '1s|^// expect: *||p' "$source")
flags=$(sed -n '2s|^// flags: *||p' "$source")
if [ -z "$expect" ]; then
  echo "$source:1: the first line must read: // expect: regular expression" >&2
  exit 1
fi

# $flags is left unquoted on purpose: it holds several words.
# shellcheck disable=SC2086
if ! "$@" $flags -DWEFT_CONTROL -c "$source" -o /dev/null; then
  echo "$source: must compile with -DWEFT_CONTROL (the positive control)" >&2
  exit 1
fi
# shellcheck disable=SC2086
if output=$("$@" $flags -c "$source" -o /dev/null 2>&1); then
  echo "$source: compiled, but must not" >&2
  exit 1
fi
if ! printf '%s\n' "$output" | grep -E -q -- "$expect"; then
  printf '%s\n' "$output" >&2
  echo "$source: rejected, but not with a message that matches: $expect" >&2
  exit 1
fi
printf '%s\n' "$output" | grep -E -m1 -- "$expect"

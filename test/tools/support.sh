# For the scripts in this directory: . "$2/test/tools/support.sh"
#
# A script is called with the build directory and the source directory. It works in a directory of
# its own, $scratch, which is removed at the end together with whatever is in it. Programs write
# into files there, and the checks read those.

set -u
build=$(cd "$1" && pwd)
source_dir=$(cd "$2" && pwd)
scratch=$(mktemp -d "${TMPDIR:-/tmp}/weft-tools.XXXXXX")
started=""
trap 'test -z "$started" || kill -KILL $started 2>/dev/null; rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
failures=0

program() { # program NAME: the path of test/tools/NAME_prog.cpp, built
  echo "$build/bin/testprog_$1"
}

skip() { # skip REASON: reported by ctest as skipped
  echo "skipped: $*"
  exit 77
}

need() { # need TOOL
  command -v "$1" >/dev/null || skip "$1 is not installed"
}

fail() { # fail WHAT FILE: also shows the file
  echo "FAILED: $1"
  if [ -n "${2:-}" ]; then sed 's/^/    | /' "$2" | head -n 150; fi
  failures=$((failures + 1))
}

expect() { # expect FILE PATTERN...: lines that match (extended) appear in this order
  local file=$1 from=1 at pattern
  shift
  for pattern in "$@"; do
    at=$(tail -n "+$from" "$file" | grep -n -E -m 1 -e "$pattern" | cut -d: -f1)
    if [ -z "$at" ]; then
      fail "no line like '$pattern' from line $from on" "$file"
      return
    fi
    from=$((from + at))
  done
}

expect_not() { # expect_not FILE PATTERN
  if grep -q -E -e "$2" "$1"; then fail "an unexpected line like '$2'" "$1"; fi
}

expect_status() { # expect_status WANTED ACTUAL WHAT [FILE]
  if [ "$1" != "$2" ]; then fail "$3: exit status $2 instead of $1" "${4:-}"; fi
}

wait_for_line() { # wait_for_line FILE PATTERN: until it is there, 10 s at most
  for _ in $(seq 200); do
    if grep -q -E -e "$2" "$1" 2>/dev/null; then return 0; fi
    sleep 0.05
  done
  fail "waited in vain for '$2'" "$1"
  return 1
}

run_gdb() { # run_gdb OUTPUT ARGUMENT...: with weft.py, in batch mode
  local output=$1
  shift
  # No debuginfod: it would ask the network.
  DEBUGINFOD_URLS="" timeout 60 gdb -nx -q -batch -ex 'set pagination off' -ex 'set width 0' \
    -ex "source $source_dir/tools/gdb/weft.py" "$@" \
    >"$output" 2>&1 </dev/null
}

gdb_can_run_programs() { # containers may forbid ptrace
  run_gdb can_run.txt -ex 'break main' -ex run -ex kill --args "$(program parked)" stop
  grep -q '^Breakpoint 1, main' can_run.txt
}

finish() {
  if [ "$failures" -gt 0 ]; then
    echo "$failures check(s) failed"
    exit 1
  fi
  echo "passed"
}

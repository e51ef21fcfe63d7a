#!/bin/bash
# Foreign programs against ours: curl, nc and redis-benchmark through the proxy example, nc against
# the echo example; on epoll and, where it works, on io_uring. What is not installed is named and
# left out; the rest still runs.
. "$2/test/tools/support.sh"

missing=""
have() { # have TOOL: remembers what is missing
  command -v "$1" >/dev/null && return 0
  missing="$missing $1"
  return 1
}

# serve NAME PROGRAM ARGUMENT...: starts it and puts its port into $port
serve() {
  local name=$1
  shift
  "$@" >"$name.out" 2>"$name.err" &
  started="$started $!"
  last=$!
  if ! wait_for_line "$name.out" '^listening on '; then
    fail "$name does not start" "$name.err"
    return 1
  fi
  port=$(sed -n 's/^listening on [^ ]*:\([0-9]*\).*/\1/p' "$name.out")
}

through_proxy() { # through_proxy BACKEND
  export WEFT_IO=$1
  serve "echo-$1" "$build/bin/example_echo" serve 127.0.0.1:0 || return
  echo_pid=$last
  echo_port=$port
  serve "proxy-$1" "$build/bin/example_proxy" 127.0.0.1:0 "127.0.0.1:$echo_port" || return
  proxy_pid=$last
  if have nc; then
    head -c 300000 /dev/urandom | base64 >sent.txt
    timeout 30 nc -N 127.0.0.1 "$port" <sent.txt >received.txt
    expect_status 0 $? "nc through the proxy ($1)"
    cmp -s sent.txt received.txt || fail "nc got other bytes back than it sent ($1)"
  fi
  kill -INT "$proxy_pid"
  wait "$proxy_pid"
  expect_status 0 $? "the proxy ends when interrupted ($1)" "proxy-$1.err"
  kill -TERM "$echo_pid"
  wait "$echo_pid"
  expect_status 0 $? "the echo server ends when told to ($1)" "echo-$1.err"

  if have curl && have python3; then
    mkdir -p www
    head -c 2000000 /dev/urandom >www/file
    python3 -c '
import http.server, functools
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory="www")
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print("listening on 127.0.0.1:%d" % server.server_port, flush=True)
server.serve_forever()' >"http-$1.out" 2>/dev/null &
    http_pid=$!
    started="$started $http_pid"
    wait_for_line "http-$1.out" '^listening on '
    http_port=$(sed -n 's/.*:\([0-9]*\)$/\1/p' "http-$1.out")
    serve "proxy-http-$1" "$build/bin/example_proxy" 127.0.0.1:0 "localhost:$http_port" || return
    for i in 1 2 3 4 5; do
      timeout 30 curl -s -S -o "got-$i" "http://127.0.0.1:$port/file"
      expect_status 0 $? "curl through the proxy ($1)"
      cmp -s www/file "got-$i" || fail "curl got another file than the server has ($1)"
    done
    kill -INT "$last"
    wait "$last"
    kill "$http_pid"
  fi

  if have redis-server && have redis-benchmark; then
    redis_port=$((20000 + RANDOM % 10000))
    redis-server --port "$redis_port" --bind 127.0.0.1 --save '' --appendonly no \
      >"redis-$1.out" 2>&1 &
    redis_pid=$!
    started="$started $redis_pid"
    wait_for_line "redis-$1.out" 'Ready to accept connections'
    serve "proxy-redis-$1" "$build/bin/example_proxy" 127.0.0.1:0 "127.0.0.1:$redis_port" || return
    timeout 60 redis-benchmark -h 127.0.0.1 -p "$port" -q -n 10000 -c 50 -t set,get,lrange_100 \
      >"bench-$1.txt" 2>&1
    expect_status 0 $? "redis-benchmark through the proxy ($1)" "bench-$1.txt"
    grep -a -q 'GET: [0-9.]* requests per second' "bench-$1.txt" ||
      fail "redis-benchmark printed no result ($1)" "bench-$1.txt"
    tr '\r' '\n' <"bench-$1.txt" | grep -a 'per second' | sed "s/^/redis through the proxy ($1): /"
    kill -INT "$last"
    wait "$last"
    kill "$redis_pid"
    wait "$redis_pid" 2>/dev/null
  fi
  started=""
}

through_proxy epoll
if "$build/bin/weft" doctor 2>/dev/null | grep -q -i 'io_uring.*works'; then
  through_proxy uring
else
  echo "note: io_uring does not work here; ran on epoll only"
fi
if [ -n "$missing" ]; then
  echo "note: not installed, and so not tried:$(printf '%s\n' $missing | sort -u | tr '\n' ' ')"
fi
finish

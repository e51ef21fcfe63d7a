#!/bin/bash
# A server that runs out of descriptors does not spin, drops nobody, and serves everybody once there
# are descriptors again. WEFT_STARVE_SECONDS: how long it is starved (default 2).
. "$2/test/tools/support.sh"
need prlimit
need python3

cat >clients.py <<'PY'
import os, resource, socket, sys, time
port, pid, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])

def cpu_ticks():
    fields = open("/proc/%d/stat" % pid).read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])

def ask(client, number):
    client.sendall(b"client %d\n" % number)

clients = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(200)]
for i, client in enumerate(clients):
    ask(client, i)
time.sleep(0.5)
before = cpu_ticks()
time.sleep(seconds)
used = (cpu_ticks() - before) / os.sysconf("SC_CLK_TCK") / seconds
print("cpu while starved: %.2f %%" % (100 * used))
served = 0
for i, client in enumerate(clients):  # the first ones hold the descriptors; they leave one by one
    reply = b""
    while not reply.endswith(b"\n"):
        more = client.recv(100)
        if not more:
            break
        reply += more
    served += reply == b"client %d\n" % i
    client.close()
print("served: %d of %d" % (served, len(clients)))
sys.exit(0 if served == len(clients) and used < 0.05 else 1)
PY

starve() { # starve BACKEND
  WEFT_IO=$1 prlimit --nofile=64 "$build/bin/example_echo" serve 127.0.0.1:0 >out.txt 2>err.txt &
  started=$!
  wait_for_line out.txt '^listening on ' || return
  port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' out.txt)
  timeout 120 python3 clients.py "$port" "$started" "${WEFT_STARVE_SECONDS:-2}" >clients.txt 2>&1
  expect_status 0 $? "clients of a starved server ($1)" clients.txt
  sed "s/^/$1: /" clients.txt
  expect err.txt 'ulimit'
  kill -INT $started
  wait $started
  expect_status 0 $? "the server ends in order ($1)" err.txt
  started=""
}

starve epoll
if "$build/bin/weft" doctor 2>/dev/null | grep -q 'io_uring *works'; then starve uring; fi
finish

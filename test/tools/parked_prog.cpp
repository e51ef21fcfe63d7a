/// A program full of waiting tasks, to be looked at with a debugger.
///
///     testprog_parked stop     calls everybody_is_parked(), then ends normally
///     testprog_parked crash    writes to address 0 instead
///     testprog_parked idle     prints "ready" and waits for signals (SIGQUIT: dump)
///     testprog_parked busy     computes for a while, then ends normally
///     testprog_parked many N   as `stop`, with N more fibers and N more coroutines
///     testprog_parked pool     as `stop`, on a pool
///
/// The functions do something after each call, so that none of them ends in a jump and all of them
/// are seen on the stack.
#include <weft/weft.hpp>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

std::atomic<int> seen{0};

[[gnu::noinline]] void note() {
  seen.fetch_add(1);
}

// A fiber that waits three calls deep.

[[gnu::noinline]] int innermost_call(weft::Channel<int>& channel, int marker) {
  const int got = channel.recv().value_or(marker);
  note();
  return got;
}

[[gnu::noinline]] int middle_call(weft::Channel<int>& channel, int marker) {
  const int got = innermost_call(channel, marker + 1);
  note();
  return got;
}

[[gnu::noinline]] int outer_call(weft::Channel<int>& channel) {
  const int got = middle_call(channel, 41);
  note();
  return got;
}

// A coroutine that waits three calls deep.

weft::Coro<int> leaf_coroutine(weft::Channel<int>& channel) {
  const auto got = co_await channel.recv_op();
  note();
  co_return got.value_or(0);
}

weft::Coro<int> branch_coroutine(weft::Channel<int>& channel) {
  const int got = co_await leaf_coroutine(channel);
  note();
  co_return got;
}

weft::Coro<void> trunk_coroutine(weft::Channel<int>& channel) {
  co_await branch_coroutine(channel);
  note();
}

// The two kinds together: a fiber that waits inside a coroutine.

[[gnu::noinline]] void fiber_that_awaits(weft::Channel<int>& channel) {
  weft::await(trunk_coroutine(channel));
  note();
}

[[gnu::noinline]] void wait_for_either(weft::Channel<int>& channel) {
  weft::select(channel.recv_op(), weft::sleep_op(1h));
  note();
}

[[gnu::noinline]] void stay_although_cancelled(weft::Channel<int>& channel) {
  const weft::Shield shield;
  channel.recv();
  note();
}

/// Breakpoints go here: by now every other task waits.
extern "C" [[gnu::noinline]] void everybody_is_parked() {
  note();
}

[[gnu::noinline]] void crash_here() {
  volatile int* volatile nowhere = nullptr;
  *nowhere = 1;
}

[[gnu::noinline]] void wait_for_signals() {
  std::puts("ready");
  std::fflush(stdout);
  weft::sleep(1h);
  note();
}

[[gnu::noinline]] void compute() {
  volatile unsigned number = 1;
  for (int i = 0; i < 100'000'000; ++i) number = number * 69069 + 1;
  note();
}

[[gnu::noinline]] void act(std::string_view mode) {
  if (mode == "crash") crash_here();
  if (mode == "idle") wait_for_signals();
  if (mode == "busy") compute();
  everybody_is_parked();
  note();
}

[[gnu::noinline]] void run_all(std::string_view mode, int many) {
  weft::Channel<int> channel;
  weft::Scope workers({.name = "workers"});
  workers.spawn([&] { outer_call(channel); }, {.name = "deep-fiber", .stack_size = 64 << 10});
  workers.spawn(trunk_coroutine(channel), {.name = "deep-coroutine"});
  workers.spawn([&] { fiber_that_awaits(channel); }, {.name = "mixed"});
  weft::Scope waiters({.name = "waiters"});
  waiters.spawn([&] { wait_for_either(channel); }, {.name = "selector"});
  auto stubborn = waiters.spawn([&] { stay_although_cancelled(channel); }, {.name = "stubborn"});
  for (int i = 0; i < many; ++i) {
    workers.spawn([&] { channel.recv(); }, {.name = "crowd", .stack_size = 16 << 10});
    workers.spawn(leaf_coroutine(channel), {.name = "swarm"});
  }
  weft::yield();  // all run until they wait
  stubborn.cancel();
  waiters.spawn([] { note(); }, {.name = "not-yet-run"});
  act(mode);
  channel.close();
  workers.join();
  waiters.join();
}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "stop";
  const int many = argc > 2 ? std::atoi(argv[2]) : 0;
  weft::dump_on_signal(SIGQUIT);
  if (mode == "pool") {
    weft::Pool pool({.workers = 1});
    pool.run([&] { run_all(mode, many); });
  } else {
    weft::Loop loop;
    loop.run([&] { run_all(mode, many); });
  }
  std::puts("done");
}

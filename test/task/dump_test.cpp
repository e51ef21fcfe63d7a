#include "support/everywhere.hpp"

#include <atomic>
#include <csignal>
#include <initializer_list>
#include <string>
#include <thread>

namespace weft::test {
namespace {

/// Each piece appears after the one before.
void expect_in_order(const std::string& text, std::initializer_list<std::string_view> pieces) {
  std::size_t at = 0;
  for (const std::string_view piece : pieces) {
    const std::size_t found = text.find(piece, at);
    ASSERT_NE(found, std::string::npos)
        << "'" << piece << "' is missing from character " << at << " on, in\n"
        << text;
    at = found + piece.size();
  }
}

std::size_t count(const std::string& text, std::string_view piece) {
  std::size_t n = 0;
  for (auto at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++n;
  return n;
}

/// The line that begins with `start`, apart from indentation.
std::string line_of(const std::string& text, const std::string& start) {
  const std::size_t at = text.find(start);
  if (at == std::string::npos) return "no line '" + start + "' in\n" + text;
  const std::size_t begin = text.rfind('\n', at) + 1;
  return text.substr(begin, text.find('\n', at) - begin);
}

std::string without_backtraces(Io& io) {
  return dump(io, {.backtraces = false});
}

LoopOptions virtual_time() {
  return {.kernel = make_virtual_kernel()};
}

// Something after each call, so that it is one and not a jump.
std::atomic<int> steps{0};

[[gnu::noinline]] void dump_test_inner(Channel<int>& channel) {
  channel.recv();
  ++steps;
}
[[gnu::noinline]] void dump_test_outer(Channel<int>& channel) {
  dump_test_inner(channel);
  ++steps;
}

Coro<> dump_test_leaf(Channel<int>& channel) {
  co_await channel.recv_op();
  ++steps;
}
Coro<> dump_test_branch(Channel<int>& channel) {
  co_await dump_test_leaf(channel);
  ++steps;
}

TEST(Dump, C13_ShowsTreeStatesNamesAndReasons) {
  Channel<int> channel;
  Loop loop(virtual_time());
  std::string seen;
  loop.spawn(
      [&] {
        Scope outer({.name = "outer"});
        outer.spawn([&] { channel.recv(); }, {.name = "receiver"});
        Scope inner;
        inner.spawn([&] { select(channel.recv_op(), sleep_op(1h)); }, {.name = "selector"});
        inner.spawn([&]() -> Coro<> { co_await sleep_op(1h); }, {.name = "sleeper"});
        yield();
        inner.spawn([] {});
        seen = without_backtraces(this_io());
        outer.cancel();
        inner.cancel();
      },
      {.name = "parent"});
  loop.run();
  expect_in_order(
      seen,
      {"loop: 5 task(s)\n", "  parent (tid 1, fiber) running, stack ", " of 262144\n",
       "    scope 'outer'\n", "      receiver (tid 2, fiber) blocked: channel recv #", ", stack ",
       "\n    scope\n", "      selector (tid 3, fiber) blocked: channel recv #", " | sleep, stack ",
       "\n      sleeper (tid 4, coroutine) blocked: sleep\n", "      task (tid 5, fiber) ready\n"});
}

TEST(Dump, NamesTheObjectWaitedFor) {
  Channel<int> a;
  Channel<int> b;
  Loop loop(virtual_time());
  loop.spawn([&] { a.recv(); }, {.name = "on-a"});
  loop.spawn([&] { b.recv(); }, {.name = "on-b"});
  loop.spawn([&] { a.recv(); }, {.name = "also-on-a"});
  loop.run_until_idle();
  const std::string text = without_backtraces(loop);
  const auto object = [&](const std::string& task) {
    const std::string line = line_of(text, task + " (tid");
    const std::size_t at = line.find('#');
    return line.substr(at, line.find(',', at) - at);
  };
  EXPECT_EQ(object("on-a"), object("also-on-a"));
  EXPECT_NE(object("on-a"), object("on-b"));
}

TEST(Dump, ShowsWhoIsCancelledAndWhy) {
  Channel<int> channel;
  Loop loop(virtual_time());
  loop.spawn(
      [&] {
        Scope scope({.name = "stopped"});
        scope.spawn(
            [&] {
              const Shield shield;
              channel.recv();
            },
            {.name = "stubborn"});
        yield();
        scope.cancel();
        scope.join();
      },
      {.name = "parent"});
  loop.run_until_idle();
  const std::string text = without_backtraces(loop);
  expect_in_order(text, {"parent (tid 1, fiber) blocked: scope #", "scope 'stopped' #",
                         ", cancelled: requested\n", "stubborn (tid 2", ", cancelled: requested\n",
                         "        shield\n"});
  EXPECT_EQ(line_of(text, "parent").find("cancelled"), std::string::npos);
  channel.close();  // the shielded one hears nothing else
}

TEST(Dump, BacktraceOfAParkedFiber) {
  Channel<int> channel;
  Loop loop(virtual_time());
  loop.spawn([&] { dump_test_outer(channel); }, {.name = "deep"});
  loop.run_until_idle();
  const std::string text = dump(loop);
  expect_in_order(text, {"deep (tid 1", "dump_test_inner(", "dump_test_outer(", "fiber_main"});
  EXPECT_EQ(text.find("weft_context_entry"), std::string::npos) << text;
}

TEST(Dump, BacktraceOfACoroutineIsTheChainOfItsCallers) {
  Channel<int> channel;
  Loop loop(virtual_time());
  loop.spawn(dump_test_branch(channel), {.name = "chain"});
  loop.run_until_idle();
  expect_in_order(dump(loop),
                  {"chain (tid 1, coroutine) blocked", "dump_test_leaf(", "dump_test_branch("});
}

TEST(Dump, BacktraceOfAFiberThatWaitsInACoroutine) {
  Channel<int> channel;
  Loop loop(virtual_time());
  loop.spawn([&] { await(dump_test_branch(channel)); }, {.name = "both"});
  loop.run_until_idle();
  expect_in_order(dump(loop), {"both (tid 1, fiber) blocked", "dump_test_leaf(", "fiber_main"});
}

TEST(Dump, TasksThatHaveNotRunHaveNoBacktrace) {
  Loop loop(virtual_time());
  loop.spawn([] {}, {.name = "fiber"});
  loop.spawn([]() -> Coro<> { co_return; }, {.name = "coroutine"});
  EXPECT_EQ(dump(loop),
            "loop: 2 task(s)\n"
            "  fiber (tid 1, fiber) ready\n"
            "  coroutine (tid 2, coroutine) ready\n");
  loop.run();
  EXPECT_EQ(dump(loop), "loop: 0 task(s)\n");
}

TEST(Dump, LimitsTheNumberOfTasksAndCountsTheRest) {
  Loop loop(virtual_time());
  for (int i = 0; i < 10; ++i) loop.spawn([] { sleep(1h); });
  loop.run_until_idle();
  const std::string text = dump(loop, {.backtraces = false, .max_tasks = 3});
  EXPECT_EQ(count(text, "blocked: sleep"), 3U);
  expect_in_order(text, {"loop: 10 task(s)\n", "(tid 3,", "... and 7 more task(s)\n"});
  EXPECT_EQ(count(without_backtraces(loop), "blocked: sleep"), 10U);
}

TEST(Dump, OfTasksOnAThread) {
  Inline io;
  std::string seen;
  io.run([&] {
    Scope scope({.name = "inside"});
    scope.spawn([&] { seen = dump(this_io()); }, {.name = "child"});
  });
  expect_in_order(seen, {"inline: 2 task(s)\n", "  main (tid 1, thread) running\n",
                         "    scope 'inside'\n", "      child (tid 2, thread) running\n"});
}

Coro<> nest(std::size_t depth, std::string& seen) {
  if (depth == 0) {
    seen = dump(this_io(), {.backtraces = false, .max_tasks = 1'000'000});
    co_return;
  }
  Scope scope;
  scope.spawn(nest(depth - 1, seen));
  co_await scope.joined();
}

TEST(Dump, DeepTreesNeedNoStack) {
  const std::size_t depth = scaled(1'000, 10'000, 100'000);
  Loop loop(virtual_time());
  std::string seen;
  loop.spawn(nest(depth, seen));
  loop.run();
  EXPECT_EQ(count(seen, "blocked: scope #"), depth);
  EXPECT_EQ(count(seen, " running\n"), 1U);
}

TEST(Dump, OnSignalAnIdleLoopPrints) {
  dump_on_signal(SIGUSR1);
  Channel<int> channel;
  Loop loop({.on_deadlock = OnDeadlock::wait});
  std::atomic<bool> parking{false};
  testing::internal::CaptureStderr();
  std::thread other([&] {
    parking.wait(false);
    std::raise(SIGUSR1);
    channel.send(1);
  });
  loop.spawn(
      [&] {
        parking = true;
        parking.notify_one();
        dump_test_outer(channel);
        // The value may have come in the round that was under way at the signal.
        sleep(Duration(1));
      },
      {.name = "waits-for-a-thread"});
  loop.run();
  other.join();
  std::signal(SIGUSR1, SIG_DFL);
  const std::string text = testing::internal::GetCapturedStderr();
  expect_in_order(text, {"weft: loop: 1 task(s)\n", "  waits-for-a-thread (tid 1, fiber) "});
  EXPECT_EQ(count(text, "weft: loop:"), 1U) << text;
}

TEST(Dump, ALoopMadeAfterTheSignalHasNothingToAnswer) {
  dump_on_signal(SIGUSR1);
  testing::internal::CaptureStderr();
  std::raise(SIGUSR1);
  Loop loop(virtual_time());
  loop.run([] { sleep(1s); });
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  std::raise(SIGUSR1);
  testing::internal::CaptureStderr();
  loop.run([] { sleep(1s); });
  std::signal(SIGUSR1, SIG_DFL);
  expect_in_order(testing::internal::GetCapturedStderr(), {"weft: loop: 1 task(s)\n  main (tid 2"});
}

TEST(Dump, OnSignalRefusesWhatIsNoSignal) {
  EXPECT_THROW(dump_on_signal(SIGKILL), std::system_error);
}

}  // namespace
}  // namespace weft::test

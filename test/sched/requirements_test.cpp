/// What is required of all engines together, and belongs to no single part.
#include "support/everywhere.hpp"

#include <cstdio>
#include <fstream>
#include <set>

#include <unistd.h>

namespace weft::test {
namespace {

/// The Io and the scope reach every child without being passed on.
EVERYWHERE(Requirements, F3_IoAndScopeReachEveryChild) {
  Io* seen = nullptr;
  Instant deadline;
  const Instant limit = now() + 1h;
  const auto outcome = co_await within({.deadline = limit}, [&](Scope& outer) -> Coro<> {
    auto child = here.spawn(outer, [&]() -> Coro<> {
      Scope inner;
      auto grandchild = here.spawn(inner, [&]() -> Coro<> {
        seen = &this_io();
        deadline = enclosing_scope().deadline();
        co_return;
      });
      co_await inner.joined();
    });
    co_await child.done_op();
  });
  EXPECT_TRUE(outcome.ok());
  EXPECT_EQ(seen, &here.io());
  EXPECT_EQ(deadline, limit);
}

std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0;
  std::size_t resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Stackless tasks cost under 1 kB each. (make bench shows a million.)
TEST(Requirements, F17_StacklessTasksAreSmall) {
#if defined(WEFT_ASAN) || defined(WEFT_TSAN)
  GTEST_SKIP() << "the sanitizers' own memory counts too";
#endif
  const std::size_t tasks = scaled(20'000, 100'000, 1'000'000);
  Loop loop;
  Event go;
  const std::size_t before = resident_bytes();
  for (std::size_t i = 0; i < tasks; ++i) {
    loop.spawn([&]() -> Coro<> { co_await go.wait_op(); });
  }
  loop.run_until_idle();
  EXPECT_EQ(loop.live(), tasks);
  EXPECT_LT((resident_bytes() - before) / tasks, 1'000U);
  go.set();
  loop.run();
}

/// Numbers are unique and rise.
EVERYWHERE(Requirements, T3_NumbersRise) {
  std::uint64_t last = this_tid();
  Scope scope;
  for (int i = 0; i < 100; ++i) {
    auto handle = here.spawn(scope, []() -> Coro<> { co_return; });
    EXPECT_GT(handle.tid(), last);
    last = handle.tid();
  }
  co_await scope.joined();
}

/// ReadWait and WriteWait.
TEST(Requirements, T9_ReadWait) {
  Loop loop;
  std::string order;
  loop.run([&] {
    auto [in, out] = pipe();
    Scope scope;
    scope.spawn([&, &reader = in] {
      perform(reader.readable_op());
      order += "readable ";
    });
    scope.spawn([&, &writer = out] {
      order += "written ";
      writer.write("x");
    });
  });
  EXPECT_EQ(order, "written readable ");
}
TEST(Requirements, T10_WriteWait) {
  Loop loop;
  loop.run([&] {
    auto [in, out] = pipe();
    std::size_t written = 0;
    const std::string block(4096, 'x');
    while (auto n = perform(timeout(out.write_some_op(std::as_bytes(std::span(block))), 5ms))) {
      written += *n;  // until it is full
    }
    EXPECT_FALSE(perform(timeout(out.writable_op(), 1ms)));
    EXPECT_GT(written, 0U);
    std::vector<std::byte> room(written);
    EXPECT_GT(in.read(room), 0U);
    EXPECT_TRUE(perform(timeout(out.writable_op(), 10s)));
  });
}

/// dump_state: every task, what it is called, its state, and what it waits for.
TEST(Requirements, T24_DumpState) {
  Loop loop;
  Channel<int> channel;
  loop.spawn([&] { static_cast<void>(channel.recv()); }, {.name = "receiver"});
  loop.spawn([&] { sleep(1h); }, {.name = "sleeper"});
  loop.run_until_idle();
  const std::string text = dump(loop);
  EXPECT_NE(text.find("2 task(s)"), std::string::npos) << text;
  EXPECT_NE(text.find("receiver (tid 1, fiber) blocked: channel recv"), std::string::npos) << text;
  EXPECT_NE(text.find("sleeper (tid 2, fiber) blocked: sleep"), std::string::npos) << text;
  channel.close();
  loop.root().cancel_children(CancelReason::requested);
  loop.run();
}

/// run() returns when nothing is left to do: not before, and not later.
TEST(Requirements, S2_RunDrivesToQuiescence) {
  const auto drives = [](auto& io) {
    std::atomic<int> ended{0};
    io.spawn([&] {
      for (int i = 0; i < 10; ++i) {
        this_io().spawn([&] {
          sleep(1ms);
          ++ended;
        });
      }
    });
    io.run();
    EXPECT_EQ(ended, 10);
    EXPECT_EQ(io.live(), 0U);
  };
  Loop loop;
  drives(loop);
  Pool pool({.workers = 2});
  drives(pool);
}

}  // namespace
}  // namespace weft::test

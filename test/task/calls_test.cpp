/// T7-T13, T25: calls on tasks by number.
#include <weft/task/calls.hpp>

#include "support/everywhere.hpp"

#include <thread>

namespace weft::test {
namespace {

EVERYWHERE(Calls, T7_EveryTaskKnowsItsNumber) {
  const std::uint64_t mine = this_tid();
  std::uint64_t child = 0;
  Scope scope;
  auto handle = here.spawn(scope, [&]() -> Coro<> {
    child = this_tid();
    co_return;
  });
  co_await handle.done_op();
  EXPECT_EQ(child, handle.tid());
  EXPECT_GT(child, mine);
  EXPECT_EQ(mine, this_tid());
  co_await scope.joined();
}
TEST(Calls, T7_OutsideOfTasks) {
  EXPECT_THROW(static_cast<void>(this_tid()), std::logic_error);
}

/// The child is queued, then the caller behind it.
ONE_AFTER_ANOTHER(Calls, T8_ANewTaskRunsFirst) {
  std::string order;
  auto child = co_await co_new_task([&]() -> Coro<> {
    order += "c";
    co_await next_turn();
    order += "c";
  });
  order += "p";
  co_await child.done_op();
  EXPECT_EQ(order, "cpc");
}
TEST(Calls, T8_ANewTaskRunsFirstOnFibers) {
  Loop loop;
  std::string order;
  loop.run([&] {
    auto child = new_task([&] { order += "c"; });
    order += "p";
    child.wait();
  });
  EXPECT_EQ(order, "cp");
}

/// Waiters are told of the end, however it came; unknown and finished ones are not waited for.
CONCURRENT(Calls, T11_WaitTask) {
  Scope scope({.on_failure = OnFailure::isolate});
  Event go;
  auto good = here.spawn(scope, [&]() -> Coro<int> {
    co_await go.wait_op();
    co_return 1;
  });
  auto bad = here.spawn(scope, [&]() -> Coro<int> {
    co_await go.wait_op();
    throw std::runtime_error("bad");
  });
  std::atomic<int> told{0};
  for (int i = 0; i < 3; ++i) {
    here.spawn(scope, [&, tid = bad.tid()]() -> Coro<> {
      const auto end = co_await wait_task_op(tid);
      EXPECT_TRUE(end.has_value());
      if (end) {
        EXPECT_EQ(describe(end->error()), "bad");
      }
      ++told;
    });
  }
  co_await all_others_wait();
  EXPECT_EQ(told, 0);
  const std::uint64_t good_tid = good.tid();
  here.spawn(scope, [&]() -> Coro<> {
    const auto end = co_await wait_task_op(good_tid);
    EXPECT_TRUE(end && end->ok());
    ++told;
  });
  co_await all_others_wait();
  go.set();
  co_await bad.done_op();
  EXPECT_EQ((co_await good.join_op()).value(), 1);
  co_await scope.joined();
  EXPECT_EQ(told, 4);
  EXPECT_FALSE((co_await wait_task_op(good_tid)).has_value());
  EXPECT_FALSE((co_await wait_task_op(1'000'000'000)).has_value());
}

CONCURRENT(Calls, T12_KillTask) {
  bool went_on = false;
  Scope scope;
  auto victim = here.spawn(scope, [&]() -> Coro<> {
    co_await sleep_op(1h);
    went_on = true;
  });
  std::atomic<bool> told{false};
  here.spawn(scope, [&, tid = victim.tid()]() -> Coro<> {
    const auto end = co_await wait_task_op(tid);
    EXPECT_TRUE(end && end->cancelled());
    if (end) {
      EXPECT_EQ(end->reason(), CancelReason::killed);
    }
    told = true;
  });
  co_await all_others_wait();
  EXPECT_TRUE(kill_task(victim.tid()));
  co_await victim.done_op();
  co_await scope.joined();
  EXPECT_TRUE(told);
  EXPECT_FALSE(went_on);
  EXPECT_FALSE(kill_task(victim.tid()));
}

CONCURRENT(Calls, T12_JoinWithATimeout) {
  Scope scope;
  auto slow = here.spawn(scope, []() -> Coro<int> {
    co_await sleep_op(10ms);
    co_return 4;
  });
  const auto early = co_await timeout(slow.join_op(), 1ms);
  EXPECT_FALSE(early.has_value());
  auto late = co_await timeout(slow.join_op(), 1h);
  EXPECT_TRUE(late.has_value());
  EXPECT_EQ(late->value(), 4);
  co_await scope.joined();
}

/// A task is looked for while others come and go.
TEST(Calls, T11_AmongThoseThatComeAndGo) {
  Pool pool({.workers = 4});
  pool.run([&] {
    Scope scope({.on_failure = OnFailure::isolate});
    for (std::size_t i = 0; i < scaled(200, 2'000, 20'000); ++i) {
      auto brief = scope.spawn([]() -> Coro<> { co_await next_turn(); });
      const std::uint64_t tid = brief.tid();
      scope.spawn([tid]() -> Coro<> {
        if (tid % 2 == 0) kill_task(tid);
        co_await wait_task_op(tid);
      });
      if (i % 100 == 0) scope.join();
    }
    scope.join();
  });
}

ONE_AFTER_ANOTHER(Calls, T13_AYieldGoesToTheTail) {
  std::string order;
  Scope scope;
  for (const char* name : {"a", "b", "c"}) {
    here.spawn(scope, [&order, name]() -> Coro<> {
      for (int i = 0; i < 2; ++i) {
        order += name;
        co_await next_turn();
      }
    });
  }
  co_await scope.joined();
  EXPECT_EQ(order, "abcabc");
}

TEST(Calls, T25_ALoopShutsDownInTime) {
  Loop loop;
  bool cleaned = false;
  auto task = loop.spawn([&] {
    try {
      sleep(1h);
    } catch (const Cancelled& c) {
      EXPECT_EQ(c.reason(), CancelReason::shutdown);
      const Shield shield;
      sleep(1ms);
      cleaned = true;
      throw;
    }
  });
  loop.run_until_idle();
  EXPECT_TRUE(loop.shutdown(10s));
  EXPECT_TRUE(cleaned);
  EXPECT_TRUE(task.join().cancelled());
  EXPECT_TRUE(loop.spawn([] { ADD_FAILURE() << "after the shutdown"; }));
  EXPECT_TRUE(loop.shutdown(1s));
}

TEST(Calls, T25_ALoopSaysWhatDidNotEnd) {
  Loop loop;
  Event go;
  loop.spawn(
      [&] {
        const Shield shield;
        go.wait();
      },
      {.name = "stubborn"});
  loop.run_until_idle();
  testing::internal::CaptureStderr();
  EXPECT_FALSE(loop.shutdown(5ms));
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_NE(report.find("1 task(s) did not end in time"), std::string::npos) << report;
  EXPECT_NE(report.find("stubborn"), std::string::npos) << report;
  go.set();
  EXPECT_TRUE(loop.shutdown(1s));
}

}  // namespace
}  // namespace weft::test

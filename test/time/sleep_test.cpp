// Sleeping and timing out, on a virtual clock.
#include "support/everywhere.hpp"

#include <mutex>
#include <string>
#include <vector>

namespace weft::test {
namespace {

CONCURRENT(Sleep, S10_SleepersWakeInOrderOfDeadlinesThenOfArming) {
  std::mutex lock;
  std::vector<std::string> order;
  Scope scope;
  const int deadlines[] = {30, 10, 20, 15, 15};
  for (std::size_t i = 0; i < 5; ++i) {
    here.spawn(scope, [&, i]() -> Coro<> {
      co_await sleep_op(1ms * deadlines[i]);
      EXPECT_EQ(now(), Instant(1ms * deadlines[i]));
      std::lock_guard guard(lock);
      order.push_back(std::to_string(deadlines[i]) + "#" + std::to_string(i));
    });
  }
  co_await scope.joined();
  // Those with equal deadlines run at the same time there.
  if (here.parallel()) std::sort(order.begin() + 1, order.begin() + 3);
  EXPECT_EQ(order, (std::vector<std::string>{"10#1", "15#3", "15#4", "20#2", "30#0"}));
  EXPECT_EQ(now(), Instant(30ms));
}

CONCURRENT(Sleep, S10_ARaceWonAt10LeavesTheClockAt10) {
  const auto r = co_await race(sleep_op(10ms), sleep_op(1h));
  EXPECT_EQ(r.index(), 0U);
  EXPECT_EQ(now(), Instant(10ms));
  Scope scope;
  auto slow = here.spawn(scope, []() -> Coro<> { co_await sleep_op(1h); });
  auto fast = here.spawn(scope, []() -> Coro<> { co_await sleep_op(10ms); });
  EXPECT_EQ((co_await race(slow.done_op(), fast.done_op())).index(), 1U);
  scope.cancel();
  co_await scope.joined();
  EXPECT_EQ(now(), Instant(20ms));
}

EVERYWHERE(Sleep, ZeroNegativeAndPastDoNotWait) {
  co_await sleep_op(0ms);
  co_await sleep_op(-5ms);
  co_await sleep_op(Duration::min());
  co_await sleep_until_op(Instant(0ms));
  co_await sleep_until_op(Instant(-1h));
  EXPECT_EQ(now(), Instant(0ms));
  co_await sleep_op(3ms);
  co_await sleep_until_op(Instant(2ms));
  EXPECT_EQ(now(), Instant(3ms));
  co_await sleep_until_op(Instant(5ms));
  EXPECT_EQ(now(), Instant(5ms));
  co_await sleep_op(1ns);
  EXPECT_EQ(now(), Instant(5ms + 1ns));
}

// In a plain fiber or thread, with the plain verbs.
TEST(Sleep, F8_PlainVerbs) {
  Loop loop({.kernel = make_virtual_kernel(Instant(7s))});
  loop.run([] {
    EXPECT_EQ(now(), Instant(7s)) << "the start is injected";
    sleep(1s);
    sleep_until(Instant(10s));
    EXPECT_EQ(now(), Instant(10s));
  });
}

CONCURRENT(Sleep, F9_CancelledBeforeItBegins) {
  Scope scope;
  bool after = false;
  auto h = here.spawn(scope, [&]() -> Coro<> {
    this_task()->cancel_tree(CancelReason::requested);
    co_await sleep_op(1h);
    after = true;
  });
  EXPECT_EQ((co_await h.join_op()).reason(), CancelReason::requested);
  EXPECT_FALSE(after);
  EXPECT_EQ(now(), Instant(0ms));
}

CONCURRENT(Sleep, F9_CancelledWhileWaitingEndsAtOnceAndWithdrawsTheTimer) {
  Scope scope;
  bool after = false;
  auto h = here.spawn(scope, [&]() -> Coro<> {
    co_await sleep_op(1h);
    after = true;
  });
  co_await sleep_op(5ms);
  h.cancel();
  EXPECT_TRUE((co_await h.join_op()).cancelled());
  EXPECT_EQ(now(), Instant(5ms));
  co_await sleep_op(5ms);
  EXPECT_FALSE(after);
  EXPECT_EQ(now(), Instant(10ms));
}

// Nothing else remains: if the loser's timer were still there, the clock would run to it.
TEST(Sleep, S10_TheClockStopsWhereTheLastTaskEnded) {
  auto kernel = make_virtual_kernel();
  Kernel* clock = kernel.get();
  Loop loop({.kernel = std::move(kernel)});
  loop.run([] {
    EXPECT_EQ(select(sleep_op(1h), sleep_op(2ms)).index(), 1U);
    Scope scope;
    auto h = scope.spawn([] { sleep(1h); });
    sleep(2ms);
    h.cancel();
  });
  EXPECT_EQ(clock->now(), Instant(4ms));
}

EVERYWHERE(Timeout, F12_TheOperationWinsIfItIsInTime) {
  Channel<int> ch(1);
  EXPECT_TRUE(co_await ch.send_op(1));
  EXPECT_EQ((co_await timeout(ch.recv_op(), 0ms)), 1) << "both are ready: the operation wins";
  EXPECT_TRUE(co_await ch.send_op(2));
  EXPECT_EQ((co_await timeout(ch.recv_op(), -1ms)), 2);
  EXPECT_EQ((co_await timeout(ch.recv_op(), 0ms)), std::nullopt);
  EXPECT_EQ(now(), Instant(0ms));
  EXPECT_EQ((co_await timeout(ch.recv_op(), 3ms)), std::nullopt);
  EXPECT_EQ(now(), Instant(3ms));
  EXPECT_TRUE(co_await timeout(sleep_op(1ms), 1ms)) << "a tie: the operation wins";
  EXPECT_FALSE(co_await timeout(sleep_op(2ms), 1ms));
  EXPECT_TRUE(co_await timeout(sleep_op(1ms), 2ms));
  EXPECT_EQ(now(), Instant(6ms));
}

EVERYWHERE(Timeout, NestedTheShorterCounts) {
  EXPECT_EQ((co_await timeout(timeout(never<int>(), 5ms), 2ms)), std::nullopt);
  EXPECT_EQ(now(), Instant(2ms));
  const auto inner = co_await timeout(timeout(never<int>(), 2ms), 5ms);
  EXPECT_TRUE(inner.has_value() && !inner->has_value());
  EXPECT_EQ(now(), Instant(4ms));
}

CONCURRENT(Timeout, T12_JoinWithATimeout) {
  Scope scope;
  auto h = here.spawn(scope, []() -> Coro<int> {
    co_await sleep_op(10ms);
    co_return 5;
  });
  EXPECT_FALSE((co_await timeout(h.join_op(), 3ms)).has_value());
  auto o = co_await timeout(h.join_op(), 1h);
  EXPECT_EQ(o->value(), 5);
  EXPECT_EQ(now(), Instant(10ms));
}

// A receive that times out leaves its value to the next one.
CONCURRENT(Timeout, C16_AReceiveThatTimedOutLosesNothing) {
  Channel<int> ch;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    for (int i = 0; i < 20; ++i) {
      co_await sleep_op(2ms);
      EXPECT_TRUE(co_await ch.send_op(i));
    }
    ch.close();
  });
  int next = 0;
  int timeouts = 0;
  for (;;) {
    auto got = co_await timeout(ch.recv_op(), 1ms);
    if (!got) {
      ++timeouts;
      continue;
    }
    if (!*got) break;
    EXPECT_EQ(**got, next++);
  }
  EXPECT_EQ(next, 20);
  EXPECT_GE(timeouts, 20);
  co_await scope.joined();
}

// Time that never comes is not time: the clock stays, and nobody can wake the sleeper.
TEST(Sleep, S9_SleepingForEverIsADeadlockAndDoesNotMoveTheClock) {
  for (const Duration forever : {Duration::max(), Duration::max() - 1s}) {
    auto kernel = make_virtual_kernel(Instant(1s));
    Kernel* clock = kernel.get();
    Loop loop({.kernel = std::move(kernel), .on_deadlock = OnDeadlock::fail});
    testing::internal::CaptureStderr();
    EXPECT_THROW(loop.run([&] { sleep(forever); }), Deadlock);
    EXPECT_NE(testing::internal::GetCapturedStderr().find("sleep"), std::string::npos);
    EXPECT_EQ(clock->now(), Instant(1s));
  }
}

TEST(Sleep, S9_SleepingForEverOnAThreadIsADeadlock) {
  auto kernel = make_virtual_kernel(Instant(1s));
  Kernel* clock = kernel.get();
  Inline io({.kernel = std::move(kernel), .on_deadlock = OnDeadlock::fail});
  testing::internal::CaptureStderr();
  EXPECT_THROW(io.run([&] { sleep_until(Instant::never()); }), Deadlock);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(clock->now(), Instant(1s));
}

CONCURRENT(Sleep, C21_ManySleepersOfRandomLength) {
  const int count = static_cast<int>(scaled(200, 5'000, 100'000));
  Rng rng(3);
  Scope scope;
  std::vector<Instant> woken;
  for (int i = 0; i < count; ++i) {
    const Duration d(1 + static_cast<std::int64_t>(rng.next() >> 20));
    here.spawn(scope,
               [&, d]() -> Coro<> {
                 const Instant due = now() + d;
                 co_await sleep_op(d);
                 EXPECT_EQ(now(), due);
                 woken.push_back(due);
               },
               {.stack_size = 16384});
  }
  co_await scope.joined();
  EXPECT_TRUE(std::is_sorted(woken.begin(), woken.end()));
  EXPECT_EQ(woken.size(), static_cast<std::size_t>(count));
}

}  // namespace
}  // namespace weft::test

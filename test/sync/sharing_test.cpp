/// What is shared out: Sender and Receiver, Broadcast, Ordered, OwnedPool, RateLimiter, Ticker.
#include <weft/sync/broadcast.hpp>
#include <weft/sync/ends.hpp>
#include <weft/sync/ordered.hpp>
#include <weft/sync/owned_pool.hpp>
#include <weft/sync/pace.hpp>

#include "support/everywhere.hpp"

#include <memory>
#include <mutex>
#include <set>
#include <thread>

namespace weft::test {
namespace {

CONCURRENT(Ends, C17_TheLastSenderClosesTheChannel) {
  auto [out, in] = ends<int>(2);
  std::atomic<int> sum{0};
  Scope scope;
  for (int i = 0; i < 3; ++i) {
    here.spawn(scope, [mine = out, i]() -> Coro<> {
      for (int k = 0; k < 10; ++k) co_await mine.send_op(i);
    });
  }
  out.leave();
  while (auto value = co_await in.recv_op()) sum += *value;
  EXPECT_EQ(sum, 30);
  EXPECT_TRUE(in.closed());
  co_await scope.joined();
}

CONCURRENT(Ends, C17_WithoutReceiversSendersGetTheirValuesBack) {
  auto [out, in] = ends<std::unique_ptr<int>>();
  auto sender = out;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    auto sent = co_await sender.send_op(std::make_unique<int>(7));
    EXPECT_FALSE(sent);
    EXPECT_TRUE(sent.returned().has_value());
    EXPECT_EQ(**sent.returned(), 7);
  });
  co_await all_others_wait();
  {
    auto last = std::move(in);
  }
  co_await scope.joined();
}

CONCURRENT(Broadcast, C17_EveryoneGetsEverything) {
  constexpr int values = 100;
  Broadcast<int> news(values);
  std::atomic<int> sum{0};
  Scope scope;
  for (int i = 0; i < 5; ++i) {
    here.spawn(scope, [&]() -> Coro<> {
      auto mine = news.subscribe();
      int next = 0;
      while (auto got = co_await mine.recv_op()) {
        EXPECT_EQ(**got, next++);
        EXPECT_EQ(got->missed, 0U);
        sum += **got;
      }
    });
  }
  co_await all_others_wait();
  EXPECT_EQ(news.subscribers(), 5U);
  for (int i = 0; i < values; ++i) {
    EXPECT_TRUE(news.send(i));
    if (i % 10 == 0) co_await next_turn();
  }
  news.close();
  EXPECT_FALSE(news.send(1));
  co_await scope.joined();
  EXPECT_EQ(sum, 5 * values * (values - 1) / 2);
  EXPECT_EQ(news.subscribers(), 0U);
}

EVERYWHERE(Broadcast, C17_WhoLagsIsToldHowMuchItMissed) {
  Broadcast<int> news(4);
  auto slow = news.subscribe();
  auto quick = news.subscribe();
  EXPECT_FALSE(quick.try_recv());
  for (int i = 0; i < 10; ++i) {
    news.send(i);
    const auto got = co_await quick.recv_op();
    EXPECT_EQ(**got, i);
  }
  auto got = co_await slow.recv_op();
  EXPECT_EQ(**got, 6);
  EXPECT_EQ(got->missed, 6U);
  for (int i = 7; i < 10; ++i) {
    got = co_await slow.recv_op();
    EXPECT_EQ(**got, i);
    EXPECT_EQ(got->missed, 0U);
  }
  auto late = news.subscribe();
  EXPECT_FALSE(late.try_recv());
  news.close();
  EXPECT_FALSE(co_await slow.recv_op());
}

/// A receive that loses a race or is cancelled has taken nothing.
CONCURRENT(Broadcast, C17_NothingIsLostToACancel) {
  Broadcast<int> news(16);
  auto mine = news.subscribe();
  int expected = 0;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    for (int i = 0; i < 50; ++i) {
      co_await sleep_op(1ms);
      news.send(i);
    }
    news.close();
  });
  for (;;) {
    auto r = co_await race(mine.recv_op(), sleep_op(400us));
    if (r.index() == 1) continue;
    auto& got = std::get<0>(r);
    if (!got) break;
    EXPECT_EQ(**got, expected++);
  }
  EXPECT_EQ(expected, 50);
  co_await scope.joined();
}

CONCURRENT(Ordered, C18_InTheOrderOfSending) {
  constexpr int pieces = 60;
  constexpr int limit = 4;
  Ordered<int> ordered(limit);
  std::atomic<int> under_way{0};
  std::atomic<int> most{0};
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    for (int i = 0; i < pieces; ++i) {
      const bool sent = co_await ordered.send_task_op(scope, [&, i]() -> Coro<int> {
        const int n = ++under_way;
        int seen = most;
        while (n > seen && !most.compare_exchange_weak(seen, n)) {
        }
        co_await sleep_op(1ms * ((i * 7) % 10));
        --under_way;
        if (i % 9 == 8) throw std::runtime_error("piece " + std::to_string(i));
        co_return i;
      });
      EXPECT_TRUE(sent);
    }
    ordered.close();
  });
  int next = 0;
  while (auto outcome = co_await ordered.recv_op()) {
    if (next % 9 == 8) {
      EXPECT_EQ(describe(outcome->error()), "piece " + std::to_string(next));
    } else {
      EXPECT_EQ(outcome->value(), next);
    }
    ++next;
  }
  EXPECT_EQ(next, pieces);
  EXPECT_LE(most, limit);
  EXPECT_GT(most, 1);
  co_await scope.joined();
  EXPECT_EQ(ordered.size(), 0U);
}

/// A piece that is cancelled, even before it begins, keeps its place; and after close() nothing is
/// started.
CONCURRENT(Ordered, C18_CancelledPiecesDoNotHoldUpTheOthers) {
  Ordered<void> ordered(10);
  bool started = false;
  std::vector<CancelReason> reasons;
  Scope keep;
  here.spawn(keep, [&]() -> Coro<> {
    while (auto outcome = co_await ordered.recv_op()) reasons.push_back(outcome->reason());
  });
  const auto cut_short = co_await within({}, [&](Scope& scope) -> Coro<> {
    for (int i = 0; i < 3; ++i) {
      co_await ordered.send_task_op(scope, []() -> Coro<> { co_await sleep_op(1h); });
    }
    co_await all_others_wait();
    scope.cancel();
    co_await ordered.send_task_op(scope, [&]() -> Coro<> {
      started = true;
      co_return;
    });
  });
  EXPECT_FALSE(cut_short.failed());
  ordered.close();
  EXPECT_FALSE(co_await ordered.send_task_op(keep, []() -> Coro<> { co_return; }));
  co_await keep.joined();
  EXPECT_FALSE(started);
  EXPECT_GE(reasons.size(), 3U);
  for (const CancelReason reason : reasons) EXPECT_EQ(reason, CancelReason::requested);
}

TEST(Ordered, C18_ClosuresOnFibers) {
  Loop loop;
  std::vector<int> got;
  loop.run([&] {
    Ordered<int> ordered(2);
    Scope scope;
    scope.spawn([&] {
      for (int i = 0; i < 5; ++i) {
        ordered.send_task(scope, [i] {
          sleep(1ms * (5 - i));
          return i;
        });
      }
      ordered.close();
    });
    while (auto outcome = ordered.recv()) got.push_back(outcome->value());
  });
  EXPECT_EQ(got, (std::vector{0, 1, 2, 3, 4}));
}

struct Thing {
  int number;
  bool broken = false;
};

CONCURRENT(OwnedPool, C18_BoundedAndReused) {
  std::atomic<int> made{0};
  std::atomic<int> out{0};
  std::atomic<int> resets{0};
  std::atomic<int> destroyed{0};
  {
    OwnedPool<Thing> pool({.create = [&] { return Thing{++made}; },
                           .reset = [&](Thing&) { ++resets; },
                           .destroy = [&](Thing&) { ++destroyed; },
                           .most = 3});
    Scope scope;
    for (int i = 0; i < 20; ++i) {
      here.spawn(scope, [&]() -> Coro<> {
        auto thing = co_await pool.acquire_op();
        EXPECT_LE(++out, 3);
        co_await sleep_op(1ms);
        --out;
      });
    }
    co_await scope.joined();
    EXPECT_LE(made, 3);
    EXPECT_EQ(resets, 20);
    EXPECT_EQ(pool.stats().lent, 20U);
    EXPECT_EQ(pool.stats().out, 0U);
    EXPECT_EQ(pool.stats().idle, static_cast<std::size_t>(made));
  }
  EXPECT_EQ(destroyed, made);
}

EVERYWHERE(OwnedPool, C18_WhatIsBrokenIsReplaced) {
  int made = 0;
  OwnedPool<Thing> pool({.create =
                             [&] {
                               if (made == 3) throw std::runtime_error("no more");
                               return Thing{++made};
                             },
                         .reset =
                             [](Thing& thing) {
                               if (thing.number == 2) throw std::runtime_error("cannot be reset");
                             },
                         .healthy = [](Thing& thing) { return !thing.broken; },
                         .most = 1});
  (co_await pool.acquire_op())->broken = true;
  EXPECT_EQ((co_await pool.acquire_op())->number, 2);  // 1 is not healthy; 2 cannot be reset
  {
    auto third = co_await pool.acquire_op();
    EXPECT_EQ(third->number, 3);
    EXPECT_FALSE(pool.try_acquire());
    third.discard();
  }
  for (int i = 0; i < 2; ++i) {  // and no permit is lost
    bool thrown = false;
    try {
      auto fourth = co_await pool.acquire_op();
    } catch (const std::runtime_error&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
  }
  EXPECT_EQ(pool.stats().destroyed, 3U);
}

/// A check that throws does not lose the thing it was about.
EVERYWHERE(OwnedPool, C18_AFailingCheckDestroysWhatItWasAbout) {
  int destroyed = 0;
  OwnedPool<Thing> pool({.create = [] { return Thing{1}; },
                         .healthy = [](Thing&) -> bool { throw std::runtime_error("no answer"); },
                         .destroy = [&](Thing&) { ++destroyed; }});
  {
    auto first = co_await pool.acquire_op();
  }
  bool thrown = false;
  try {
    auto second = co_await pool.acquire_op();
  } catch (const std::runtime_error&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(destroyed, 1);
  EXPECT_EQ(pool.stats().destroyed, 1U);
}

EVERYWHERE(RateLimiter, C24_AtTheLimits) {
  RateLimiter endless(1, 1h, ~std::uint64_t{0});
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(endless.try_acquire());
  RateLimiter many(1, 1h, 10'000'000'000);
  EXPECT_TRUE(many.try_acquire());
  RateLimiter fast(600'000'000, 1s);  // rounded to one in 2 ns
  EXPECT_TRUE(fast.try_acquire());
  co_await sleep_op(1ns);
  EXPECT_FALSE(fast.try_acquire());
  co_await sleep_op(1ns);
  EXPECT_TRUE(fast.try_acquire());
}

EVERYWHERE(RateLimiter, C24_NeverFasterThanItsRate) {
  RateLimiter limit(100, 1s, 5);
  const Instant start = now();
  std::vector<Duration> times;
  for (int i = 0; i < 25; ++i) {
    co_await limit.acquire_op();
    times.push_back(now() - start);
  }
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(times[i], 0ms);
  for (std::size_t i = 5; i < 25; ++i) EXPECT_EQ(times[i], 10ms * (i - 4));
  EXPECT_FALSE(limit.try_acquire());
  co_await sleep_op(1s);  // a quiet time: a whole burst again, and no more
  int burst = 0;
  while (limit.try_acquire()) ++burst;
  EXPECT_EQ(burst, 5);
}

CONCURRENT(RateLimiter, C24_AWaitThatIsGivenUpCostsNothing) {
  RateLimiter limit(10, 1s);
  EXPECT_TRUE(limit.try_acquire());
  const Instant start = now();
  for (int i = 0; i < 50; ++i) {
    const bool got = co_await timeout(limit.acquire_op(), 1ms);
    EXPECT_FALSE(got);
  }
  co_await limit.acquire_op();
  EXPECT_EQ(now() - start, 100ms);
}

EVERYWHERE(Ticker, C24_KeepsTimeAndCountsWhatWasMissed) {
  Ticker every(10ms);
  const Instant start = now();
  auto tick = co_await every.next_op();
  EXPECT_EQ(now() - start, 10ms);
  EXPECT_EQ(tick.number, 1U);
  co_await sleep_op(35ms);  // until 45: the ones at 20, 30 and 40 are due
  tick = co_await every.next_op();
  EXPECT_EQ(now() - start, 45ms);
  EXPECT_EQ(tick.missed, 2U);
  EXPECT_EQ(tick.number, 4U);
  tick = co_await every.next_op();
  EXPECT_EQ(now() - start, 50ms);
  EXPECT_EQ(tick.missed, 0U);
  EXPECT_FALSE((co_await timeout(every.next_op(), 5ms)).has_value());
  auto early = every.next_op();  // made before the next one is taken
  tick = co_await every.next_op();
  EXPECT_EQ(now() - start, 60ms);
  tick = co_await std::move(early);
  EXPECT_EQ(now() - start, 70ms);
}

TEST(Pace, C24_OnPlainThreads) {
  RateLimiter limit(1'000, 1s);
  limit.acquire();
  limit.acquire();
  Ticker every(1ms);
  EXPECT_GE(every.next().number, 1U);  // the machine may be slow
  EXPECT_GE(every.next().number, 2U);
}

}  // namespace
}  // namespace weft::test

// Parker: the lowest level. One waiter, any number of wakers.
#include "support/everywhere.hpp"

#include <atomic>
#include <thread>

namespace weft::test {
namespace {

bool yes() {
  return true;
}

EVERYWHERE(Parker, C15_ATokenIsLatchedAndConsumedOnce) {
  Parker parker;
  parker.unpark();
  parker.unpark();
  parker.unpark();
  EXPECT_FALSE(co_await parker.park_op(yes)) << "the token was there: no need to park";
  EXPECT_EQ((co_await timeout(parker.park_op(yes), 1ms)), std::nullopt)
      << "three unparks are one token";
}

EVERYWHERE(Parker, C13_DoesNotParkIfThePredicateSaysNo) {
  Parker parker;
  EXPECT_FALSE(co_await parker.park_op([] { return false; }));
  parker.unpark();
  EXPECT_FALSE(co_await parker.park_op([] { return false; }));
}

// Looked at while polling, and again at the commit point: a change in between is seen.
EVERYWHERE(Parker, C13_ThePredicateDecidesAtTheCommitPoint) {
  Parker parker;
  int looks = 0;
  EXPECT_FALSE(co_await parker.park_op([&] { return ++looks == 1; }));
  EXPECT_EQ(looks, 2);
}

CONCURRENT(Parker, C12_UnparkWakesAndNothingElseDoes) {
  Parker parker;
  int wakes = 0;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    while (wakes < 3) {
      EXPECT_TRUE(co_await parker.park_op(yes)) << "nobody has left a token";
      ++wakes;
    }
  });
  for (int i = 0; i < 3; ++i) {
    co_await sleep_op(1ms);
    EXPECT_EQ(wakes, i) << "a spurious wake-up";
    parker.unpark();
  }
  co_await scope.joined();
  EXPECT_EQ(wakes, 3);
}

// Unparked again before the waiter has run, which only one thread can be sure of.
ONE_AFTER_ANOTHER(Parker, C12_UnparkDoesNotRunTheWaiter) {
  Parker parker;
  int wakes = 0;
  int parked = 0;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    while (wakes < 6) {
      if (co_await parker.park_op(yes)) ++parked;
      ++wakes;
    }
  });
  for (int i = 0; i < 3; ++i) {
    co_await sleep_op(1ms);
    EXPECT_EQ(wakes, 2 * i) << "a spurious wake-up";
    parker.unpark();
    parker.unpark();  // it is woken but has not run: this leaves a token
    parker.unpark();  // and this the same token
    EXPECT_EQ(wakes, 2 * i) << "unpark must not run the waiter";
    co_await sleep_op(1ms);
    EXPECT_EQ(wakes, 2 * i + 2);
    EXPECT_EQ(parked, i + 1);
  }
  co_await scope.joined();
}

CONCURRENT(Parker, C15_CancelledParkLeavesNothingBehind) {
  Parker parker;
  Scope scope;
  bool after = false;
  auto h = here.spawn(scope, [&]() -> Coro<> {
    co_await parker.park_op(yes);
    after = true;
  });
  co_await all_others_wait();
  h.cancel();
  EXPECT_TRUE((co_await h.join_op()).cancelled());
  EXPECT_FALSE(after);
  parker.unpark();  // must not reach the dead wait, and must not be lost
  EXPECT_FALSE(co_await parker.park_op(yes)) << "the unpark was lost";
}

// Cancelled, but it has not run yet, when the unpark comes: the token stays for the next waiter.
CONCURRENT(Parker, C15_AnUnparkThatMeetsACancelledWaiterIsKept) {
  Parker parker;
  Scope scope;
  auto h = here.spawn(scope, [&]() -> Coro<> { co_await parker.park_op(yes); });
  co_await all_others_wait();
  h.cancel();
  parker.unpark();
  EXPECT_TRUE((co_await h.join_op()).cancelled());
  EXPECT_FALSE(co_await parker.park_op(yes)) << "the unpark was lost";
}

EVERYWHERE(Parker, ALosingParkLeavesNothingBehind) {
  Parker parker;
  const auto r = co_await first_of(parker.park_op(yes), sleep_op(1ms));
  EXPECT_EQ(r.index(), 1U);
  parker.unpark();
  EXPECT_FALSE(co_await parker.park_op(yes));
}

// A predicate that throws is the caller's own error; the waiter, and whatever else it waits for,
// must survive it.
EVERYWHERE(Parker, AThrowingPredicateReachesTheCaller) {
  Parker parker;
  try {
    co_await parker.park_op([]() -> bool { throw std::runtime_error("predicate"); });
    ADD_FAILURE() << "must throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "predicate");
  }
  co_await sleep_op(1ms);
  EXPECT_EQ(now(), Instant(1ms));
}

// The same at the commit point, when other cases have been published already.
EVERYWHERE(Parker, APredicateThatThrowsAtTheCommitPointWithdrawsTheOtherCases) {
  Parker parker;
  int looks = 0;
  auto second_time = [&]() -> bool {
    if (++looks == 2) throw std::runtime_error("predicate");
    return true;
  };
  try {
    co_await race(sleep_op(1h), parker.park_op(second_time));
    ADD_FAILURE() << "must throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "predicate");
  }
  co_await sleep_op(1ms);
  EXPECT_EQ(now(), Instant(1ms)) << "the sleep of the failed race is still there";
}

TEST(ParkerDeathTest, OneWaiterAtATime) {
  EXPECT_DEATH(
      {
        Loop loop({.kernel = make_virtual_kernel(), .on_deadlock = OnDeadlock::fail});
        Parker parker;
        for (int i = 0; i < 2; ++i) loop.spawn([&] { parker.park_if(yes); });
        loop.run();
      },
      "two waiters park on one Parker");
}

// Producer and consumer on plain threads; the consumer parks whenever it has seen everything.
TEST(Parker, C14_NoUnparkIsMissedAcrossThreads) {
  const std::uint64_t items = scaled(500, 20'000, 500'000);
  Parker parker;
  std::atomic<std::uint64_t> produced{0};
  std::uint64_t consumed = 0;
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < items; ++i) {
      produced.fetch_add(1);
      parker.unpark();
      if (i % 7 == 0) std::this_thread::yield();
    }
  });
  while (consumed < items) {
    parker.park_if([&] { return produced.load() == consumed; });
    consumed = produced.load();
  }
  producer.join();
  EXPECT_EQ(consumed, items);
}

// The same with a fiber as the consumer: its loop sleeps in the kernel, the thread interrupts it.
TEST(Parker, C14_AThreadUnparksAFiber) {
  const std::uint64_t items = scaled(500, 20'000, 500'000);
  for (const Kind kind : {Kind::fiber, Kind::coroutine}) {
    Loop loop({.on_deadlock = OnDeadlock::wait});
    Parker parker;
    std::atomic<std::uint64_t> produced{0};
    std::uint64_t consumed = 0;
    std::thread producer([&] {
      for (std::uint64_t i = 0; i < items; ++i) {
        produced.fetch_add(1);
        parker.unpark();
        if (i % 7 == 0) std::this_thread::yield();
      }
    });
    auto waiting = [&] { return produced.load() == consumed; };
    if (kind == Kind::fiber) {
      loop.run([&] {
        while (consumed < items) {
          parker.park_if(waiting);
          consumed = produced.load();
        }
      });
    } else {
      loop.run([&]() -> Coro<> {
        while (consumed < items) {
          co_await parker.park_op(waiting);
          consumed = produced.load();
        }
      });
    }
    producer.join();
    EXPECT_EQ(consumed, items);
  }
}

// Lock step, which parks every time: each side waits for exactly one unpark of the other.
TEST(Parker, C14_PingPongBetweenThreads) {
  const int rounds = static_cast<int>(scaled(200, 5'000, 100'000));
  Parker ping;
  Parker pong;
  int ball = 0;
  std::thread other([&] {
    for (int i = 0; i < rounds; ++i) {
      ping.park_if(yes);
      ++ball;
      pong.unpark();
    }
  });
  for (int i = 0; i < rounds; ++i) {
    ASSERT_EQ(ball, i);
    ping.unpark();
    pong.park_if(yes);
  }
  other.join();
  EXPECT_EQ(ball, rounds);
}

}  // namespace
}  // namespace weft::test

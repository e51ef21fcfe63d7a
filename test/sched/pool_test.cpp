#include <weft/weft.hpp>

#include "support/everywhere.hpp"

#include <atomic>

namespace weft::test {
namespace {

class PoolOf : public testing::TestWithParam<std::size_t> {
 protected:
  Pool pool{{.workers = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Workers, PoolOf, testing::Values(1, 2, 4, 64),
                         [](const auto& test) { return std::to_string(test.param); });

TEST_P(PoolOf, S1_RunReturnsTheResult) {
  EXPECT_EQ(pool.workers(), GetParam());
  EXPECT_EQ(pool.run([] { return 42; }), 42);
  EXPECT_EQ(pool.run([]() -> Coro<int> { co_return 43; }), 43);
  EXPECT_THROW(pool.run([] { throw std::runtime_error("no"); }), std::runtime_error);
  EXPECT_EQ(pool.live(), 0U);
}

TEST_P(PoolOf, C1_EveryTaskRunsOnce) {
  const std::size_t count = scaled(2'000, 50'000, 500'000);
  std::vector<std::atomic<int>> ran(count);
  pool.run([&] {
    Scope scope;
    for (std::size_t i = 0; i < count; ++i) {
      if (i % 2 == 0) {
        scope.spawn([&, i] { ++ran[i]; });
      } else {
        scope.spawn([&, i]() -> Coro<> {
          co_await next_turn();
          ++ran[i];
        });
      }
    }
    scope.join();
  });
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(ran[i], 1) << i;
  EXPECT_EQ(pool.live(), 0U);
}

int fib(int n) {
  if (n < 2) return n;
  Scope scope;
  auto left = scope.spawn([n] { return fib(n - 1); });
  const int right = fib(n - 2);
  return left.get() + right;
}

Coro<int> fib_coro(int n) {
  if (n < 2) co_return n;
  Scope scope;
  auto left = scope.spawn([n] { return fib_coro(n - 1); });
  const int right = co_await fib_coro(n - 2);
  const int sum = (co_await left.join_op()).value() + right;
  co_await scope.joined();
  co_return sum;
}

TEST_P(PoolOf, C7_ForkAndJoin) {
  EXPECT_EQ(pool.run([] { return fib(16); }), 987);
  EXPECT_EQ(pool.run([] { return fib_coro(16); }), 987);
}

TEST_P(PoolOf, C1_ChannelsAcrossWorkers) {
  const int count = static_cast<int>(scaled(500, 20'000, 200'000));
  std::atomic<std::int64_t> sum{0};
  pool.run([&] {
    Channel<int> ch(16);
    Scope scope;
    Scope readers;
    for (int t = 0; t < 4; ++t) {
      scope.spawn([&] {
        for (int i = 1; i <= count; ++i) ch.send(i);
      });
      readers.spawn([&] {
        while (auto got = ch.recv()) sum += *got;
      });
    }
    scope.join();
    ch.close();
    readers.join();
  });
  EXPECT_EQ(sum, 4LL * count * (count + 1) / 2);
}

TEST_P(PoolOf, C8_ABurstFromAPlainThread) {
  const std::size_t count = scaled(2'000, 100'000, 1'000'000);
  std::atomic<std::size_t> ran{0};
  for (std::size_t i = 0; i < count; ++i) pool.spawn([&] { ++ran; });
  pool.run();
  EXPECT_EQ(ran, count);
}

TEST_P(PoolOf, C21_SleepersWakeInTime) {
  std::atomic<int> woken{0};
  pool.run([&] {
    Scope scope;
    for (int i = 0; i < 1000; ++i) {
      scope.spawn([&, i] {
        const Instant until = now() + std::chrono::microseconds(i * 20);
        sleep_until(until);
        EXPECT_GE(now(), until);
        ++woken;
      });
    }
    scope.join();
  });
  EXPECT_EQ(woken, 1000);
}

TEST_P(PoolOf, C23_DestructionCancelsAndWaits) {
  std::atomic<int> begun{0};
  std::atomic<int> cleaned{0};
  {
    Pool other({.workers = GetParam()});
    for (int i = 0; i < 100; ++i) {
      other.spawn([&] {
        struct Count {
          std::atomic<int>& n;
          ~Count() { ++n; }
        } count{cleaned};
        ++begun;
        weft::sleep(std::chrono::hours(1));
      });
    }
  }
  EXPECT_EQ(cleaned, begun);  // those that had not begun never do
}

// While one worker asks itself whether this is a deadlock, another runs all there is and sleeps. On
// a busy machine that happens to one in thousands: it is the large scale that would show it.
TEST(Pool, C22_WorkThatIsOverAtOnceIsNoDeadlock) {
  const std::size_t rounds = scaled(100, 1'000, 20'000);
  for (std::size_t i = 0; i < rounds; ++i) {
    Pool pool(virtual_pool(2));  // anew: its workers are just going to sleep
    for (int k = 0; k < 3; ++k) pool.run([] {});
    EXPECT_EQ(pool.live(), 0U);
  }
}

// Whoever is told to stop is for a moment in nobody's queue.
TEST(Pool, C22_AShutdownIsNoDeadlock) {
  const std::size_t rounds = scaled(50, 500, 20'000);
  for (std::size_t i = 0; i < rounds; ++i) {
    Pool pool(virtual_pool(2));
    std::atomic<bool> waiting{false};
    pool.spawn([&] {
      Event never;
      Scope scope;
      auto waits = scope.spawn([&] { never.wait(); }).share();
      for (int k = 0; k < 20; ++k) {
        scope.spawn([waits]() -> Coro<> { static_cast<void>(co_await waits.join_op()); });
      }
      weft::sleep(std::chrono::microseconds(i % 50));
      waiting = true;
      while (!scope.cancelled()) yield();
      scope.join();
    });
    while (!waiting) std::this_thread::yield();
    EXPECT_TRUE(pool.shutdown(std::chrono::minutes(1)));
    EXPECT_NO_THROW(pool.run());
  }
}

// A task that was to be measured, but never lay in a queue, must not be taken for one that comes to
// lie in the same memory later.
TEST(Pool, C22_OnlyWhoHasWaitedCountsAsDelayed) {
  Pool pool({.workers = 1, .kernel = make_virtual_kernel()});
  pool.run([] {
    Scope scope;
    for (int i = 0; i < 1'000; ++i) scope.spawn([] {}).get();
    weft::sleep(std::chrono::hours(1));
    for (int i = 0; i < 1'000; ++i) {
      auto child = scope.spawn([] {});
      yield();
      child.get();
    }
  });
  const DurationHistogram delays = pool.stats().total.delay;
  EXPECT_GT(delays.total(), 0U);
  EXPECT_LE(delays.quantile(1), 1U);  // time stands still while anybody runs
}

TEST(Pool, C22_ADeadlockIsFound) {
  Pool pool({.workers = 2, .kernel = make_virtual_kernel(), .on_deadlock = OnDeadlock::fail});
  EXPECT_THROW(pool.run([] {
    Channel<int> nobody_sends;
    nobody_sends.recv();
  }),
               Deadlock);
}

// It was told to stop long ago, and does not listen: nothing that is left to do would help.
TEST(PoolDeathTest, C22_WhoIsDeafAndWaitsForEverIsFatal) {
  EXPECT_DEATH(
      {
        Pool pool(virtual_pool(2));
        std::atomic<bool> begun{false};
        pool.spawn([&] {
          try {
            for (;; yield()) begun = true;
          } catch (const Cancelled&) {
            const Shield shield;
            Event().wait();
          }
        });
        while (!begun) std::this_thread::yield();
        pool.shutdown(std::chrono::minutes(1));
      },
      "tasks still wait after they were cancelled: deadlock: 1 task");
}

TEST(Pool, VirtualTimeJumpsWhenAllSleep) {
  for (const std::size_t workers : {1U, 2U, 4U, 16U}) {
    Pool pool({.workers = workers, .kernel = make_virtual_kernel()});
    pool.run([] {
      weft::sleep(std::chrono::hours(1));
      EXPECT_EQ(now(), Instant(std::chrono::hours(1)));
    });
  }
}

}  // namespace
}  // namespace weft::test

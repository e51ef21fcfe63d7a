// Pools whose workers are kept busy, or from working.
#include <weft/weft.hpp>

#include "support/everywhere.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <thread>

#include <sys/resource.h>

namespace weft::test {
namespace {

Instant real_now() {
  return make_thread_kernel()->now();
}
void real_sleep(Duration lasting) {
  const auto kernel = make_thread_kernel();
  kernel->wait(kernel->now() + lasting);
}

/// Computes, and does not give way.
[[gnu::noinline]] void hog(std::chrono::milliseconds lasting) {
  const auto until = real_now() + lasting;
  while (real_now() < until) {
  }
}

Duration cpu_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& t) {
    return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

template <class Done>
bool within_seconds(int seconds, Done done) {
  const auto until = real_now() + std::chrono::seconds(seconds);
  while (!done()) {
    if (real_now() > until) return false;
    real_sleep(1ms);
  }
  return true;
}

TEST(PoolBusy, C25_AHeartbeatGoesOnBesideHogs) {
  const auto lasting = std::chrono::milliseconds(scaled(500, 3'000, 3'000));
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero()});
  std::atomic<int> beats{0};
  pool.run([&] {
    Scope scope;
    auto heart = scope.spawn([&] {
      for (Instant next = now();; ++beats) {
        next = next + 100ms;
        sleep_until(next);
      }
    });
    for (int i = 0; i < 2; ++i) scope.spawn([&] { hog(lasting); });
    sleep(lasting);
    heart.cancel();
    static_cast<void>(heart.join());
    scope.join();
  });
  const int wanted = static_cast<int>(lasting / 100ms);
  EXPECT_GE(beats, wanted - 1 - wanted / 30);
  EXPECT_GT(pool.stats().spares_started, 0U);
}

/// Two tasks that look for each other until both run: is it soon, now and then? (The machine may
/// have other things to do.) If the second woke nobody, it would always take until the monitor
/// notices: 5 ms, which is a few hundred thousand looks.
template <class F>
bool two_meet_soon(F start_both) {
  constexpr std::uint64_t soon = 50'000;
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero()});
  int times = 0;
  for (int i = 0; i < 300 && times < 5; ++i) {
    const std::uint64_t looks = pool.run([&] {
      std::atomic<int> here{0};
      std::atomic<std::uint64_t> most{0};
      start_both([&] {
        ++here;
        std::uint64_t n = 0;
        for (; here < 2; ++n) spin_pause();
        if (n > most) most = n;
      });
      return most.load();
    });
    if (looks < soon) ++times;
  }
  return times == 5;
}

TEST(PoolBusy, C10_TheSecondOfTwoIsForSomebodyElse) {
  if (default_workers() < 2) GTEST_SKIP() << "one processor";
  EXPECT_TRUE(two_meet_soon([](auto meet) {
    Scope scope;
    scope.spawn(meet);
    scope.spawn(meet);
    scope.join();
  }));
  EXPECT_TRUE(two_meet_soon([](auto meet) {
    Scope scope;
    auto one = scope.spawn(meet);
    auto two = scope.spawn(meet);
    one.get();
    two.get();
  }));
  EXPECT_TRUE(two_meet_soon([](auto meet) { both(meet, meet); }));
}

TEST(PoolBusy, C10_WhoWakesOneAndSpawnsAnotherWakesAWorker) {
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero()});
  const auto asleep = [&] {
    const std::vector<WorkerStats> workers = pool.stats().workers;
    return std::any_of(workers.begin(), workers.end(), [](const auto& w) { return w.asleep; });
  };
  pool.run([&] {
    Channel<int> channel;
    Scope scope;
    scope.spawn([&] { channel.recv(); });
    int looks = 0;
    do sleep(1ms);  // until the receiver waits, and the other worker sleeps
    while (!asleep() && ++looks < 10'000);
    ASSERT_LT(looks, 10'000);
    const std::uint64_t sleeps = pool.stats().total.sleeps;
    channel.send(1);
    scope.spawn([] {});
    // Maybe both have been run by now, and it sleeps again.
    EXPECT_TRUE(!asleep() || pool.stats().total.sleeps > sleeps);
    scope.join();
  });
}

TEST(PoolBusy, C22_TasksThatBlockTheirThreadsAreReplaced) {
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero()});
  std::atomic<bool> release{false};
  std::atomic<int> kidnapped{0};
  std::atomic<int> ran{0};
  for (int i = 0; i < 8; ++i) {
    pool.spawn([&] {
      ++kidnapped;
      release.wait(false);  // as a system call would
    });
  }
  for (int i = 0; i < 1000; ++i) pool.spawn([&] { ++ran; });
  EXPECT_TRUE(within_seconds(20, [&] { return kidnapped == 8 && ran == 1000; }))
      << kidnapped << " " << ran << "\n"
      << pool.stats().to_string();
  EXPECT_GE(pool.stats().spares, 6U);
  release = true;
  release.notify_all();
  pool.run();
  // When they are not needed any more they go.
  EXPECT_TRUE(within_seconds(20, [&] { return pool.stats().spares == 0; }))
      << pool.stats().to_string();
  EXPECT_EQ(pool.run([] { return 1; }), 1);
}

// A worker that takes long to begin would look stuck, with a task that waits for it.
TEST(PoolBusy, C22_APoolIsReadyWhenItIsMade) {
  std::thread other([] { real_sleep(100ms); });  // the machine takes longer for such a process
  {
    Pool pool({.workers = 1, .report_stuck_after = Duration::zero()});
    EXPECT_EQ(pool.run([] { return 7; }), 7);
    EXPECT_EQ(pool.stats().spares_started, 0U);
  }
  other.join();
}

TEST(PoolBusy, C22_NoMoreSparesThanAllowed) {
  Pool pool({.workers = 1, .report_stuck_after = Duration::zero(), .most_spares = 2});
  std::atomic<bool> release{false};
  std::atomic<int> kidnapped{0};
  for (int i = 0; i < 8; ++i) {
    pool.spawn([&] {
      ++kidnapped;
      release.wait(false);
    });
  }
  EXPECT_TRUE(within_seconds(20, [&] { return kidnapped == 3; }));
  real_sleep(100ms);
  EXPECT_EQ(kidnapped, 3);
  release = true;
  release.notify_all();
  pool.run();
  EXPECT_EQ(kidnapped, 8);
}

TEST(PoolBusy, C22_AStuckTaskIsReportedByNameWithItsStack) {
  testing::internal::CaptureStderr();
  {
    Pool pool({.workers = 1, .report_stuck_after = 30ms});
    pool.spawn([] { hog(300ms); }, {.name = "miner"});
    pool.run();
    EXPECT_EQ(pool.stats().stuck_reports, 1U);
  }
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_NE(report.find("worker 1 has been in one task for"), std::string::npos) << report;
  EXPECT_NE(report.find("'miner' (tid "), std::string::npos) << report;
  EXPECT_NE(report.find("hog"), std::string::npos) << report;
}

// It woke somebody, and computes on: the woken one must not wait for it.
TEST(PoolBusy, C7_WhatABusyTaskWokeIsRunByOthers) {
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero()});
  std::atomic<bool> heard{false};
  pool.run([&] {
    Channel<int> ch;
    Scope scope;
    scope.spawn([&] {
      ch.recv();
      heard = true;
    });
    sleep(20ms);
    ch.send(1);
    const auto until = real_now() + 5s;
    while (!heard && real_now() < until) {
    }
    EXPECT_TRUE(heard);
    scope.join();
  });
}

// It spawned somebody, and computes on.
TEST(PoolBusy, C7_WhatABusyTaskSpawnedIsRunByOthers) {
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero()});
  pool.run([&] {
    std::atomic<bool> ran{false};
    Scope scope;
    scope.spawn([&] { ran = true; });
    const auto until = real_now() + 5s;
    while (!ran && real_now() < until) {
    }
    EXPECT_TRUE(ran);
    scope.join();
  });
}

TEST(PoolBusy, C19_AffinityIsSoft) {
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero()});
  std::atomic<bool> release{false};
  std::atomic<int> ran{0};
  std::atomic<bool> occupied{false};
  pool.spawn(
      [&] {
        occupied = true;
        while (!release) {
        }
      },
      {.worker = 2});
  ASSERT_TRUE(within_seconds(10, [&] { return occupied.load(); }));
  // Some get into the inbox of the busy one, and must come out again.
  for (int i = 0; i < 1000; ++i) pool.spawn([&] { ++ran; }, {.worker = 2});
  EXPECT_TRUE(within_seconds(20, [&] { return ran == 1000; })) << ran;
  release = true;
  pool.run();
}

/// The least of a few: others use the machine too, but who spins does so all the time.
double busy_share() {
  double least = 1;
  for (int i = 0; i < 5 && least > 0.0005; ++i) {
    const auto start = real_now();
    const Duration before = cpu_time();
    real_sleep(std::chrono::milliseconds(scaled(200, 1'000, 5'000)));
    const Duration used = cpu_time() - before;
    const Duration passed = real_now() - start;
    least =
        std::min(least, static_cast<double>(used.count()) / static_cast<double>(passed.count()));
  }
  return least;
}
#if defined(WEFT_TSAN)
constexpr double hardly_busy = 0.05;  // ThreadSanitizer has a thread of its own
#else
constexpr double hardly_busy = 0.001;
#endif

TEST(PoolBusy, C9_AnIdlePoolSleeps) {
  const std::size_t tasks = fibers_at_once(scaled(1'000, 20'000, 100'000));
  Pool pool({.workers = 4});
  Channel<int> never;
  for (std::size_t i = 0; i < tasks; ++i) {
    pool.spawn([&]() -> Coro<> {
      if (auto got = co_await never.recv_op()) ADD_FAILURE();
    });
  }
  for (int i = 0; i < 1'000; ++i) pool.spawn([&] { select(sleep_op(1h), never.recv_op()); });
  ASSERT_TRUE(within_seconds(20, [&] { return pool.stats().total.asleep; }));
  EXPECT_LT(busy_share(), hardly_busy);
  EXPECT_EQ(pool.live(), tasks + 1'000);
  EXPECT_EQ(pool.stats().timers, 1'000);
  never.close();
  pool.run();
}

/// Nor does it look again and again whether it is deadlocked.
TEST(PoolBusy, C9_APoolThatWaitsForAThreadSleeps) {
  Pool pool({.workers = 4});
  Channel<int> never;
  pool.spawn([&] { EXPECT_EQ(never.recv(), 7); });
  ASSERT_TRUE(within_seconds(20, [&] { return pool.stats().total.asleep; }));
  real_sleep(std::chrono::milliseconds(scaled(1'500, 1'500, 5'000)));
  EXPECT_LT(busy_share(), hardly_busy);
  never.send(7);
  pool.run();
}

TEST(PoolBusy, C13_ADumpOfARunningPool) {
  Pool pool({.workers = 4, .report_stuck_after = Duration::zero()});
  std::atomic<bool> stop{false};
  for (int i = 0; i < 20; ++i) {
    pool.spawn(
        [&] {
          while (!stop) sleep(100us);
        },
        {.name = "napper"});
  }
  pool.spawn(
      [&] {
        while (!stop) {
        }
      },
      {.name = "busy one"});
  for (int i = 0; i < 20; ++i) {
    const std::string text = dump(pool);
    EXPECT_NE(text.find("napper"), std::string::npos);
  }
  const std::string text = pool.block_on([&] { return dump(this_io()); });
  EXPECT_NE(text.find("busy one (tid"), std::string::npos) << text;
  EXPECT_NE(text.find("block_on (tid"), std::string::npos) << text;
  stop = true;
  pool.run();
}

TEST(PoolBusy, C23_ShutdownSaysWhatDidNotEnd) {
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero()});
  std::atomic<bool> release{false};
  std::atomic<bool> begun{false};
  pool.spawn(
      [&] {
        Shield shield;
        begun = true;
        while (!release) sleep(1ms);
      },
      {.name = "stubborn"});
  pool.spawn([] { sleep(1h); }, {.name = "obedient"});
  ASSERT_TRUE(within_seconds(10, [&] { return begun.load(); }));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(pool.shutdown(50ms));
  const std::string report = testing::internal::GetCapturedStderr();
  EXPECT_NE(report.find("1 task(s) did not end in time"), std::string::npos) << report;
  EXPECT_NE(report.find("stubborn"), std::string::npos) << report;
  EXPECT_EQ(report.find("obedient"), std::string::npos) << report;
  release = true;
  EXPECT_TRUE(pool.shutdown(10s));
  EXPECT_EQ(pool.live(), 0U);
}

TEST(PoolBusy, C22_WorkersFromTheEnvironment) {
  ::setenv("WEFT_WORKERS", "3", 1);
  EXPECT_EQ(Pool().workers(), 3U);
  for (const char* bad : {"0", "x", "3x", "-1", "99999"}) {
    ::setenv("WEFT_WORKERS", bad, 1);
    EXPECT_THROW(Pool{}, std::invalid_argument) << bad;
  }
  ::unsetenv("WEFT_WORKERS");
  EXPECT_GE(Pool().workers(), 1U);
}

}  // namespace
}  // namespace weft::test

#include "support/everywhere.hpp"

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/resource.h>

namespace weft::test {
namespace {

Loop virtual_loop() {
  return Loop({.kernel = make_virtual_kernel()});
}

// The golden outputs

TEST(Golden, S10_ThreeFibersYieldingThrice) {
  std::string out;
  auto loop = virtual_loop();
  loop.run([&] {
    Scope scope;
    for (int i = 0; i < 3; ++i) {
      scope.spawn([&, i] {
        for (int k = 0; k < 3; ++k) {
          out += std::to_string(i) + " ";
          yield();
        }
      });
    }
  });
  EXPECT_EQ(out, "0 1 2 0 1 2 0 1 2 ");
}

ONE_AFTER_ANOTHER(Golden, S10_SleepersWakeInOrderFirstComeFirstServed) {
  std::string out;
  Scope scope;
  int index = 0;
  for (const int deadline : {30, 10, 20, 15, 15}) {
    here.spawn(scope, [&out, deadline, mine = index++]() -> Coro<> {
      co_await sleep_op(std::chrono::milliseconds(deadline));
      out += std::to_string(deadline) + "(" + std::to_string(mine) + ") ";
    });
  }
  co_await scope.joined();
  EXPECT_EQ(out, "10(1) 15(3) 15(4) 20(2) 30(0) ");
  EXPECT_EQ(now(), Instant(30ms));
}

ONE_AFTER_ANOTHER(Golden, S10_ARaceWonAt10LeavesTheClockAt10) {
  const auto won = co_await race(sleep_op(30ms), sleep_op(10ms), sleep_op(20ms));
  EXPECT_EQ(won.index(), 1U);
  EXPECT_EQ(now(), Instant(10ms));
}

ONE_AFTER_ANOTHER(Golden, S10_ACancelledTasksLineAfterItsSuspensionNeverPrints) {
  std::string out;
  Scope scope;
  auto handle = here.spawn(scope, [&]() -> Coro<> {
    out += "before ";
    co_await sleep_op(1s);
    out += "after ";
  });
  co_await sleep_op(1ms);
  handle.cancel();
  co_await handle.done_op();
  out += "joined";
  EXPECT_EQ(out, "before joined");
  co_await scope.joined();
}

// The loop

TEST(Loop, T2_FirstInFirstOutAndTheYielderGoesToTheTail) {
  std::string out;
  auto loop = virtual_loop();
  auto task = [&](char name) {
    loop.spawn([&, name] {
      out += name;
      yield();
      out += name;
    });
  };
  for (const char name : {'a', 'b', 'c'}) task(name);
  loop.run();
  EXPECT_EQ(out, "abcabc");
}

TEST(Loop, T4_EndsWhenNoTaskRemainsAndNeverEarlier) {
  auto loop = virtual_loop();
  int done = 0;
  loop.spawn([&] {
    sleep(1h);
    loop.spawn([&] {
      sleep(1h);
      ++done;
    });
    ++done;
  });
  loop.run();
  EXPECT_EQ(done, 2);
  EXPECT_EQ(loop.now(), Instant(2h));
  loop.run();  // nothing to do: returns at once
}

TEST(Loop, F14_AnExceptionDoesNotWedgeIt) {
  auto loop = virtual_loop();
  EXPECT_THROW(loop.run([] { throw std::runtime_error("x"); }), std::runtime_error);
  EXPECT_EQ(loop.run([] { return 7; }), 7);
}

TEST(Loop, F14_TheStartTimeIsInjected) {
  Loop loop({.kernel = make_virtual_kernel(Instant(100s))});
  loop.run([] {
    EXPECT_EQ(now(), Instant(100s));
    sleep(1s);
    EXPECT_EQ(now(), Instant(101s));
  });
}

TEST(Loop, F13_BlockOnReturnsWhenItsTaskIsDone) {
  auto loop = virtual_loop();
  bool other = false;
  loop.spawn([&] {
    sleep(1h);
    other = true;
  });
  EXPECT_EQ(loop.block_on([] {
    sleep(1s);
    return 3;
  }),
            3);
  EXPECT_FALSE(other);
  EXPECT_EQ(loop.live(), 1U);
  loop.run();
  EXPECT_TRUE(other);
  EXPECT_EQ(block_on([]() -> Coro<int> { co_return 8; }), 8);
}

TEST(Loop, F13_BlockOnAlsoWhenAlreadyCancelled) {
  auto loop = virtual_loop();
  const auto outcome = loop.block_on([] {
    return within({}, [](Scope& s) {
      s.cancel();
      sleep(1h);
    });
  });
  EXPECT_EQ(outcome.reason(), CancelReason::requested);
}

TEST(Loop, S9_ADeadlockIsReportedWithWhoWaitsForWhat) {
  auto loop = virtual_loop();
  bool cleaned = false;
  std::string report;
  testing::internal::CaptureStderr();
  try {
    loop.run([&] {
      struct Clean {
        bool& flag;
        ~Clean() { flag = true; }
      } clean{cleaned};
      Channel<int> a;
      Scope scope({.name = "pair"});
      scope.spawn([&] { a.recv(); }, {.name = "reader"});
      scope.spawn([&]() -> Coro<> { co_await never(); }, {.name = "waiter"});
      scope.join();
    });
    ADD_FAILURE() << "must throw";
  } catch (const Deadlock& deadlock) {
    report = deadlock.what();
  }
  const std::string printed = testing::internal::GetCapturedStderr();
  EXPECT_NE(printed.find("deadlock: 3 task(s)"), std::string::npos);
  EXPECT_NE(report.find("scope 'pair'"), std::string::npos) << report;
  EXPECT_NE(report.find("reader (tid 2, fiber) blocked: channel recv"), std::string::npos)
      << report;
  EXPECT_NE(report.find("waiter (tid 3, coroutine) blocked: never"), std::string::npos) << report;
  EXPECT_TRUE(cleaned);
  EXPECT_EQ(loop.run([] { return 1; }), 1) << "the loop stays usable";
}

TEST(Loop, S9_ARealLoopInAProcessOfOneThreadReportsToo) {
  if (process_has_other_threads()) GTEST_SKIP() << "this process has threads that are not ours";
  Loop loop;
  testing::internal::CaptureStderr();
  EXPECT_THROW(loop.run([] { perform(never()); }), Deadlock);
  testing::internal::GetCapturedStderr();
}

TEST(Loop, T16_AnIdleLoopBurnsNoCpu) {
  Loop loop;
  rusage before{};
  ::getrusage(RUSAGE_SELF, &before);
  loop.run([] { sleep(60ms); });  // real time: the point is what it costs
  rusage after{};
  ::getrusage(RUSAGE_SELF, &after);
  auto us = [](const timeval& t) { return t.tv_sec * 1'000'000 + t.tv_usec; };
  const auto used =
      us(after.ru_utime) + us(after.ru_stime) - us(before.ru_utime) - us(before.ru_stime);
  EXPECT_LT(used, 15'000) << "microseconds of CPU in 60 ms of idling";
}

TEST(Loop, GuestOfAnotherEventLoop) {
  Loop loop;
  Channel<int> channel;
  std::vector<int> got;
  loop.spawn([&] {
    while (auto v = channel.recv()) got.push_back(*v);
    sleep(2ms);
    got.push_back(-1);
  });
  EXPECT_TRUE(loop.run_until_idle());
  std::thread outside([&] {
    channel.send(1);
    channel.send(2);
    channel.close();
  });
  int rounds = 0;
  do {
    pollfd host{loop.fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&host, 1, 5000), 1) << "the descriptor must become readable";
    ASSERT_LT(++rounds, 100) << "the descriptor must not stay readable without work";
  } while (loop.run_until_idle());
  outside.join();
  EXPECT_EQ(got, (std::vector<int>{1, 2, -1}));
}

TEST(Loop, SpawnsAndWakesFromOtherThreads) {
  const auto count = static_cast<int>(scaled(500, 5'000, 50'000));
  Loop loop({.on_deadlock = OnDeadlock::wait});
  Channel<int> numbers(16);
  long sum = 0;
  auto consumer = loop.spawn([&] {
    while (auto v = numbers.recv()) sum += *v;
  });
  std::atomic<int> ran{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < count; ++i) {
        numbers.send(1);
        if (i % 16 == 0) loop.spawn([&] { ++ran; });
      }
    });
  }
  std::thread closer([&] {
    for (auto& thread : threads) thread.join();
    numbers.close();
  });
  loop.run();
  closer.join();
  EXPECT_EQ(sum, 3L * count);
  EXPECT_EQ(ran.load(), 3 * ((count + 15) / 16));
  EXPECT_TRUE(consumer.done());
}

TEST(Loop, TheDestructorShutsDownWhatIsLeft) {
  CancelReason reason{};
  bool started = false;
  {
    Loop loop;
    loop.spawn([&] {
      started = true;
      try {
        perform(never());
      } catch (const Cancelled& c) {
        reason = c.reason();
        throw;
      }
    });
    EXPECT_TRUE(loop.run_until_idle());
  }
  EXPECT_TRUE(started);
  EXPECT_EQ(reason, CancelReason::shutdown);
}

TEST(Loop, RunInsideATaskIsRefused) {
  EXPECT_THROW(block_on([] { block_on([] {}); }), std::logic_error);
}

TEST(Loop, AGuestThatAlwaysYieldsLeavesTheHostItsTurn) {
  Loop loop;
  bool stop = false;
  loop.spawn([&] {
    while (!stop) yield();
  });
  EXPECT_TRUE(loop.run_until_idle());
  pollfd host{loop.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&host, 1, 0), 1) << "there is more to do";
  stop = true;
  loop.run();
}

TEST(Loop, WorkSpawnedBeforeTheFirstRunMakesTheDescriptorReadable) {
  Loop loop;
  loop.spawn([] {});
  pollfd host{loop.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&host, 1, 0), 1);
  EXPECT_FALSE(loop.run_until_idle());
}

TEST(Inline, S1_RunsToCompletionAtOnce) {
  Inline io;
  std::string out;
  io.run([&] {
    Scope scope;
    out += "a";
    auto handle = scope.spawn([&] {
      out += "b";
      return 5;
    });
    out += "c";
    EXPECT_TRUE(handle.done());
    EXPECT_EQ(handle.get(), 5);
    EXPECT_EQ(scope.spawn([]() -> Coro<int> { co_return 6; }).get(), 6);
  });
  EXPECT_EQ(out, "abc");
}

TEST(Inline, S9_AWaitNobodyCanEndIsReported) {
  Inline io({.kernel = make_virtual_kernel()});
  testing::internal::CaptureStderr();
  EXPECT_THROW(io.run([] { perform(never()); }), Deadlock);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("blocked: never"), std::string::npos);
  EXPECT_EQ(io.run([] { return 2; }), 2);
}

TEST(Inline, BlocksTheThreadForOtherThreads) {
  Channel<int> channel;
  std::thread sender([&] {
    for (int i = 0; i < 100; ++i) channel.send(i);
    channel.close();
  });
  Inline io;
  const int sum = io.run([&] {
    int total = 0;
    while (auto v = channel.recv()) total += *v;
    return total;
  });
  sender.join();
  EXPECT_EQ(sum, 4950);
}

}  // namespace
}  // namespace weft::test

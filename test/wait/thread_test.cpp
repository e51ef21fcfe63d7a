// Plain threads take part: they block, tasks do not, and nobody notices the difference.
#include <thread>

#include "support/everywhere.hpp"

#include <atomic>
#include <vector>

namespace weft::test {
namespace {

constexpr std::size_t capacities[] = {0, 1, 16};

std::int64_t sum_to(std::int64_t n) {
  return n * (n + 1) / 2;
}

TEST(Threads, C18_AChannelBetweenTwoThreads) {
  const int items = static_cast<int>(scaled(200, 10'000, 200'000));
  for (const std::size_t capacity : capacities) {
    Channel<int> ch(capacity);
    std::thread sender([&] {
      for (int i = 1; i <= items; ++i) EXPECT_TRUE(ch.send(i));
      ch.close();
    });
    int next = 1;
    while (auto got = ch.recv()) EXPECT_EQ(*got, next++) << "out of order";
    sender.join();
    EXPECT_EQ(next, items + 1);
  }
}

TEST(Threads, C18_ManyThreadsOneChannel) {
  const int items = static_cast<int>(scaled(100, 3'000, 50'000));
  for (const std::size_t capacity : capacities) {
    Channel<int> ch(capacity);
    std::atomic<std::int64_t> sum{0};
    std::atomic<int> senders{2};
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (int i = 1; i <= items; ++i) EXPECT_TRUE(ch.send(i));
        if (--senders == 0) ch.close();
      });
      threads.emplace_back([&] {
        while (auto got = ch.recv()) sum += *got;
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(sum.load(), 2 * sum_to(items));
  }
}

// A thread echoes what tasks of a loop, one of each kind, send it.
TEST(Threads, C18_AThreadAndALoop) {
  const int items = static_cast<int>(scaled(200, 5'000, 100'000));
  for (const std::size_t capacity : capacities) {
    Channel<int> there(capacity);
    Channel<int> back(capacity);
    std::thread echo([&] {
      while (auto got = there.recv()) EXPECT_TRUE(back.send(*got));
      back.close();
    });
    std::int64_t sum = 0;
    Loop loop({.on_deadlock = OnDeadlock::wait});
    loop.spawn([&] {
      for (int i = 1; i <= items; ++i) EXPECT_TRUE(there.send(i));
      there.close();
    });
    loop.spawn([&]() -> Coro<> {
      while (auto got = co_await back.recv_op()) sum += *got;
    });
    loop.run();
    echo.join();
    EXPECT_EQ(sum, sum_to(items));
  }
}

// The loop is driven by another thread; this one spawns into it, joins and cancels.
TEST(Threads, S1_SpawnJoinAndCancelFromOutside) {
  const int rounds = static_cast<int>(scaled(100, 3'000, 50'000));
  Loop loop({.on_deadlock = OnDeadlock::wait});
  Channel<int> stop;
  std::thread driver([&] { loop.run([&] { static_cast<void>(stop.recv()); }); });
  Channel<int> never_sent;
  for (int i = 0; i < rounds; ++i) {
    auto value = loop.spawn([i] { return i; });
    auto coro = loop.spawn([i]() -> Coro<int> {
      co_await next_turn();
      co_return i;
    });
    auto stuck = loop.spawn([&] { static_cast<void>(never_sent.recv()); });
    EXPECT_EQ(value.get(), i);
    EXPECT_EQ(coro.get(), i);
    stuck.cancel();
    const auto o = stuck.join();
    EXPECT_TRUE(o.cancelled());
    EXPECT_EQ(o.reason(), CancelReason::killed);
  }
  stop.close();
  driver.join();
  EXPECT_EQ(loop.live(), 0U);
}

// Whoever wakes a thread may still be on its way back when that thread has long gone on and freed
// everything it waited with. The deadlines make the thread look by itself at about the same time.
TEST(Threads, C1_AWakerDoesNotTouchAThreadThatHasGoneOn) {
  const int rounds = static_cast<int>(scaled(2'000, 5'000, 500'000));
  Channel<int> go;
  Channel<int> done;
  std::thread other([&] {
    while (go.recv()) EXPECT_TRUE(done.send(1));
  });
  for (int i = 0; i < rounds; ++i) {
    EXPECT_TRUE(go.send(i));
    while (!perform(timeout(done.recv_op(), 1us * (i % 64)))) {
    }
  }
  go.close();
  other.join();
}

// The same for a loop: its last task was woken from outside, it ends, and the loop is destroyed
// while the waker is still inside ready().
TEST(Threads, C1_AWakerDoesNotTouchALoopThatIsGone) {
  const int rounds = static_cast<int>(scaled(500, 3'000, 100'000));
  Channel<int> ch(1);
  std::atomic<int> waiting{-1};
  std::thread sender([&] {
    for (int i = 0; i < rounds; ++i) {
      while (waiting.load() < i) std::this_thread::yield();
      for (int k = 0; k < i % 128; ++k) static_cast<void>(waiting.load());
      EXPECT_TRUE(ch.send(i));
    }
  });
  for (int i = 0; i < rounds; ++i) {
    auto loop = std::make_unique<Loop>(LoopOptions{.on_deadlock = OnDeadlock::wait});
    auto body = [&] {
      waiting.store(i);
      return ch.recv();
    };
    EXPECT_EQ(loop->run(body), i);
  }
  sender.join();
}

// The waker is the only other thread, and it is gone as soon as it has done its duty. That is not a
// deadlock.
TEST(Threads, S9_AWakeByAThreadThatEndsIsNotADeadlock) {
  const int rounds = static_cast<int>(scaled(200, 3'000, 50'000));
  int wrong = 0;
  for (int i = 0; i < rounds; ++i) {
    Channel<int> ch(1);
    std::thread sender([&] { EXPECT_TRUE(ch.send(i)); });
    try {
      if (i % 2 == 0) {
        EXPECT_EQ(ch.recv(), i);
      } else {
        EXPECT_EQ(block_on([&] { return ch.recv(); }), i);
      }
    } catch (const Deadlock&) {
      ++wrong;
    } catch (const CancelledError&) {
      ++wrong;
    }
    sender.join();
  }
  EXPECT_EQ(wrong, 0) << "a deadlock was reported although a thread was about to wake the waiter";
}

TEST(Threads, S9_AThreadThatNobodyCanWakeGetsADeadlock) {
  if (process_has_other_threads()) GTEST_SKIP() << "this process has threads that are not ours";
  Channel<int> ch;
  testing::internal::CaptureStderr();
  EXPECT_THROW(static_cast<void>(ch.recv()), Deadlock);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("channel recv"), std::string::npos);
  EXPECT_EQ((perform(timeout(ch.send_op(1), 1us))), std::nullopt) << "an arm was left behind";
}

// On a plain thread the clock is the machine's. Only that it moves on is checked, not how far.
TEST(Threads, S8_SleepOnAPlainThreadTakesRealTime) {
  // tidy: allow(clock) the real clock is what is tested
  const auto begin = std::chrono::steady_clock::now();
  sleep(1ms);
  // tidy: allow(clock) the real clock is what is tested
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 1ms);
  Channel<int> ch;
  EXPECT_EQ(perform(timeout(ch.recv_op(), 1ms)), std::nullopt);
  perform(sleep_until_op(Instant(1ns)));  // long ago
  sleep(-5ms);
  sleep(0ms);
}

TEST(Threads, SelectOnAPlainThread) {
  Channel<int> a(1);
  Channel<int> b;
  EXPECT_TRUE(a.send(3));
  auto r = select(b.recv_op(), a.recv_op());
  EXPECT_EQ(std::get<1>(r), 3);
  std::thread sender([&] { EXPECT_TRUE(b.send(4)); });
  auto s = select(a.recv_op(), b.recv_op(), sleep_op(1h));
  EXPECT_EQ(std::get<1>(s), 4);
  sender.join();
}

TEST(Threads, F13_AwaitACoroutineOnAPlainThread) {
  auto add = [](int x) -> Coro<int> {
    co_await sleep_op(10us);
    co_await next_turn();
    co_return x + 1;
  };
  EXPECT_EQ(await(add(1)), 2);
  EXPECT_THROW(await([]() -> Coro<> {
                 co_await next_turn();
                 throw std::runtime_error("boom");
               }()),
               std::runtime_error);
  yield();  // nobody to yield to
}

}  // namespace
}  // namespace weft::test

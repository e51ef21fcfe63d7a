#include <weft/io/blocking.hpp>

#include "support/real.hpp"

#include <barrier>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace weft;
using namespace weft::test;

namespace {

// --- what comes back ----------------------------------------------------------------------------

Coro<> results_come_back() {
  EXPECT_EQ(co_await blocking_op([] { return 42; }), 42);
  bool called = false;
  co_await blocking_op([&] { called = true; });
  EXPECT_TRUE(called);
  auto given = std::make_unique<int>(7);
  // Named, here and below: GCC 12 destroys the captures of a closure inside a co_await twice.
  auto f = [p = std::move(given)]() mutable { return std::move(p); };
  const std::unique_ptr<int> got = co_await blocking_op(std::move(f));
  EXPECT_EQ(*got, 7);
  int& same = co_await blocking_op([&]() -> int& { return *got; });
  EXPECT_EQ(&same, got.get());
  std::string text;
  try {
    co_await blocking_op([] { throw std::runtime_error("no"); });
  } catch (const std::runtime_error& error) {
    text = error.what();
  }
  EXPECT_EQ(text, "no");
}

REAL_AND_INLINE(Blocking, C24_ResultOrExceptionComesBack) {
  static_cast<void>(here);
  co_await results_come_back();
}

EVERYWHERE(Blocking, C24_ResultOrExceptionComesBackInVirtualTime) {
  static_cast<void>(here);
  co_await results_come_back();
}

REAL_AND_INLINE(Blocking, C24_RunsOnAThreadOfItsOwn) {
  const auto here_id = std::this_thread::get_id();
  const auto there = co_await blocking_op([] { return std::this_thread::get_id(); });
  EXPECT_NE(there, here_id);
  const bool in_task = co_await blocking_op([] { return this_task() != nullptr; });
  EXPECT_FALSE(in_task);
}

EVERYWHERE(Blocking, S8_RunsAtOnceInVirtualTime) {
  std::mutex lock;
  std::vector<int> order;
  Scope scope;
  for (int i = 0; i < 3; ++i) {
    here.spawn(scope, [&, i]() -> Coro<> {
      const Instant before = now();
      const bool in_task = co_await blocking_op([&lock, &order, i] {
        std::lock_guard guard(lock);
        order.push_back(i);
        return this_task() != nullptr;
      });
      EXPECT_FALSE(in_task);
      EXPECT_NE(this_task(), nullptr);
      EXPECT_EQ(now(), before);
    });
  }
  co_await scope.joined();
  if (here.parallel()) std::ranges::sort(order);
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
}

TEST(Blocking, C24_APlainThreadJustRunsIt) {
  const auto here = std::this_thread::get_id();
  EXPECT_EQ(blocking([] { return std::this_thread::get_id(); }), here);
  EXPECT_EQ(perform(blocking_op([] { return std::this_thread::get_id(); })), here);
  EXPECT_THROW(blocking([] { throw std::logic_error("no"); }), std::logic_error);
  // In a select it must not stand in the way of the others.
  EXPECT_EQ(perform(timeout(blocking_op([] { return 1; }), 1h)), 1);
}

REAL(Blocking, C24_InsideOneMayWaitAsAPlainThread) {
  Channel<int> questions;
  Channel<int> answers;
  Scope scope;
  auto outside = here.spawn(scope, [&]() -> Coro<> {
    for (int i = 0; i < 10; ++i) {
      co_await questions.send_op(i);
      EXPECT_EQ(co_await answers.recv_op(), i * i);
    }
    questions.close();
  });
  co_await blocking_op([&] {
    while (const auto n = questions.recv()) answers.send(*n * *n);
  });
  EXPECT_TRUE((co_await outside.join_op()).ok());
}

EVERYWHERE(Blocking, S8_InsideOneMayWaitAsAPlainThreadInVirtualTime) {
  static_cast<void>(here);
  Channel<int> numbers(2);
  co_await numbers.send_op(1);
  const int got = co_await blocking_op([&] {
    sleep(1us);  // of real time: plain threads know no other
    return numbers.recv().value_or(0);
  });
  EXPECT_EQ(got, 1);
  EXPECT_NE(this_task(), nullptr);
}

// --- the bounds ---------------------------------------------------------------------------------

/// A loop on the real kernel with bounds of its own.
template <class F>
void on_loop(KernelOptions options, F f) {
  Loop loop({.kernel = make_real_kernel(options), .on_deadlock = OnDeadlock::automatic});
  loop.run(std::move(f));
}

TEST(Blocking, C24_AsManyAtOnceAsThereMayBeThreads) {
  on_loop({.most_threads = 4}, [] {
    std::barrier<> meeting(4);  // passed only if four really run at the same time
    std::atomic<int> running = 0;
    std::atomic<int> most = 0;
    std::atomic<int> done = 0;
    Scope scope;
    for (int i = 0; i < 40; ++i) {
      scope.spawn([&] {
        blocking([&] {
          const int now_running = ++running;
          for (int seen = most;
               seen < now_running && !most.compare_exchange_weak(seen, now_running);) {
          }
          meeting.arrive_and_wait();
          --running;
          ++done;
        });
      });
    }
    scope.join();
    EXPECT_EQ(done, 40);
    EXPECT_EQ(most, 4);
  });
}

TEST(Blocking, C24_OverloadedWhenFull) {
  on_loop({.most_threads = 2, .most_queued = 3}, [] {
    std::latch gate(1);
    std::atomic<int> done = 0;
    Scope scope;
    for (int i = 0; i < 5; ++i) {
      scope.spawn([&] {
        blocking([&] {
          gate.wait();
          ++done;
        });
      });
    }
    yield();
    bool ran = false;
    for (int i = 0; i < 3; ++i) EXPECT_THROW(blocking([&] { ran = true; }), Overloaded);
    EXPECT_THROW(static_cast<void>(select(blocking_op([&] { ran = true; }), never())), Overloaded);
    EXPECT_FALSE(ran);
    gate.count_down();
    scope.join();
    EXPECT_EQ(done, 5);
    EXPECT_EQ(blocking([] { return 1; }), 1);
  });
}

TEST(Blocking, C24_WithoutAQueueThreadsAreStillUsed) {
  on_loop({.most_threads = 2, .most_queued = 0}, [] {
    for (int i = 0; i < 100; ++i) EXPECT_EQ(blocking([i] { return i; }), i);
    std::latch gate(1);
    Scope scope;
    auto one = scope.spawn([&] { blocking([&] { gate.wait(); }); });
    auto two = scope.spawn([&] { blocking([&] { gate.wait(); }); });
    yield();
    EXPECT_THROW(blocking([] {}), Overloaded);
    gate.count_down();
    one.get();
    two.get();
  });
}

TEST(Blocking, C24_GivenUpOnesMakeRoom) {
  auto gate = std::make_shared<std::latch>(1);
  on_loop({.most_threads = 1, .most_queued = 2}, [gate] {
    Scope scope;
    auto holder = scope.spawn([gate] { blocking([gate] { gate->wait(); }); });
    yield();
    std::atomic<int> ran = 0;
    for (int i = 0; i < 50; ++i) {
      EXPECT_FALSE(perform(timeout(blocking_op([&ran] { ++ran; }), Duration(1))));
    }
    gate->count_down();
    holder.get();
    EXPECT_EQ(blocking([&ran] { return ran.load(); }), 0);
  });
}

// --- giving up ----------------------------------------------------------------------------------

TEST(Blocking, F9_CancelledBeforeItBeganItNeverRuns) {
  auto gate = std::make_shared<std::latch>(1);
  on_loop({.most_threads = 1}, [gate] {
    Scope scope;
    auto holder = scope.spawn([gate] { blocking([gate] { gate->wait(); }); });
    yield();
    auto token = std::make_shared<bool>(false);
    auto waiter = scope.spawn([token] { blocking([token] { *token = true; }); });
    yield();
    EXPECT_GE(token.use_count(), 2);
    waiter.cancel();
    EXPECT_TRUE(waiter.join().cancelled());
    EXPECT_EQ(token.use_count(), 1);  // destroyed before the waiter went on
    gate->count_down();
    holder.get();
    blocking([] {});
    EXPECT_FALSE(*token);
  });
}

REAL(Blocking, F9_TimeoutReturnsWhileItStillRuns) {
  struct Shared {
    std::latch gate{1};
    std::atomic<bool> begun = false;
    std::atomic<bool> ended = false;
  };
  auto shared = std::make_shared<Shared>();
  auto f = [shared] {
    shared->begun = true;
    shared->gate.wait();
    shared->ended = true;
    return 1;
  };
  while (!shared->begun) {  // a thread may be slow to start; then f is given up before it began
    const auto in_time = co_await timeout(blocking_op(f), 5ms);
    EXPECT_FALSE(in_time.has_value());
  }
  EXPECT_FALSE(shared->ended);
  EXPECT_EQ(co_await blocking_op([] { return 2; }), 2);  // the worker is free, and so is the pool
  shared->gate.count_down();
  while (!shared->ended) co_await sleep_op(50us);
}

REAL(Blocking, F4_TheWorkerGoesOnMeanwhile) {
  std::latch gate(1);
  Scope scope;
  auto blocked = here.spawn(scope, [&]() -> Coro<> { co_await blocking_op([&] { gate.wait(); }); });
  for (int i = 0; i < 100; ++i) co_await next_turn();
  co_await sleep_op(100us);
  EXPECT_FALSE(blocked.done());
  gate.count_down();  // only because this task runs can the other one end
  EXPECT_TRUE((co_await blocked.join_op()).ok());
}

/// Counts how often it was made, called and destroyed, wherever it was moved in between.
struct Counts {
  std::atomic<std::size_t> made = 0;
  std::atomic<std::size_t> begun = 0;
  std::atomic<std::size_t> ended = 0;
  std::atomic<std::size_t> destroyed = 0;
};
struct Counting {
  explicit Counting(std::shared_ptr<Counts> c) : counts(std::move(c)) { ++counts->made; }
  Counting(Counting&&) = default;
  Counting& operator=(Counting&&) = delete;
  ~Counting() {
    if (counts) ++counts->destroyed;
  }
  std::unique_ptr<int> operator()() {
    ++counts->begun;
    std::this_thread::yield();
    ++counts->ended;
    return std::make_unique<int>(1);
  }
  std::shared_ptr<Counts> counts;
};

TEST(Blocking, F9_RandomCancellationsLoseNothing) {
  const auto allocations_before = live_allocations();
  auto counts = std::make_shared<Counts>();
  const std::size_t rounds = scaled(200, 2000, 50'000);
  std::size_t got = 0;
  on_loop({.most_threads = 3}, [&] {
    Rng rng(5);
    for (std::size_t i = 0; i < rounds; ++i) {
      Scope scope;
      auto task = scope.spawn([&] { return perform(blocking_op(Counting(counts))); });
      for (auto n = rng.below(3); n > 0; --n) yield();
      if (const auto pause = rng.below(40); pause > 10) sleep(std::chrono::microseconds(pause));
      task.cancel();
      if (task.join().ok()) ++got;
    }
  });
  EXPECT_GT(counts->made, rounds / 2);
  EXPECT_EQ(counts->destroyed, counts->made);
  EXPECT_EQ(counts->begun, counts->ended);
  EXPECT_GE(counts->ended, got);
  counts.reset();
  EXPECT_EQ(live_allocations(), allocations_before);
}

TEST(Blocking, F9_AnIoEndsWithWorkInTheQueue) {
  auto gate = std::make_shared<std::latch>(1);
  auto counts = std::make_shared<Counts>();
  on_loop({.most_threads = 1}, [&] {
    auto begun = std::make_shared<std::latch>(1);
    auto hold = [gate, begun] {
      begun->count_down();
      gate->wait();
    };
    Scope scope;
    auto holder = scope.spawn([&] { blocking(hold); });
    while (!begun->try_wait()) sleep(50us);
    for (int i = 0; i < 10; ++i) {
      EXPECT_FALSE(perform(timeout(blocking_op(Counting(counts)), 1us)).has_value());
    }
    holder.cancel();
    EXPECT_TRUE(holder.join().cancelled());
    gate->count_down();
  });
  EXPECT_EQ(counts->destroyed, 10U);
  EXPECT_EQ(counts->begun, 0U);
}

// --- deadlocks ----------------------------------------------------------------------------------

TEST(Blocking, S9_DeadlocksAreFoundThoughThreadsIdle) {
  if (process_has_other_threads()) GTEST_SKIP() << "the process has threads of its own";
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(on_loop({},
                         [] {
                           {
                             Scope scope;
                             for (int k = 0; k < 5; ++k) scope.spawn([] { blocking([] {}); });
                           }
                           perform(never());
                         }),
                 Deadlock);
  }
}

TEST(Blocking, S9_WhatRunsUnobservedDelaysTheReport) {
  if (process_has_other_threads()) GTEST_SKIP() << "the process has threads of its own";
  struct Shared {
    std::atomic<bool> begun = false;
    std::atomic<bool> ended = false;
  };
  auto shared = std::make_shared<Shared>();
  auto body = [shared] {
    Scope scope;
    auto task = scope.spawn([shared] {
      blocking([shared] {
        shared->begun = true;
        sleep(30ms);
        shared->ended = true;
      });
    });
    while (!shared->begun) sleep(50us);
    task.cancel();
    static_cast<void>(task.join());
    perform(never());
  };
  EXPECT_THROW(on_loop({}, body), Deadlock);
  EXPECT_TRUE(shared->ended);
}

TEST(Blocking, S9_WaitingForTheLastOfManyIsNoDeadlock) {
  on_loop({}, [] {
    for (int i = 0; i < 200; ++i) {
      Channel<int> from_outside(1);
      // Its result is not awaited; what it does at its end is.
      Scope scope;
      auto task = scope.spawn([&] { blocking([&] { from_outside.send(1); }); });
      EXPECT_EQ(from_outside.recv(), 1);
      task.get();
    }
  });
}

TEST(Blocking, S9_WorkThatRunsIsNoDeadlockWhateverThePolicy) {
  Loop loop({.kernel = make_real_kernel(), .on_deadlock = OnDeadlock::fail});
  EXPECT_EQ(loop.run([] { return blocking([] { return 1; }); }), 1);
}

}  // namespace

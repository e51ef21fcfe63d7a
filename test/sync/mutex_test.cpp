// Mutex and Condition.
#include <weft/sync/mutex.hpp>

#include <weft/sync/event.hpp>

#include "support/everywhere.hpp"
#include "support/order.hpp"

#include <atomic>
#include <thread>
#include <vector>

namespace weft::test {
namespace {

CONCURRENT(Mutex, C17_ExcludesAndWakesInOrder) {
  Mutex mutex;
  Order order;
  int inside = 0;
  Scope scope;
  auto guard = co_await mutex.lock_op();
  for (int i = 0; i < 5; ++i) {
    here.spawn(scope, [&, i]() -> Coro<> {
      auto own = co_await mutex.lock_op();
      EXPECT_EQ(++inside, 1);
      order.add(i);
      co_await next_turn();  // held across a wait
      --inside;
    });
    co_await all_others_wait();
  }
  EXPECT_FALSE(mutex.try_lock());
  guard.unlock();
  co_await scope.joined();
  EXPECT_EQ(order.get(), (std::vector{0, 1, 2, 3, 4}));
  EXPECT_FALSE(mutex.locked());
}

/// Whoever runs may be faster than whoever was woken, but only once.
ONE_AFTER_ANOTHER(Mutex, C17_OvertakenOnceItIsNext) {
  Mutex mutex;
  Order order;
  Scope scope;
  auto guard = co_await mutex.lock_op();
  for (int i = 0; i < 3; ++i) {
    here.spawn(scope, [&, i]() -> Coro<> {
      auto own = co_await mutex.lock_op();
      order.add(i);
    });
    co_await all_others_wait();
  }
  guard.unlock();
  auto overtaker = mutex.try_lock();
  EXPECT_TRUE(overtaker) << "the first has been told, but has not come yet";
  co_await all_others_wait();
  EXPECT_TRUE(order.get().empty());
  overtaker.reset();
  EXPECT_FALSE(mutex.try_lock()) << "it was handed over";
  co_await scope.joined();
  EXPECT_EQ(order.get(), (std::vector{0, 1, 2}));
  EXPECT_FALSE(mutex.locked());
}

/// Also from one that takes it again and again and never waits.
ONE_AFTER_ANOTHER(Mutex, C17_WhoeverWaitsGetsItsTurn) {
  Mutex mutex;
  bool stop = false;
  Scope scope;
  auto guard = co_await mutex.lock_op();
  here.spawn(scope, [&]() -> Coro<> {
    auto own = co_await mutex.lock_op();
    stop = true;
  });
  co_await all_others_wait();
  guard.unlock();
  int taken = 0;
  while (!stop && taken <= 1'000) {
    auto own = co_await mutex.lock_op();
    if (!stop) ++taken;
  }
  EXPECT_LE(taken, 128) << "the other one waits in vain";
  co_await scope.joined();
}

/// One operation, waited for twice: that it was handed the lock the first time is forgotten.
ONE_AFTER_ANOTHER(Mutex, C17_AnOperationCanBeUsedAgain) {
  Mutex mutex;
  Event again(Event::Reset::by_one);
  std::atomic<int> entered = 0;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    auto op = mutex.lock_op();
    for (int i = 0; i < 2; ++i) {
      co_await again.wait_op();
      auto own = co_await std::move(op);  // NOLINT: again
      ++entered;
    }
  });
  for (int i = 0; i < 2; ++i) {
    auto guard = co_await mutex.lock_op();
    again.set();
    co_await all_others_wait();
    guard.unlock();
    auto overtaker = mutex.try_lock();
    EXPECT_TRUE(overtaker);
    co_await all_others_wait();
    EXPECT_EQ(entered, i) << "two hold the lock";
    overtaker.reset();
    co_await all_others_wait();
    EXPECT_EQ(entered, i + 1);
  }
  co_await scope.joined();
  EXPECT_FALSE(mutex.locked());
}

/// Whoever was told of the lock, or handed it, and is cancelled: it does not get lost.
CONCURRENT(Mutex, S5_NotLostToACancel) {
  Mutex mutex;
  for (int i = 0; i < 50; ++i) {
    Scope scope;
    auto guard = co_await mutex.lock_op();
    auto first = here.spawn(scope, [&]() -> Coro<> { auto own = co_await mutex.lock_op(); });
    auto second = here.spawn(scope, [&]() -> Coro<> { auto own = co_await mutex.lock_op(); });
    if (i % 2 == 0) co_await all_others_wait();
    guard.unlock();
    auto overtaker = i % 3 == 0 ? mutex.try_lock() : std::nullopt;
    if (i % 4 == 0) co_await next_turn();
    first.cancel();
    overtaker.reset();
    co_await second.join_op();
    co_await scope.joined();
    EXPECT_FALSE(mutex.locked());
  }
}

CONCURRENT(Condition, C17_ConsumersGetEverything) {
  Mutex mutex;
  Condition changed;
  std::vector<int> queue;
  bool closed = false;
  std::atomic<int> sum{0};
  Scope scope;
  for (int i = 0; i < 4; ++i) {
    here.spawn(scope, [&]() -> Coro<> {
      auto guard = co_await mutex.lock_op();
      for (;;) {
        co_await changed.co_wait(guard, [&] { return !queue.empty() || closed; });
        if (queue.empty()) co_return;
        sum += queue.back();
        queue.pop_back();
      }
    });
  }
  for (int i = 1; i <= 100; ++i) {
    auto guard = co_await mutex.lock_op();
    queue.push_back(i);
    changed.notify_one();
    guard.unlock();
    if (i % 10 == 0) co_await next_turn();
  }
  {
    auto guard = co_await mutex.lock_op();
    closed = true;
    changed.notify_all();
  }
  co_await scope.joined();
  EXPECT_EQ(sum, 5050);
}

CONCURRENT(Condition, S5_CancelledItHoldsTheLockAgain) {
  Mutex mutex;
  Condition never_notified;
  std::atomic<bool> held{false};
  Scope scope;
  auto waiter = here.spawn(scope, [&]() -> Coro<> {
    auto guard = co_await mutex.lock_op();
    try {
      co_await never_notified.co_wait(guard);
    } catch (const Cancelled&) {
      held = guard.held();
      throw;
    }
  });
  co_await all_others_wait();
  EXPECT_FALSE(mutex.locked());
  waiter.cancel();
  co_await waiter.join_op();
  co_await scope.joined();
  EXPECT_TRUE(held);
  EXPECT_FALSE(mutex.locked());
}

EVERYWHERE(Condition, C16_AsACaseOfASelect) {
  Mutex mutex;
  Condition condition;
  auto guard = co_await mutex.lock_op();
  const auto which = co_await race(condition.wait_op(guard), sleep_op(1ms));
  EXPECT_EQ(which.index(), 1U);
  EXPECT_FALSE(guard.held());
  co_await guard.co_relock();
  EXPECT_TRUE(guard.held());
}

struct FalseAlarm {  // ready at once, and then not
  using Result = void;
  static constexpr Reason reason{"false alarm"};
  std::function<void()> meanwhile;
  int alarms = 0;
  ObjectId id = new_object_id();  // later than the condition's: armed after it
  ObjectId object() const noexcept { return id; }
  bool try_now() const noexcept { return false; }
  Armed arm(Arm& arm) noexcept {
    if (alarms++ > 0) return Armed::waiting;
    return arm.claim() ? Armed::won : Armed::lost;
  }
  void disarm(Arm&) noexcept {}
  bool confirm() noexcept {
    meanwhile();
    return false;
  }
  void take() const noexcept {}
};

/// The notification comes while the wait is being published again: it must count.
ONE_AFTER_ANOTHER(Condition, C17_PublishedAgainItIsNotDeaf) {
  Mutex mutex;
  Condition changed;
  auto guard = co_await mutex.lock_op();
  FalseAlarm alarm{.meanwhile = [&] { changed.notify_all(); }};
  const auto r = co_await race(changed.wait_op(guard), std::move(alarm), sleep_op(1s));
  EXPECT_EQ(r.index(), 0U);
}

/// Threads, fibers and coroutines on the same lock.
/// An operation that has come in vain, was given up and is used again stands where all others do.
ONE_AFTER_ANOTHER(Mutex, C17_AnOperationThatWasGivenUpBeginsAnew) {
  Mutex mutex;
  Event give_up(Event::Reset::by_hand);
  Order order;
  Scope scope;
  auto guard = co_await mutex.lock_op();
  here.spawn(scope, [&]() -> Coro<> {
    auto op = race(mutex.lock_op(), give_up.wait_op());
    EXPECT_EQ((co_await std::move(op)).index(), 1U);
    co_await next_turn();
    co_await next_turn();
    auto own = co_await std::move(op);
    order.add(1);
  });
  co_await all_others_wait();
  guard.unlock();                    // tells it
  guard = co_await mutex.lock_op();  // and is faster
  co_await all_others_wait();        // it has come in vain
  give_up.set();
  co_await next_turn();
  give_up.reset();
  here.spawn(scope, [&]() -> Coro<> {
    auto own = co_await mutex.lock_op();
    order.add(0);
  });
  co_await all_others_wait();
  guard.unlock();
  co_await scope.joined();
  EXPECT_EQ(order.get(), (std::vector{0, 1}));
}

CONCURRENT(Mutex, S6_ACancelledTaskDoesNotGetAFreeOne) {
  Mutex mutex;
  bool got = false;
  Scope scope;
  auto task = here.spawn(scope, [&]() -> Coro<> {
    this_task()->cancel_tree(CancelReason::killed);
    auto own = co_await mutex.lock_op();
    got = true;
  });
  EXPECT_TRUE((co_await task.join_op()).cancelled());
  co_await scope.joined();
  EXPECT_FALSE(got);
  EXPECT_FALSE(mutex.locked());
}

TEST(Mutex, C18_FromPlainThreadsToo) {
  Mutex mutex;
  Semaphore semaphore(2);
  int count = 0;
  constexpr int each = 2'000;
  Pool pool({.workers = 2});
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < each; ++k) {
        auto permit = semaphore.acquire();
        auto guard = mutex.lock();
        ++count;
      }
    });
  }
  pool.run([&] {
    Scope scope;
    for (int i = 0; i < 2; ++i) {
      scope.spawn([&] {
        for (int k = 0; k < each; ++k) {
          auto permit = semaphore.acquire();
          auto guard = mutex.lock();
          ++count;
        }
      });
      scope.spawn([&]() -> Coro<> {
        for (int k = 0; k < each; ++k) {
          auto permit = co_await semaphore.acquire_op();
          auto guard = co_await mutex.lock_op();
          ++count;
        }
      });
    }
    scope.join();
  });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(count, 6 * each);
  EXPECT_EQ(semaphore.available(), 2U);
}

}  // namespace
}  // namespace weft::test

#include <weft/sync/event.hpp>
#include <weft/sync/once.hpp>
#include <weft/sync/semaphore.hpp>
#include <weft/sync/shared_mutex.hpp>
#include <weft/sync/watch.hpp>

#include "support/everywhere.hpp"
#include "support/order.hpp"

#include <atomic>
#include <stdexcept>
#include <vector>

namespace weft::test {
namespace {

CONCURRENT(Semaphore, C17_PassesInOrderAndAllAtOnce) {
  Semaphore semaphore(2);
  Order order;
  Scope scope;
  auto one = co_await semaphore.acquire_op();
  auto other = co_await semaphore.acquire_op();
  for (const int wants : {2, 1, 1}) {
    here.spawn(scope, [&, wants]() -> Coro<> {
      auto permit = co_await semaphore.acquire_op(static_cast<std::size_t>(wants));
      order.add(wants);
      co_await all_others_wait();
    });
    co_await all_others_wait();
  }
  Semaphore::Permit moved = std::move(one);
  EXPECT_FALSE(one);
  moved.release();  // not enough for the first, and nobody overtakes it
  co_await all_others_wait();
  EXPECT_TRUE(order.get().empty());
  EXPECT_FALSE(semaphore.try_acquire());
  other.release();
  co_await scope.joined();
  EXPECT_EQ(order.get(), (std::vector{2, 1, 1}));
  EXPECT_EQ(semaphore.available(), 2U);
}

CONCURRENT(Semaphore, S5_WhoGivesUpMakesWay) {
  Semaphore semaphore(1);
  Scope scope;
  auto large = here.spawn(scope, [&]() -> Coro<> { co_await semaphore.acquire_op(5); });
  co_await all_others_wait();
  auto small = here.spawn(scope, [&]() -> Coro<> { co_await semaphore.acquire_op(1); });
  co_await all_others_wait();
  EXPECT_FALSE(small.done());
  large.cancel();
  EXPECT_TRUE((co_await small.join_op()).ok());
  EXPECT_EQ(semaphore.available(), 1U);
  co_await scope.joined();
}

EVERYWHERE(Semaphore, S5_TimedOutHasTakenNothing) {
  Semaphore semaphore(0);
  EXPECT_FALSE((co_await timeout(semaphore.acquire_op(), 1ms)).has_value());
  semaphore.release();
  EXPECT_TRUE((co_await timeout(semaphore.acquire_op(), 1ms)).has_value());
  EXPECT_EQ(semaphore.available(), 1U);
}

CONCURRENT(SharedMutex, C17_ReadersTogetherWritersAlone) {
  SharedMutex mutex;
  std::atomic<int> reading{0};
  std::atomic<int> most{0};
  Order order;
  Scope scope;
  auto writing = co_await mutex.lock_op();
  const auto reader = [&](int name) {
    return [&, name]() -> Coro<> {
      auto guard = co_await mutex.lock_shared_op();
      const int now = ++reading;
      if (now > most) most = now;
      order.add(name);
      co_await sleep_op(1ms);
      --reading;
    };
  };
  for (const int name : {1, 2}) {
    here.spawn(scope, reader(name));
    co_await all_others_wait();
  }
  here.spawn(scope, [&]() -> Coro<> {
    auto guard = co_await mutex.lock_op();
    EXPECT_EQ(reading, 0);
    order.add(100);
    co_await sleep_op(1ms);
  });
  co_await all_others_wait();
  here.spawn(scope, reader(3));  // behind the writer, though it could read with the others
  co_await all_others_wait();
  EXPECT_FALSE(mutex.try_lock_shared());
  writing.unlock();
  co_await scope.joined();
  EXPECT_EQ(most, 2);
  std::vector<int> seen = order.get();
  EXPECT_EQ(seen.size(), 4U);
  std::ranges::sort(seen.begin(), seen.begin() + 2);  // two at once, in any order
  EXPECT_EQ(seen, (std::vector{1, 2, 100, 3}));
  EXPECT_TRUE(mutex.try_lock());
}

CONCURRENT(Event, C17_ByHandAllPassByOneOneDoes) {
  Event all;
  Event one(Event::Reset::by_one);
  std::atomic<int> passed{0};
  Scope scope;
  for (int i = 0; i < 3; ++i) {
    here.spawn(scope, [&]() -> Coro<> {
      co_await all.wait_op();
      ++passed;
      co_await one.wait_op();
      ++passed;
    });
  }
  co_await all_others_wait();
  EXPECT_EQ(passed, 0);
  all.set();
  co_await all_others_wait();
  EXPECT_EQ(passed, 3);
  EXPECT_TRUE(all.is_set());
  for (int i = 1; i <= 3; ++i) {
    one.set();
    co_await all_others_wait();
    EXPECT_EQ(passed, 3 + i);
    EXPECT_FALSE(one.is_set());
  }
  co_await scope.joined();
}

CONCURRENT(Latch, C17_PassesAtZeroForEver) {
  Latch latch(3);
  std::atomic<int> passed{0};
  Scope scope;
  for (int i = 0; i < 2; ++i) {
    here.spawn(scope, [&]() -> Coro<> {
      co_await latch.wait_op();
      ++passed;
    });
  }
  latch.count_down(2);
  co_await all_others_wait();
  EXPECT_EQ(passed, 0);
  latch.count_down();
  co_await scope.joined();
  EXPECT_EQ(passed, 2);
  co_await latch.wait_op();
}

CONCURRENT(Barrier, C17_AllWaitForTheLastInEveryPhase) {
  constexpr int parties = 4;
  constexpr int phases = 50;
  Barrier barrier(parties);
  std::atomic<int> steps{0};
  Scope scope;
  for (int p = 0; p < parties; ++p) {
    here.spawn(scope, [&, p]() -> Coro<> {
      for (int phase = 0; phase < phases; ++phase) {
        if ((phase + p) % 5 == 0) co_await next_turn();
        ++steps;
        co_await barrier.wait_op(barrier.arrive());
        EXPECT_GE(steps, (phase + 1) * parties);
      }
    });
  }
  co_await scope.joined();
  EXPECT_EQ(steps, parties * phases);
}

EVERYWHERE(Barrier, C17_OneThatLeavesIsNotWaitedFor) {
  Barrier barrier(2);
  const auto phase = barrier.arrive();
  EXPECT_FALSE((co_await timeout(barrier.wait_op(phase), 1ms)));
  barrier.arrive_and_drop();
  co_await barrier.wait_op(phase);
  co_await barrier.wait_op(barrier.arrive());
}

CONCURRENT(Once, C17_TheFirstRunsItTheOthersWait) {
  Once once;
  std::atomic<int> runs{0};
  std::atomic<int> passed{0};
  Scope scope({.on_failure = OnFailure::isolate});
  std::vector<JoinHandle<void>> tasks;
  for (int i = 0; i < 4; ++i) {
    tasks.push_back(here.spawn(scope, [&]() -> Coro<> {
      co_await once.co_run([&]() -> Coro<> {
        co_await sleep_op(1ms);
        if (++runs == 1) throw std::runtime_error("the first attempt");
      });
      ++passed;
    }));
  }
  co_await scope.joined();
  EXPECT_EQ(runs, 2);
  EXPECT_EQ(passed, 3);
}

TEST(Lazy, C17_IsMadeByTheFirstWhoAsks) {
  int made = 0;
  Lazy<int> lazy([&] { return ++made; });
  EXPECT_FALSE(lazy.ready());
  Loop loop;
  loop.run([&] {
    EXPECT_EQ(lazy.get(), 1);
    EXPECT_EQ(await(lazy.co_get()), 1);
  });
  EXPECT_EQ(made, 1);
}

CONCURRENT(Watch, C17_TheLatestCounts) {
  Watch<int> watch(0);
  std::atomic<int> last{0};
  std::atomic<int> changes{0};
  Scope scope;
  for (int i = 0; i < 3; ++i) {
    here.spawn(scope, [&]() -> Coro<> {
      std::uint64_t version = watch.get().version;
      while (auto seen = co_await watch.changed_op(version)) {
        EXPECT_GT(seen->version, version);
        version = seen->version;
        last = **seen;
        ++changes;
      }
      EXPECT_EQ(*watch.get(), 20);
    });
  }
  co_await all_others_wait();
  for (int i = 1; i <= 10; ++i) watch.set(i);
  watch.update([](int& value) { value += 10; });
  co_await all_others_wait();
  EXPECT_EQ(last, 20);
  EXPECT_GE(changes, 3);
  EXPECT_LE(changes, 33);
  watch.close();
  co_await scope.joined();
}
}  // namespace
}  // namespace weft::test

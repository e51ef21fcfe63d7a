#include <weft/task/fork.hpp>

#include "support/everywhere.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

namespace weft::test {
namespace {

int fib(int n) {
  if (n < 2) return n;
  auto [left, right] = both([n] { return fib(n - 1); }, [n] { return fib(n - 2); });
  return left + right;
}
Coro<int> co_fib(int n) {
  if (n < 2) co_return n;
  Fork left(co_fib(n - 1));
  const int right = co_await co_fib(n - 2);
  co_return co_await left + right;
}

EVERYWHERE(Fork, C1_ATreeOfForksAddsUp) {
  // By calls, where the body is a fiber or a thread; a coroutine cannot wait in a call.
  if (here.kind() == Kind::fiber) {
    EXPECT_EQ(fib(18), 2584);
  }
  EXPECT_EQ(co_await co_fib(18), 2584);
}

EVERYWHERE(Fork, C1_ManyAtOnceInAnyOrder) {
  constexpr std::size_t count = 50;
  const auto square = [](std::size_t i) -> Coro<std::size_t> { co_return i* i; };
  std::array<std::optional<Fork<Coro<std::size_t>>>, count> forks;
  for (std::size_t i = 0; i < count; ++i) forks[i].emplace(square(i));
  std::size_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += co_await *forks[i * 7 % count];
  EXPECT_EQ(sum, 40425U);
}

EVERYWHERE(Fork, F12_ThrowsWhatTheCallThrew) {
  Fork fails([]() -> Coro<int> {
    throw std::runtime_error("on purpose");
    co_return 1;
  });
  co_await sleep_op(1ms);  // now it is a task
  std::string what;
  try {
    co_await fails;
  } catch (const std::runtime_error& error) {
    what = error.what();
  }
  EXPECT_EQ(what, "on purpose");
}

EVERYWHERE(Fork, F12_GivesReferencesAndWhatOnlyMoves) {
  int number = 1;
  Fork reference([&]() -> Coro<int&> { co_return number; });
  Fork unique([]() -> Coro<std::unique_ptr<int>> { co_return std::make_unique<int>(7); });
  Fork nothing([&]() -> Coro<> { co_return; });
  if (here.io().choose(2) == 0) co_await sleep_op(1ms);
  co_await nothing;
  EXPECT_EQ(*co_await unique, 7);
  EXPECT_EQ(&co_await reference, &number);
}

/// A fork is concurrent to what its task waits for: else this would be a deadlock.
CONCURRENT(Fork, C1_BothMayWaitForEachOther) {
  Channel<int> there;
  Channel<int> back;
  Fork echo([&]() -> Coro<> {
    while (auto got = co_await there.recv_op()) co_await back.send_op(*got * 2);
  });
  for (int i = 0; i < 10; ++i) {
    co_await there.send_op(i);
    EXPECT_EQ(co_await back.recv_op(), i * 2);
  }
  there.close();
  co_await echo;
}

ONE_AFTER_ANOTHER(Fork, C1_OthersGoOnWhileItsTaskYields) {
  std::atomic<bool> ran{false};
  Fork fork([&]() -> Coro<> {
    ran = true;
    co_return;
  });
  for (int i = 0; i < 1000 && !ran; ++i) co_await next_turn();
  EXPECT_TRUE(ran);
  co_await fork;
}

/// One that nobody asks for is dropped, or stopped.
EVERYWHERE(Fork, S6_UnwantedOnesDoNotRunOn) {
  std::atomic<bool> ended{false};
  std::atomic<bool> begun{false};
  struct Ended {
    std::atomic<bool>& flag;
    ~Ended() { flag = true; }
  };
  try {
    Fork unwanted([&]() -> Coro<> {
      const Ended on_exit{ended};
      begun = true;
      co_await sleep_op(1h);
    });
    if (here.concurrent()) co_await sleep_op(1ms);
    throw std::runtime_error("leave");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(begun, ended);
  EXPECT_EQ(begun, here.concurrent());
  EXPECT_LT(now() - Instant{}, 1h);
}

CONCURRENT(Fork, S6_DroppedWithoutAnException) {
  std::atomic<int> ended{0};
  {
    Fork unwanted([&]() -> Coro<> {
      struct Ended {
        std::atomic<int>& n;
        ~Ended() { ++n; }
      } count{ended};
      co_await sleep_op(1h);
    });
    co_await all_others_wait();
  }
  EXPECT_EQ(ended, 1);
}

CONCURRENT(Fork, S6_CancelledWithItsTask) {
  std::atomic<int> cancelled{0};
  Scope scope;
  auto parent = here.spawn(scope, [&]() -> Coro<> {
    const auto sleeper = [&]() -> Coro<> {
      try {
        co_await sleep_op(1h);
      } catch (const Cancelled&) {
        ++cancelled;
        throw;
      }
    };
    Fork one(sleeper);
    Fork two(sleeper);
    co_await sleeper();
  });
  co_await all_others_wait();
  parent.cancel();
  EXPECT_TRUE((co_await parent.join_op()).cancelled());
  EXPECT_EQ(cancelled, 3);
  co_await scope.joined();
}

TaskLocal<int> level;

/// What a fork sees is what was there when it was made, not when it became a task.
EVERYWHERE(Fork, F16_SeesLocalsAndScopesOfWhereItWasMade) {
  const Bind outer(level, 1);
  Fork fork([]() -> Coro<int> { co_return *level.get(); });
  Fork free([]() -> Coro<bool> {
    co_await sleep_op(2ms);
    co_return true;
  });
  co_await within({.deadline = now() + 1ms}, [&](Scope&) -> Coro<> {
    const Bind inner(level, 2);
    co_await sleep_op(1h);  // publishes them, and is cut short by the deadline
  });
  EXPECT_EQ(co_await fork, 1);
  EXPECT_TRUE(co_await free);
}

/// Whether it has become a task must not show.
EVERYWHERE(Fork, F16_SeesTheSameWhereverItIsAskedFor) {
  for (const bool published : {false, true}) {
    const Bind outer(level, 1);
    Fork fork([]() -> Coro<int> { co_return *level.get(); });
    if (published) co_await next_turn();
    const Bind inner(level, 2);
    EXPECT_EQ(co_await fork, 1);
  }
}

EVERYWHERE(Fork, S6_ACancellationStaysOne) {
  for (const bool published : {false, true}) {
    Scope scope;
    auto task = here.spawn(scope, [&]() -> Coro<> {
      Fork fork([]() -> Coro<> {
        throw Cancelled(CancelReason::requested);
        co_return;
      });
      if (published) co_await next_turn();
      co_await fork;
    });
    EXPECT_TRUE((co_await task.join_op()).cancelled());
    co_await scope.joined();
  }
}

EVERYWHERE(Fork, F12_OfAPlainCallableInACoroutine) {
  for (const bool published : {false, true}) {
    Fork fork([] { return 3; });
    if (published) co_await next_turn();
    EXPECT_EQ(co_await fork, 3);
  }
}

CONCURRENT(Fork, S6_AShieldedOneIsDeafToCancellation) {
  Scope scope;
  std::atomic<bool> whole{false};
  auto task = here.spawn(scope, [&]() -> Coro<> {
    const Shield shield;
    Fork fork([&]() -> Coro<> {
      co_await sleep_op(2ms);
      whole = true;
    });
    co_await sleep_op(1ms);
    co_await fork;
  });
  co_await all_others_wait();
  task.cancel();
  co_await task.done_op();
  EXPECT_TRUE(whole);
  co_await scope.joined();
}

TEST(Fork, C1_OnAPlainThreadItIsACall) {
  EXPECT_EQ(fib(10), 55);
  Fork coroutine(co_fib(10));
  EXPECT_EQ(coroutine.get(), 55);
}

TEST(Fork, F12_BothLeavesOutWhatIsVoid) {
  Loop loop;
  loop.run([] {
    int calls = 0;
    both([&] { ++calls; }, [&] { ++calls; });
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(both([&] { ++calls; }, [] { return 5; }), 5);
    EXPECT_EQ(both([] { return 6; }, [&] { ++calls; }), 6);
    EXPECT_EQ(calls, 4);
  });
}

TEST(Fork, F12_BothGiveReferences) {
  Loop loop;
  loop.run([] {
    int one = 1;
    int two = 2;
    auto [a, b] = both([&]() -> int& { return one; }, [&]() -> int& { return two; });
    static_assert(std::is_same_v<decltype(a), int&>);
    EXPECT_EQ(&a, &one);
    EXPECT_EQ(&b, &two);
    EXPECT_EQ(&both([] {}, [&]() -> int& { return two; }), &two);
    EXPECT_EQ(&both([&]() -> int& { return one; }, [] {}), &one);
  });
}

[[gnu::noinline]] std::size_t use_stack(std::size_t left) {
  volatile std::byte page[4096];
  page[0] = std::byte{1};
  return left < sizeof page ? static_cast<std::size_t>(page[0]) : use_stack(left - sizeof page);
}

TEST(Fork, F12_HasAStackLikeItsTask) {
  Loop loop;
  auto task = loop.spawn(
      [] {
        Fork deep([] { return use_stack(std::size_t{8} << 20); });
        yield();  // now it is a task
        return deep.get();
      },
      {.stack_size = std::size_t{16} << 20});
  loop.run();
  EXPECT_EQ(task.get(), 1U);
}

/// While one computes, another worker takes the other.
TEST(Fork, C7_AnotherWorkerTakesTheOldest) {
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero()});
  pool.run([] {
    std::atomic<bool> taken{false};
    std::thread::id thief{};
    Fork oldest([&] {
      thief = std::this_thread::get_id();
      taken = true;
    });
    Fork second([] { return 1; });
    Fork third([] { return 2; });
    while (!taken) std::this_thread::yield();  // never waits, in the sense of the engine
    EXPECT_NE(thief, std::this_thread::get_id());
    EXPECT_EQ(third.get() + second.get(), 3);
    oldest.get();
  });
}

class ForkPool : public testing::TestWithParam<std::size_t> {};

TEST_P(ForkPool, C1_DeepAndWide) {
  Pool pool({.workers = GetParam(), .report_stuck_after = Duration::zero()});
  EXPECT_EQ(pool.run([] { return fib(22); }), 17711);
  EXPECT_EQ(pool.run([] { return co_fib(22); }), 17711);
  EXPECT_EQ(pool.live(), 0U);
}

/// Random trees whose nodes sometimes sleep, yield or fail; each node is visited once.
int grow(Rng& rng, int depth, std::atomic<int>& visited) {
  ++visited;
  if (depth == 0) return 1;
  const std::uint32_t what = rng.below(20);
  if (what == 0) yield();
  if (what == 1) weft::sleep(1us);
  Rng other(rng.next());
  int first = 0;
  Fork fork([&] { return grow(other, depth - 1, visited); });
  if (what == 2) {  // its result is not wanted by the one who made it, for an exception
    try {
      Fork failing([&]() -> int { throw std::runtime_error("on purpose"); });
      yield();
      first = failing.get();
    } catch (const std::runtime_error&) {
    }
  }
  first += grow(rng, depth - 1, visited);
  return first + fork.get();
}

TEST_P(ForkPool, C1_RandomTrees) {
  Pool pool({.workers = GetParam(), .report_stuck_after = Duration::zero()});
  constexpr int depth = 10;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    std::atomic<int> visited{0};
    const int leaves = pool.run([&] {
      Rng rng(seed);
      return grow(rng, depth, visited);
    });
    EXPECT_EQ(leaves, 1 << depth);
    EXPECT_EQ(visited, (2 << depth) - 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Workers, ForkPool, testing::Values(1, 2, 4, 64));

TEST(ForkDeathTest, F12_Once) {
  EXPECT_DEATH(
      {
        Loop loop;
        loop.run([] {
          Fork fork([] { return 1; });
          fork.get();
          fork.get();
        });
      },
      "the result of a Fork was already taken");
}
TEST(ForkDeathTest, C1_ItsTaskAlone) {
  EXPECT_DEATH(
      {
        Loop loop;
        loop.run([] {
          Fork fork([] { return 1; });
          Scope scope;
          scope.spawn([&] { fork.get(); });
          scope.join();
        });
      },
      "a Fork belongs to the task that made it");
}

}  // namespace
}  // namespace weft::test

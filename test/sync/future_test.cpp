#include <weft/sync/future.hpp>

#include "support/everywhere.hpp"

#include <memory>

namespace weft::test {
namespace {

struct Broken : std::runtime_error {
  explicit Broken(const char* what = "broken") : std::runtime_error(what) {}
};

Coro<int> after(Duration delay, int value) {
  co_await sleep_op(delay);
  co_return value;
}
Coro<int> fail_after(Duration delay) {
  co_await sleep_op(delay);
  throw Broken();
}

EVERYWHERE(Future, S5_ManySeeOneResult) {
  int runs = 0;
  Future<int> future = async([&]() -> Coro<int> {
    ++runs;
    co_return 42;
  });
  const Future<int> copy = future;
  EXPECT_EQ(co_await future, 42);
  EXPECT_EQ(co_await copy, 42);
  EXPECT_EQ(co_await copy, 42);
  EXPECT_TRUE(copy.done());
  EXPECT_EQ(runs, 1);
}

EVERYWHERE(Future, S5_VoidReferencesAndMoveOnly) {
  int target = 1;
  co_await async([&]() -> Coro<> {
    target = 2;
    co_return;
  });
  int& same = co_await async([&]() -> Coro<int&> { co_return target; });
  EXPECT_EQ(&same, &target);
  auto owned = async([]() -> Coro<std::unique_ptr<int>> { co_return std::make_unique<int>(3); });
  EXPECT_EQ(*co_await owned, 3);  // looked at
  const std::unique_ptr<int> mine = co_await std::move(owned);
  EXPECT_EQ(*mine, 3);
}

EVERYWHERE(Future, S5_ManyAwaiters) {
  Scope scope;
  const Future<int> future = async(after(1ms, 7));
  std::atomic<int> sum{0};
  for (int i = 0; i < 10; ++i) {
    here.spawn(scope, [&]() -> Coro<> { sum += co_await future; });
  }
  co_await scope.joined();
  EXPECT_EQ(sum, 70);
}

/// A future that is ready is not waited for.
ONE_AFTER_ANOTHER(Future, S5_ReadyBeforeAwaitDoesNotPark) {
  const Future<int> future = async([]() -> Coro<int> { co_return 1; });
  co_await all_others_wait();
  EXPECT_TRUE(future.done());
  std::atomic<int> others = 0;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    ++others;
    co_return;
  });
  EXPECT_EQ(co_await future, 1);
  EXPECT_EQ(others, 0);
  co_await scope.joined();
}

EVERYWHERE(Future, S5_AnErrorStaysWithTheFuture) {
  const auto outcome = co_await within({}, [](Scope& scope) -> Coro<int> {
    const Future<int> bad = async(fail_after(0ms));
    co_await bad.done_op();
    EXPECT_FALSE(scope.cancelled());
    EXPECT_THROW(std::rethrow_exception(bad.outcome().error()), Broken);
    bool thrown = false;
    try {
      co_await bad;
    } catch (const Broken&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
    co_return 1;
  });
  EXPECT_TRUE(outcome.ok());
}

CONCURRENT(Future, S6_CancelStopsIt) {
  bool went_on = false;
  const Future<void> future = async([&]() -> Coro<> {
    co_await sleep_op(1h);
    went_on = true;
  });
  co_await all_others_wait();
  future.cancel();
  co_await future.done_op();
  EXPECT_TRUE(future.outcome().cancelled());
  EXPECT_FALSE(went_on);
}

EVERYWHERE(Future, F11_AllGivesEveryValue) {
  auto [a, b, nothing] = co_await all(async(after(2ms, 1)), async([]() -> Coro<std::string> {
                                        co_await sleep_op(1ms);
                                        co_return "two";
                                      }),
                                      async([]() -> Coro<> { co_return; }));
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, "two");
  EXPECT_EQ(nothing, std::monostate{});
  std::vector<Future<int>> many;
  for (int i = 0; i < 50; ++i) many.push_back(async(after(1ms * ((i * 7) % 50), i)));
  const std::vector<int> values = co_await all(many);  // they stay
  EXPECT_EQ(values.size(), 50U);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], i);
  EXPECT_EQ(co_await many[3], 3);
  EXPECT_TRUE((co_await all(std::vector<Future<int>>{})).empty());
  std::vector<Future<void>> voids;
  voids.push_back(async([]() -> Coro<> { co_return; }));
  co_await all(std::move(voids));
}

CONCURRENT(Future, F11_AllFailsWithTheFirstError) {
  const Instant start = now();
  const Future<int> slow = async(after(1h, 1));
  bool thrown = false;
  try {
    co_await all(slow, async(fail_after(5ms)), async(after(1ms, 2)));
  } catch (const Broken&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(now() - start, 5ms);
  co_await slow.done_op();
  EXPECT_TRUE(slow.outcome().cancelled());
  EXPECT_EQ(now() - start, 5ms);
}

CONCURRENT(Future, F11_AllSettledWaitsForAll) {
  const Future<int> killed = async(after(1h, 1));
  const auto settled = all_settled(async(after(2ms, 1)), async(fail_after(1ms)), killed);
  co_await sleep_op(3ms);
  killed.cancel();
  auto [good, bad, stopped] = co_await settled;
  EXPECT_EQ(good.value(), 1);
  EXPECT_TRUE(bad.failed());
  EXPECT_TRUE(stopped.cancelled());
  std::vector<Future<int>> list;
  list.push_back(async(after(2ms, 5)));
  list.push_back(async(fail_after(1ms)));
  const auto outcomes = co_await all_settled(std::move(list));
  EXPECT_EQ(outcomes[0].value(), 5);
  EXPECT_TRUE(outcomes[1].failed());
}

CONCURRENT(Future, F11_AnyIsTheFirstSuccess) {
  const Instant start = now();
  auto won = co_await any(async(after(1h, 1)), async(fail_after(1ms)), async(after(3ms, 3)));
  EXPECT_EQ(won.index(), 2U);
  EXPECT_EQ(std::get<2>(won), 3);
  EXPECT_EQ(now() - start, 3ms);
  std::vector<Future<int>> list;
  list.push_back(async(fail_after(1ms)));
  list.push_back(async(after(2ms, 8)));
  const auto first = co_await any(std::move(list));
  EXPECT_EQ(first.index, 1U);
  EXPECT_EQ(first.value, 8);
  std::size_t errors = 0;
  try {
    co_await any(async(fail_after(1ms)), async(fail_after(2ms)));
  } catch (const NoneSucceeded& e) {
    errors = e.errors().size();
    EXPECT_STREQ(e.what(), "none of 2 futures succeeded\n  broken\n  broken");
  }
  EXPECT_EQ(errors, 2U);
}

CONCURRENT(Future, S7_RaceIsWonByTheFirstAndStopsTheOthers) {
  const Instant start = now();
  const Future<int> loser = async(after(1h, 1));
  const auto won = co_await race(loser, async(after(10ms, 2)));
  EXPECT_EQ(won.index(), 1U);
  EXPECT_EQ(std::get<1>(won), 2);
  EXPECT_EQ(now() - start, 10ms);
  co_await loser.done_op();
  EXPECT_TRUE(loser.outcome().cancelled());
  EXPECT_EQ(now() - start, 10ms);
}

EVERYWHERE(Future, S7_TheLowestIndexWinsATie) {
  const Future<int> a = async([]() -> Coro<int> { co_return 1; });
  const Future<int> b = async([]() -> Coro<int> { co_return 2; });
  co_await b.done_op();
  co_await a.done_op();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ((co_await race(a, b)).index(), 0U);
    EXPECT_EQ((co_await race(b, a)).index(), 0U);
  }
}

CONCURRENT(Future, S7_NamedCases) {
  auto r = co_await race(named<"fast">(async(after(1ms, 1))),
                         named<"slow">(async([]() -> Coro<std::string> {
                           co_await sleep_op(1h);
                           co_return "never";
                         })));
  EXPECT_TRUE(r.is<"fast">());
  EXPECT_FALSE(r.is<"slow">());
  EXPECT_EQ(r.name(), "fast");
  EXPECT_EQ(r.get<"fast">(), 1);
  EXPECT_THROW(static_cast<void>(r.get<"slow">()), std::bad_variant_access);
  Channel<int> silent;
  auto op = co_await race(named<"value">(silent.recv_op()), named<"late">(sleep_op(1ms)));
  EXPECT_EQ(op.name(), "late");
}

/// The first completion of any kind wins: also an error, also a cancellation.
CONCURRENT(Future, F11_ARaceCanBeWonByAnError) {
  bool thrown = false;
  try {
    co_await race(async(after(1h, 1)), async(fail_after(1ms)));
  } catch (const Broken&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  const Future<int> killed = async(after(1h, 1));
  const auto raced = race(killed, async(after(2h, 1)));
  co_await all_others_wait();
  killed.cancel();
  co_await raced.done_op();
  EXPECT_THROW(std::rethrow_exception(raced.outcome().error()), CancelledError);
  thrown = false;
  try {
    co_await race(std::vector<Future<int>>{});
  } catch (const std::invalid_argument&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
}

/// Cancelling a combination, or the scope around it, cancels what it is made of.
CONCURRENT(Future, S6_CancellingACombinationCancelsItsParts) {
  const Future<int> a = async(after(1h, 1));
  const Future<int> b = async(after(1h, 2));
  const auto nested = all(race(a, b), async(after(1h, 3)));
  co_await all_others_wait();
  nested.cancel();
  co_await nested.done_op();
  EXPECT_TRUE(nested.outcome().cancelled());
  co_await a.done_op();
  co_await b.done_op();
  EXPECT_TRUE(a.outcome().cancelled());
  EXPECT_TRUE(b.outcome().cancelled());
}

CONCURRENT(Future, S6_CancelledBeforeItBegan) {
  const Future<int> a = async(after(1h, 1));
  const auto both = all(a, async(after(1h, 2)));
  both.cancel();
  co_await a.done_op();
  EXPECT_TRUE(a.outcome().cancelled());
  co_await both.done_op();
}

EVERYWHERE(Future, F11_ReferencesAreNotUsedUp) {
  int target = 1;
  const Future<int&> reference = async([&]() -> Coro<int&> { co_return target; });
  for (int i = 0; i < 2; ++i) {
    auto [r] = co_await all(reference);
    EXPECT_EQ(&r.get(), &target);
  }
  EXPECT_EQ(&co_await reference, &target);
}

CONCURRENT(Future, S7_TheScopeJoinsTheLosers) {
  std::atomic<int> ended{0};
  struct Ended {
    std::atomic<int>& count;
    ~Ended() { ++count; }
  };
  auto outcome = co_await within({}, [&](Scope&) -> Coro<int> {
    std::vector<Future<int>> racers;
    for (int i = 0; i < 10; ++i) {
      racers.push_back(async([&ended, i]() -> Coro<int> {
        const Ended on_exit{ended};
        co_await sleep_op(1ms * (i + 1));
        co_return i;
      }));
    }
    co_return (co_await race(std::move(racers))).value;
  });
  EXPECT_EQ(outcome.value(), 0);
  EXPECT_EQ(ended, 10);
}

TEST(Future, S5_FromAPlainThread) {
  Pool pool({.workers = 2});
  Scope scope(pool);
  const Future<int> future = async(scope, [] {
    sleep(1ms);
    return 5;
  });
  EXPECT_EQ(future.get(), 5);
  EXPECT_THROW(static_cast<void>(async([] { return 1; })), std::logic_error);
}

}  // namespace
}  // namespace weft::test

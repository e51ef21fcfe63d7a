// Operations made of operations: what they give, in which order they look, and what they are.
#include "support/everywhere.hpp"

#include <array>
#include <memory>
#include <string>

namespace weft::test {
namespace {

// What is an operation.
using Recv = Channel<int>::RecvOp;
using Send = Channel<int>::SendOp;
static_assert(LeafOp<Recv> && !BranchOp<Recv> && Op<Recv>);
static_assert(LeafOp<Send> && !BranchOp<Send>);
static_assert(LeafOp<SleepOp> && LeafOp<NeverOp<>> && LeafOp<Scope::EmptyOp>);
static_assert(LeafOp<detail::JoinOp<int, detail::JoinMode::take>>);
static_assert(LeafOp<detail::JoinOp<int, detail::JoinMode::look>>);
static_assert(LeafOp<detail::JoinOp<void, detail::JoinMode::wait>>);
static_assert(LeafOp<decltype(always(1))>);
using Race = decltype(race(never(), always(1)));
static_assert(BranchOp<Race> && !LeafOp<Race>);
static_assert(BranchOp<decltype(map(never(), [] { return 1; }))>);
static_assert(BranchOp<decltype(guard([] { return never(); }))>);
static_assert(!Op<int> && !Op<Coro<int>> && !Op<Channel<int>>);
static_assert(Race::branches == 2);
static_assert(decltype(race(race(never(), never()), map(never(), [] { return 1; })))::branches ==
              3);
static_assert(std::is_same_v<Race::Result, std::variant<std::monostate, int>>);
static_assert(std::is_same_v<ResultOf<decltype(timeout(never(), 1ms))>, bool>);
static_assert(std::is_same_v<ResultOf<decltype(timeout(always(1), 1ms))>, std::optional<int>>);

EVERYWHERE(Combine, AlwaysAndMap) {
  EXPECT_EQ(co_await always(7), 7);
  EXPECT_EQ(co_await map(always(7), [](int n) { return std::to_string(n); }), "7");
  EXPECT_EQ(co_await map(map(always(7), [](int n) { return n + 1; }), [](int n) { return n * 2; }),
            16);
}

EVERYWHERE(Combine, MapOfVoidAndToVoid) {
  EXPECT_EQ(co_await map(sleep_op(1ms), [] { return 5; }), 5);
  int seen = 0;
  co_await map(always(3), [&](int n) { seen = n; });
  EXPECT_EQ(seen, 3);
  co_await map(sleep_op(1ms), [&] { ++seen; });
  EXPECT_EQ(seen, 4);
}

EVERYWHERE(Combine, MapRunsOnlyForTheWinner) {
  int losers = 0;
  const auto r = co_await race(map(sleep_op(2ms), [&] { return ++losers; }), sleep_op(1ms));
  EXPECT_EQ(r.index(), 1U);
  EXPECT_EQ(losers, 0);
}

EVERYWHERE(Combine, AnExceptionInMapReachesTheWaiterAndNothingStaysBehind) {
  const auto before = here.io().live();
  try {
    co_await race(map(sleep_op(1ms), []() -> int { throw std::runtime_error("map"); }),
                  sleep_op(1h));
    ADD_FAILURE() << "must throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "map");
  }
  co_await sleep_op(1ms);  // the same wait works again
  EXPECT_EQ(now(), Instant(2ms));
  EXPECT_EQ(here.io().live(), before);
}

EVERYWHERE(Combine, MoveOnlyResultsAndFunctions) {
  // Named, not written into the co_await: GCC 12 destroys such a closure's captures twice.
  auto add = [extra = std::make_unique<int>(1)](std::unique_ptr<int> p) {
    *p += *extra;
    return p;
  };
  auto made = co_await map(always(std::make_unique<int>(4)), std::move(add));
  EXPECT_EQ(*made, 5);
  auto r = co_await first_of(always(std::make_unique<int>(8)), sleep_op(1h));
  EXPECT_EQ(*std::get<0>(r), 8);
  auto limited = co_await timeout(always(std::make_unique<int>(9)), 1ms);
  EXPECT_TRUE(limited.has_value() && **limited == 9);
  Channel<std::unique_ptr<int>> ch(1);
  EXPECT_TRUE(co_await ch.send_op(std::make_unique<int>(3)));
  auto got = co_await race(never(), ch.recv_op());
  EXPECT_EQ(**std::get<1>(got), 3);
}

EVERYWHERE(Combine, GuardBuildsWhenWaitedFor) {
  int built = 0;
  auto op = guard([&] {
    ++built;
    return always(built);
  });
  EXPECT_EQ(built, 0);
  EXPECT_EQ(co_await op, 1);
  EXPECT_EQ(co_await op, 2);
  // A guard behind a ready case of first_of is never built.
  co_await first_of(always(0), std::move(op));
  EXPECT_EQ(built, 2);
}

EVERYWHERE(Combine, GuardOfARace) {
  auto op = guard([] { return race(sleep_op(3ms), sleep_op(1ms)); });
  EXPECT_EQ((co_await std::move(op)).index(), 1U);
  EXPECT_EQ(now(), Instant(1ms));
}

template <class Make>
Coro<> check_nested(Make make) {
  for (int winner = 0; winner < 3; ++winner) {
    std::array<Channel<int>, 3> ch{Channel<int>(1), Channel<int>(1), Channel<int>(1)};
    EXPECT_TRUE(co_await ch[static_cast<std::size_t>(winner)].send_op(winner + 10));
    auto r = co_await make(ch);
    EXPECT_EQ(r.index(), winner < 2 ? 0U : 1U);
    if (winner < 2) {
      auto& inner = std::get<0>(r);
      EXPECT_EQ(inner.index(), static_cast<std::size_t>(winner));
      const auto value = winner == 0 ? std::get<0>(inner) : std::get<1>(inner);
      EXPECT_EQ(value, winner + 10);
    } else {
      EXPECT_EQ(std::get<1>(r), "12");
    }
    for (auto& c : ch) EXPECT_EQ(c.size(), 0U);
  }
}

EVERYWHERE(Combine, NestedRacesPoll) {
  auto text = [](std::optional<int> n) { return std::to_string(*n); };
  co_await check_nested([=](auto& ch) {
    return race(race(ch[0].recv_op(), ch[1].recv_op()), map(ch[2].recv_op(), text));
  });
}

// The same, but the value comes while the race is parked.
CONCURRENT(Combine, NestedRacesPark) {
  for (std::size_t winner = 0; winner < 3; ++winner) {
    std::array<Channel<int>, 3> ch;
    Scope scope;
    here.spawn(scope, [&]() -> Coro<> {
      co_await sleep_op(1ms);
      EXPECT_TRUE(co_await ch[winner].send_op(static_cast<int>(winner)));
    });
    auto r = co_await race(race(ch[0].recv_op(), ch[1].recv_op()),
                           map(ch[2].recv_op(), [](std::optional<int> n) { return *n * 100; }));
    if (winner == 2) {
      EXPECT_EQ(std::get<1>(r), 200);
    } else {
      EXPECT_EQ(std::get<0>(r).index(), winner);
    }
    co_await scope.joined();
    for (auto& c : ch) {  // nobody listens any more
      EXPECT_EQ((co_await timeout(c.send_op(1), 1ms)), std::nullopt);
    }
  }
}

EVERYWHERE(Combine, VoidCasesAreMonostate) {
  const auto r = co_await race(sleep_op(1ms), never<int>(), never());
  EXPECT_EQ(r.index(), 0U);
  static_assert(std::is_same_v<std::remove_const_t<decltype(r)>,
                               std::variant<std::monostate, int, std::monostate>>);
}

EVERYWHERE(Combine, S7_FirstOfPrefersTheFirstNamed) {
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ((co_await first_of(always(0), always(1), always(2))).index(), 0U);
    EXPECT_EQ((co_await first_of(never(), always(1), always(2))).index(), 1U);
  }
  // Equal deadlines: the lowest index wins too.
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ((co_await first_of(sleep_op(1ms), sleep_op(1ms))).index(), 0U);
    EXPECT_EQ((co_await race(sleep_op(1ms), sleep_op(1ms))).index(), 0U);
  }
}

EVERYWHERE(Combine, C25_RaceIsFair) {
  std::array<int, 3> wins{};
  const int rounds = 3000;
  for (int i = 0; i < rounds; ++i) ++wins[(co_await race(always(0), always(1), always(2))).index()];
  if (here.engine() != Engine::sim) {  // there a strategy chooses, and some are unfair on purpose
    for (const int w : wins) EXPECT_NEAR(w, rounds / 3, rounds / 10);
  }
  // One of two ready, wherever it stands.
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ((co_await race(never(), always(1))).index(), 1U);
    EXPECT_EQ((co_await race(always(1), never())).index(), 0U);
  }
}

EVERYWHERE(Combine, ACoroutineOfManyCases) {
  const auto r = co_await race(sleep_op(9ms), sleep_op(8ms), sleep_op(7ms), sleep_op(6ms),
                               sleep_op(5ms), sleep_op(4ms), sleep_op(3ms), sleep_op(2ms));
  EXPECT_EQ(r.index(), 7U);
  EXPECT_EQ(now(), Instant(2ms));
}

// An Op can be performed again if it is copyable: it is a cold value.
EVERYWHERE(Combine, T6_OperationsAreColdValues) {
  const auto op = race(sleep_op(1ms), sleep_op(2ms));
  static_cast<void>(op);  // building and dropping does nothing
  EXPECT_EQ(now(), Instant(0ms));
  const SleepOp nap = sleep_op(5ms);
  co_await nap;
  EXPECT_EQ(now(), Instant(5ms));
  co_await nap;
  EXPECT_EQ(now(), Instant(10ms)) << "a relative sleep starts anew each time";
}

}  // namespace
}  // namespace weft::test

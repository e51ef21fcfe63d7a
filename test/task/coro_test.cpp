#include "support/everywhere.hpp"

#include <memory>
#include <stdexcept>

namespace weft::test {
namespace {

TEST(Coro, F1_BuildingRunsNothing) {
  bool ran = false;
  auto make = [&]() -> Coro<int> {
    ran = true;
    co_return 1;
  };
  {
    auto dropped = make();
  }
  EXPECT_FALSE(ran);
  auto kept = make();
  EXPECT_FALSE(ran);
  EXPECT_EQ(block_on([&] { return await(std::move(kept)); }), 1);
  EXPECT_TRUE(ran);
}

Coro<long> nested(long depth) {
  if (depth == 0) {
    co_await next_turn();  // surfaces from the very bottom
    co_return 0;
  }
  co_return 1 + co_await nested(depth - 1);
}

EVERYWHERE(Coro, T15_DepthDoesNotUseTheNativeStack) {
  // There are many pools, and on each one the frames are the same.
  const auto depth = static_cast<long>(here.parallel() ? scaled(10'000, 100'000, 1'000'000)
                                                       : scaled(20'000, 1'000'000, 1'000'000));
  Scope scope;
  auto handle = here.spawn(scope, [&]() -> Coro<long> { return nested(depth); });
  EXPECT_EQ((co_await handle.join_op()).value(), depth);
  co_await scope.joined();
}

Coro<int> immediate(int i) {
  co_return i;
}

EVERYWHERE(Coro, F16_ManyImmediateAwaitsUseConstantStack) {
  const auto count = static_cast<int>(here.parallel() ? scaled(50'000, 1'000'000, 10'000'000)
                                                      : scaled(100'000, 10'000'000, 10'000'000));
  long sum = 0;
  for (int i = 0; i < count; ++i) sum += co_await immediate(1);
  EXPECT_EQ(sum, count);
}

Coro<int> failing(int depth) {
  if (depth > 0) co_return co_await failing(depth - 1);
  co_await sleep_op(1ms);
  throw std::runtime_error("from the bottom");
}

EVERYWHERE(Coro, T14_ExceptionsReachTheCaller) {
  try {
    co_await failing(10);
    ADD_FAILURE() << "must throw";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "from the bottom");
  }
}

EVERYWHERE(Coro, ResultsMayBeMoveOnlyOrReferences) {
  int target = 1;
  auto unique = []() -> Coro<std::unique_ptr<int>> { co_return std::make_unique<int>(7); };
  auto reference = [&]() -> Coro<int&> { co_return target; };
  EXPECT_EQ(*co_await unique(), 7);
  (co_await reference()) = 5;
  EXPECT_EQ(target, 5);
  Scope scope;
  auto handle = here.spawn(scope, unique);
  EXPECT_EQ(*(co_await handle.join_op()).value(), 7);
  co_await scope.joined();
}

EVERYWHERE(Coro, ALambdasCapturesOutliveItsCoroutine) {
  Scope scope;
  auto big = std::make_shared<int>(41);
  auto handle = here.spawn(scope, [big]() -> Coro<int> {
    co_await sleep_op(1ms);
    co_return *big + 1;
  });
  EXPECT_EQ((co_await handle.join_op()).value(), 42);
  co_await scope.joined();
  EXPECT_EQ(big.use_count(), 1);
}

CONCURRENT(Coro, B1_FibersAndCoroutinesShareEverything) {
  Channel<int> numbers;
  Scope scope;
  scope.spawn([&] {
    for (int i = 0; i < 10; ++i) numbers.send(i);
  });
  scope.spawn([&]() -> Coro<> {
    for (int i = 0; i < 10; ++i) co_await numbers.send_op(100);
  });
  auto fiber = scope.spawn([&] {
    int sum = 0;
    for (int i = 0; i < 10; ++i) sum += *numbers.recv();
    return sum;
  });
  auto coroutine = scope.spawn([&]() -> Coro<int> {
    int sum = 0;
    for (int i = 0; i < 10; ++i) sum += *co_await numbers.recv_op();
    co_return sum;
  });
  // Each kind waits for the other.
  auto fiber_waits = scope.spawn([&] { return coroutine.get(); });
  const int one = (co_await fiber.join_op()).value();
  const int other = (co_await fiber_waits.join_op()).value();
  EXPECT_EQ(one + other, 45 + 1000);
  co_await scope.joined();
}

CONCURRENT(Coro, S6_CancelThrowsAtTheSuspensionAndLaterCodeNeverRuns) {
  bool later = false;
  int unwound = 0;
  struct Count {
    int& n;
    ~Count() { ++n; }
  };
  auto inner = [&]() -> Coro<> {
    Count count{unwound};
    co_await sleep_op(1h);
    later = true;
  };
  Scope scope;
  auto handle = here.spawn(scope, [&]() -> Coro<> {
    Count count{unwound};
    co_await inner();
    later = true;
  });
  co_await sleep_op(1ms);
  handle.cancel();
  const auto outcome = co_await handle.join_op();
  EXPECT_TRUE(outcome.cancelled());
  EXPECT_EQ(outcome.reason(), CancelReason::killed);
  EXPECT_FALSE(later);
  EXPECT_EQ(unwound, 2);
  EXPECT_EQ(now(), Instant(1ms));
  co_await scope.joined();
}

TEST(CoroDeathTest, BlockingCallsInCoroutinesAreRefused) {
  EXPECT_DEATH(block_on([] {
                 Scope scope;
                 scope.spawn([]() -> Coro<> {
                   sleep(1h);  // would stop the worker
                   co_return;
                 });
               }),
               "co_await the operation instead");
}

TEST(CoroDeathTest, AScopeWithChildrenMustBeJoinedInACoroutine) {
  EXPECT_DEATH(block_on([]() -> Coro<> {
                 Scope scope;
                 scope.spawn([] { sleep(1h); });
                 co_return;
               }),
               "co_await scope.joined");
}

}  // namespace
}  // namespace weft::test

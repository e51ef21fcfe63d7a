#include <weft/flow/flow.hpp>

#include <weft/flow/parallel.hpp>
#include <weft/flow/timing.hpp>

#include "support/everywhere.hpp"

#include <memory>

namespace weft::test {
namespace {

struct Broken : std::runtime_error {
  explicit Broken(const std::string& what = "broken") : std::runtime_error(what) {}
};

Flow<int> after(Duration d, int value) {
  return flow::delay(d) | flow::map([value] { return value; });
}
Flow<int> broken_after(Duration d) {
  return flow::delay(d) | flow::map([]() -> int { throw Broken(); });
}

EVERYWHERE(Flow, F1_NothingRunsUntilItIsDriven) {
  int runs = 0;
  const auto flow = flow::call([&] { return ++runs; }) | flow::map([](int n) { return n * 10; });
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(co_await flow(), 10);
  EXPECT_EQ(co_await flow(), 20);  // each run is a run
  EXPECT_EQ(runs, 2);
}

EVERYWHERE(Flow, F2_ThreeWaysToEnd) {
  const Outcome<int> value = co_await flow::success(1).outcome();
  EXPECT_EQ(value.value(), 1);
  const Outcome<int> error = co_await flow::fail<int>(Broken()).outcome();
  EXPECT_TRUE(error.failed());
  const Outcome<int> stopped = co_await flow::cancelled<int>().outcome();
  EXPECT_TRUE(stopped.cancelled());
  // Being cancelled is nothing to recover from.
  bool recovered = false;
  const auto still = co_await (flow::cancelled<int>() | flow::recover([&](auto&) {
                                 recovered = true;
                                 return 1;
                               }))
                         .outcome();
  EXPECT_TRUE(still.cancelled());
  EXPECT_FALSE(recovered);
}

EVERYWHERE(Flow, F7_TheOperators) {
  EXPECT_EQ(co_await (flow::success(2) | flow::map([](int n) { return n + 1; }))(), 3);
  EXPECT_EQ(co_await (flow::success(2) | flow::bind([](int n) { return flow::success(n * n); }))(),
            4);
  EXPECT_EQ(co_await (flow::success(2) | flow::bind([](int n) -> Coro<std::string> {
                        co_await sleep_op(1ms);
                        co_return std::string(static_cast<std::size_t>(n), 'x');
                      }))(),
            "xx");
  EXPECT_EQ(co_await (flow::fail<int>(Broken()) | flow::recover([](auto& error) {
                        return static_cast<int>(describe(error).size());
                      }))(),
            6);
  // What was thrown is an error, and passes by what goes on with values.
  bool called = false;
  const auto bad = co_await (flow::success(1) | flow::map([](int) -> int { throw Broken("one"); }) |
                             flow::map([&](int n) {
                               called = true;
                               return n;
                             }))
                       .outcome();
  EXPECT_EQ(describe(bad.error()), "one");
  EXPECT_FALSE(called);
  // map_outcome sees all three.
  const auto see = flow::map_outcome([](const Outcome<int>& o) {
    return o.ok() ? "value" : o.failed() ? "error" : "cancelled";
  });
  EXPECT_STREQ(co_await (flow::success(1) | see)(), "value");
  EXPECT_STREQ(co_await (flow::fail<int>(Broken()) | see)(), "error");
  EXPECT_STREQ(co_await (flow::cancelled<int>() | see)(), "cancelled");
  EXPECT_EQ(co_await (flow::fail<int>(Broken()) | flow::fallback(flow::success(9)))(), 9);
}

/// An exception thrown downstream is not caught upstream.
EVERYWHERE(Flow, F7_ErrorsDoNotGoUp) {
  int recovered = 0;
  const auto outcome = co_await (flow::success(1) | flow::recover([&](auto&) {
                                   ++recovered;
                                   return 0;
                                 }) |
                                 flow::map([](int) -> int { throw Broken(); }))
                           .outcome();
  EXPECT_TRUE(outcome.failed());
  EXPECT_EQ(recovered, 0);
}

EVERYWHERE(Flow, F7_VoidReferencesMoveOnlyAndLargeValues) {
  int target = 5;
  const auto reference = flow::call([&]() -> int& { return target; });
  EXPECT_EQ(&co_await reference(), &target);
  EXPECT_EQ(co_await (reference | flow::map([](int& n) { return ++n; }))(), 6);
  co_await (flow::success() | flow::map([&] { target = 7; }))();
  EXPECT_EQ(target, 7);
  const auto unique =
      flow::call([] { return std::make_unique<int>(3); }) | flow::map([](std::unique_ptr<int> p) {
        ++*p;
        return p;
      });
  EXPECT_EQ(*co_await unique(), 4);
  struct Large {
    std::array<int, 100> numbers{};
  };
  EXPECT_EQ((co_await (flow::success(Large{}) | flow::map([](Large l) {
                         l.numbers[99] = 1;
                         return l;
                       }))())
                .numbers[99],
            1);
  Channel<int> channel(1);
  channel.try_send(8);
  EXPECT_EQ(co_await flow::call([&] { return channel.recv_op(); })(), 8);
}

EVERYWHERE(Flow, F9_ADelayTakesItsTime) {
  const Instant start = now();
  co_await flow::delay(5ms)();
  EXPECT_EQ(now() - start, 5ms);
}

/// Every step looks for a cancellation, and what must be cleaned up is.
CONCURRENT(Flow, F6_CancelledBetweenSteps) {
  bool went_on = false;
  bool cleaned = false;
  Scope scope;
  const auto flow = flow::call([] { return this_task(); }) | flow::map([](Task* self) {
                      self->cancel_tree(CancelReason::requested);
                      return 1;
                    }) |
                    flow::map([&](int n) {
                      went_on = true;
                      return n;
                    }) |
                    flow::finally([&] { cleaned = true; });
  auto handle = here.spawn(scope, flow);
  EXPECT_TRUE((co_await handle.join_op()).cancelled());
  EXPECT_FALSE(went_on);
  EXPECT_TRUE(cleaned);
  co_await scope.joined();
}

CONCURRENT(Flow, F9_CancelledWhileItWaits) {
  const Instant start = now();
  Scope scope;
  auto handle = here.spawn(scope, after(1h, 1));
  co_await all_others_wait();
  handle.cancel();
  EXPECT_TRUE((co_await handle.join_op()).cancelled());
  EXPECT_LT(now() - start, 1ms);
  auto never = here.spawn(scope, after(1h, 1));
  never.cancel();  // maybe before it began
  EXPECT_TRUE((co_await never.join_op()).cancelled());
  EXPECT_LT(now() - start, 1ms);
  co_await scope.joined();
}

CONCURRENT(Flow, F10_ParallelKeepsTheOrder) {
  const Instant start = now();
  std::vector<Flow<int>> flows;
  for (int i = 0; i < 20; ++i) flows.push_back(after(1ms * (20 - i), i));
  const auto values = co_await flow::parallel(flows)();
  EXPECT_EQ(now() - start, 20ms);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], i);
  EXPECT_TRUE((co_await flow::parallel(std::vector<Flow<int>>{})()).empty());
  const std::vector delays{flow::delay(1ms), flow::delay(2ms)};
  co_await flow::parallel(delays)();
  auto [a, b] = co_await flow::parallel(after(2ms, 1), flow::success(std::string("b")))();
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, "b");
}

CONCURRENT(Flow, F10_ParallelWithALimit) {
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  std::vector<Flow<void>> flows;
  for (int i = 0; i < 30; ++i) {
    flows.push_back(flow::call([&, i]() -> Coro<> {
      const int n = ++at_once;
      int seen = most;
      while (n > seen && !most.compare_exchange_weak(seen, n)) {
      }
      co_await sleep_op(1ms * (i % 3 + 1));
      --at_once;
    }));
  }
  co_await flow::parallel(flows, 4)();
  EXPECT_EQ(most, 4);
  EXPECT_EQ(at_once, 0);
}

CONCURRENT(Flow, F10_OneErrorStopsTheRest) {
  const Instant start = now();
  std::atomic<int> finished{0};
  std::atomic<int> cleaned{0};
  const auto slow = flow::delay(1h) | flow::map([&] {
                      ++finished;
                      return 1;
                    }) |
                    flow::finally([&] { ++cleaned; });
  const std::vector one_breaks{slow, broken_after(3ms), slow};
  const auto error = co_await flow::parallel(one_breaks).outcome();
  EXPECT_TRUE(error.failed());
  EXPECT_EQ(now() - start, 3ms);
  EXPECT_EQ(finished, 0);
  EXPECT_EQ(cleaned, 2);
  const auto stopped =
      co_await flow::parallel(slow, flow::delay(1ms) | flow::bind([] {
                                      return flow::cancelled<int>(CancelReason::requested);
                                    }))
          .outcome();
  EXPECT_TRUE(stopped.cancelled());
  EXPECT_EQ(now() - start, 4ms);
}

CONCURRENT(Flow, F11_RaceIsWonByTheFirst) {
  const Instant start = now();
  std::atomic<bool> loser_ended{false};
  const auto loser = after(1h, 1) | flow::finally([&] { loser_ended = true; });
  const auto won = co_await flow::race(loser, after(2ms, 2), flow::delay(3ms))();
  EXPECT_EQ(won.index(), 1U);
  EXPECT_EQ(std::get<1>(won), 2);
  EXPECT_EQ(now() - start, 2ms);
  EXPECT_TRUE(loser_ended);
  const auto failed = co_await flow::race(after(1h, 1), broken_after(1ms)).outcome();
  EXPECT_TRUE(failed.failed());
  const auto stopped = co_await flow::race(after(1h, 1), flow::cancelled<int>()).outcome();
  EXPECT_TRUE(stopped.cancelled());
  const std::vector two{after(5ms, 1), after(2ms, 2)};
  const auto list = co_await flow::race(two)();
  EXPECT_EQ(list.index, 1U);
  EXPECT_EQ(list.value, 2);
}

CONCURRENT(Flow, F12_ATimeoutIsItsOwnReason) {
  const Instant start = now();
  const auto late = co_await (after(1h, 1) | flow::timeout(5ms)).outcome();
  EXPECT_TRUE(late.cancelled());
  EXPECT_EQ(late.reason(), CancelReason::timeout);
  EXPECT_EQ(now() - start, 5ms);
  EXPECT_EQ(co_await (after(5ms, 1) | flow::timeout(10ms))(), 1);
  EXPECT_EQ(co_await (after(1h, 1) | flow::timeout(5ms) | flow::fallback(flow::success(2)))(), 2);
  // An outer deadline is not ours.
  const auto outer = co_await timeout(1ms, [] { return (after(1h, 1) | flow::timeout(5ms))(); });
  EXPECT_EQ(outer.reason(), CancelReason::timeout);
}

EVERYWHERE(Flow, F13_RunFromWhereverOneIs) {
  const auto flow = after(1ms, 3);
  Scope scope;
  auto handle = here.spawn(scope, flow);
  EXPECT_EQ((co_await handle.join_op()).value(), 3);
  co_await scope.joined();
}
TEST(Flow, F13_BlockOn) {
  const auto flow = after(1ms, 3);
  EXPECT_EQ(flow.run().value(), 3);
  EXPECT_EQ(block_on(flow), 3);
  Loop loop;
  loop.root().cancel(CancelReason::requested);
  auto never = loop.spawn(flow);
  loop.run();
  EXPECT_TRUE(never.join().cancelled());
}

CONCURRENT(Flow, T22_RetryWithBackoff) {
  int attempts = 0;
  int told = 0;
  const auto flaky = flow::call([&] {
    if (++attempts < 4) throw Broken(std::to_string(attempts));
    return attempts;
  });
  const Instant start = now();
  const RetryPolicy policy{
      .most = 5, .delay = 10ms, .jitter = 0, .on_retry = [&](auto&, auto) { ++told; }};
  EXPECT_EQ(co_await (flaky | flow::retry(policy))(), 4);
  EXPECT_EQ(now() - start, 10ms + 20ms + 40ms);
  EXPECT_EQ(told, 3);
  attempts = 0;
  const auto given_up = co_await (flaky | flow::retry({.most = 3})).outcome();
  EXPECT_EQ(describe(given_up.error()), "3");
  attempts = 0;
  const auto not_worth_it =
      co_await (flaky | flow::retry({.most = 9,
                                     .when = [](auto& error) { return describe(error) == "1"; }}))
          .outcome();
  EXPECT_EQ(describe(not_worth_it.error()), "2");
  // A timeout inside counts as an error.
  attempts = 0;
  const auto slow_first =
      flow::call([&] { return after(++attempts == 1 ? Duration(1h) : 1ms, 7); });
  EXPECT_EQ(co_await (slow_first | flow::timeout(5ms) | flow::retry({}))(), 7);
  EXPECT_EQ(attempts, 2);
}

EVERYWHERE(Flow, T22_JitterShortensDelays) {
  const RetryPolicy policy{.delay = 100ms, .longest = 150ms};
  for (int i = 0; i < 100; ++i) {
    const Duration first = policy.delay_after(1);
    EXPECT_LE(first, 100ms);
    EXPECT_GE(first, 50ms);
    EXPECT_LE(policy.delay_after(20), 150ms);
  }
  co_return;
}

EVERYWHERE(Flow, F7_RepeatAndFinally) {
  int runs = 0;
  int cleaned = 0;
  const auto once = flow::call([&] { return ++runs; });
  EXPECT_EQ(co_await (once | flow::repeat(5) | flow::finally([&] { ++cleaned; }))(), 5);
  EXPECT_EQ(cleaned, 1);
  runs = 0;
  const auto stops = flow::call([&] {
    if (++runs == 3) throw Broken();
    return runs;
  });
  EXPECT_TRUE((co_await (stops | flow::repeat(5)).outcome()).failed());
  EXPECT_EQ(runs, 3);
  const auto careful = flow::timeout(1s) | flow::retry({.most = 2});
  EXPECT_EQ(co_await (once | careful)(), 4);
}

Flow<long> count_down(long n, long sum) {
  if (n == 0) return flow::success(sum);
  return flow::success(n) | flow::bind([sum](long k) { return count_down(k - 1, sum + 1); });
}

/// However long the chain, it takes the stack of one call; and no memory if it goes on by bind.
TEST(Flow, F16_LongChainsTakeConstantStack) {
  const long steps = static_cast<long>(scaled(100'000, 2'000'000, 10'000'000));
  Loop loop({.io = {.stack_size = 64 * 1024}});
  loop.run([&] {
    EXPECT_EQ(count_down(100, 0).run().value(), 100);
    const auto before = live_allocations();
    EXPECT_EQ(count_down(steps, 0).run().value(), steps);
    EXPECT_EQ(live_allocations(), before);
    Flow<long> chain = flow::success(0L);
    const long links = std::min(steps, 1'000'000L);
    for (long i = 0; i < links; ++i) chain = chain | flow::map([](long n) { return n + 1; });
    EXPECT_EQ(chain.run().value(), links);
  });
  const auto many = flow::success() | flow::repeat(static_cast<std::uint64_t>(steps));
  EXPECT_TRUE(many.run().ok());
}

/// One flow, run by many at a time.
TEST(Flow, F1_SharedBetweenThreads) {
  std::atomic<int> runs{0};
  const auto flow =
      flow::call([&] { return ++runs; }) | flow::bind([](int) { return flow::delay(100us); });
  Pool pool({.workers = 4});
  for (int i = 0; i < 200; ++i) pool.spawn(flow);
  pool.run();
  EXPECT_EQ(runs, 200);
}

}  // namespace
}  // namespace weft::test

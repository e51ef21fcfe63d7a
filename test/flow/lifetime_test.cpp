/// What a hostile reading found: arguments of coroutines, killed children, reads that are
/// cancelled, tasks that never begin, long chains that die.
#include <weft/flow/parallel.hpp>
#include <weft/flow/sequence_parallel.hpp>
#include <weft/flow/supervisor.hpp>
#include <weft/flow/task_graph.hpp>
#include <weft/flow/timing.hpp>

#include "support/everywhere.hpp"

namespace weft::test {
namespace {

struct Broken : std::runtime_error {
  Broken() : std::runtime_error("a message that does not fit into a small string") {}
};

/// A coroutine begins later than the call that made it: what it was given must still be there.
EVERYWHERE(FlowLifetime, F7_ArgumentsOutliveTheCoroutinesTheyAreGivenTo) {
  const std::string text = "a text that does not fit into a small string";
  const auto length =
      flow::success(text) | flow::map([](const std::string& s) -> Coro<std::size_t> {
        co_await next_turn();
        co_return s.size();
      });
  EXPECT_EQ(co_await length(), text.size());
  const auto mended = flow::fail<std::string>(Broken()) |
                      flow::recover([](const std::exception_ptr& error) -> Coro<std::string> {
                        co_await next_turn();
                        co_return describe(error);
                      });
  EXPECT_EQ(co_await mended(), Broken().what());
  const std::vector<std::string> texts(10, text);
  auto lengths = seq::from(texts) | seq::map([](const std::string& s) -> Coro<std::size_t> {
                   co_await next_turn();
                   co_return s.size();
                 }) |
                 seq::filter([](const std::size_t& n) -> Coro<bool> {
                   co_await next_turn();
                   co_return n > 0;
                 });
  const std::vector<std::size_t> expected(10, text.size());
  EXPECT_EQ(co_await lengths.co_collect(), expected);
}
CONCURRENT(FlowLifetime, F7_ArgumentsInParallel) {
  const std::string text = "a text that does not fit into a small string";
  const std::vector<std::string> texts(10, text);
  const auto size_of = [](const std::string& s) -> Coro<std::size_t> {
    co_await sleep_op(1ms);
    co_return s.size();
  };
  auto one = seq::from(texts) | seq::parallel_map(3, size_of);
  auto two = seq::from(texts) | seq::parallel_map_any(3, size_of);
  const std::vector<std::size_t> expected(10, text.size());
  EXPECT_EQ(co_await one.co_collect(), expected);
  EXPECT_EQ(co_await two.co_collect(), expected);
}

/// A child is killed from outside.
CONCURRENT(FlowLifetime, F10_AKilledChildCancelsTheRest) {
  std::atomic<std::uint64_t> first{0};
  std::atomic<std::uint64_t> second{0};
  const auto noted = [](std::atomic<std::uint64_t>& tid) {
    return flow::call([&tid] { tid = this_tid(); }) | flow::bind([] { return flow::delay(1h); }) |
           flow::map([] { return std::string("late"); });
  };
  Scope scope;
  auto all = here.spawn(scope, flow::parallel(noted(first), noted(second)));
  co_await all_others_wait();
  EXPECT_TRUE(kill_task(first));
  EXPECT_TRUE((co_await all.join_op()).cancelled());
  auto race = here.spawn(scope, flow::race(noted(first), noted(second)));
  co_await all_others_wait();
  EXPECT_TRUE(kill_task(first));
  EXPECT_TRUE(kill_task(second));
  EXPECT_TRUE((co_await race.join_op()).cancelled());
  co_await scope.joined();
}

/// The deadline around a retry is not a timeout of its attempt.
CONCURRENT(FlowLifetime, T22_RetryDoesNotOutliveItsDeadline) {
  std::uint32_t told = 0;
  const auto slow = flow::delay(1h) |
                    flow::retry({.most = ~0U, .on_retry = [&](auto&, auto) { ++told; }}) |
                    flow::timeout(5ms);
  EXPECT_EQ((co_await slow.outcome()).reason(), CancelReason::timeout);
  EXPECT_EQ(told, 0U);
}

EVERYWHERE(FlowLifetime, T22_DelaysAtTheLimits) {
  const RetryPolicy huge{.delay = 1h, .longest = Duration::max(), .jitter = 0};
  EXPECT_EQ(huge.delay_after(1), 1h);
  EXPECT_EQ(huge.delay_after(5'000), Duration::max());
  EXPECT_EQ(RetryPolicy{}.delay_after(5'000), Duration::zero());
  const RetryPolicy negative{.delay = 1ms, .longest = -1ms};
  EXPECT_EQ(negative.delay_after(1), Duration::zero());
  co_return;
}

/// A read that is cut short is not the end.
CONCURRENT(FlowLifetime, C17_ATimedReadGoesOnLater) {
  Channel<int> channel(8);
  auto pairs = seq::of(channel) | seq::chunk(2);
  channel.try_send(1);
  const auto early = co_await timeout(1ms, [&] { return pairs.co_next(); });
  EXPECT_EQ(early.reason(), CancelReason::timeout);
  channel.try_send(2);
  channel.close();
  const std::vector<int> both{1, 2};
  EXPECT_EQ(co_await pairs.co_next(), both);
  EXPECT_EQ(co_await pairs.co_next(), std::nullopt);
}

/// Tasks that work for a reader and are stopped before they began say so.
CONCURRENT(FlowLifetime, S6_HelpersThatNeverBegin) {
  Scope scope;
  auto reader = here.spawn(scope, [&]() -> Coro<int> {
    try {
      co_await sleep_op(1h);
    } catch (const Cancelled&) {
    }
    // The scope around it is cancelled, and so are the helpers.
    const Shield shield;
    int told = 0;
    for (int i = 0; i < 3; ++i) {
      auto numbers = seq::count(10);
      const auto same = [](std::uint64_t n) { return n; };
      auto ahead = i == 0   ? std::move(numbers) | seq::buffer(2)
                   : i == 1 ? std::move(numbers) | seq::parallel_map(2, same)
                            : std::move(numbers) | seq::parallel_map_any(2, same);
      try {
        while (co_await ahead.co_next()) {
        }
      } catch (const CancelledError&) {
        ++told;
      }
    }
    co_return told;
  });
  co_await all_others_wait();
  scope.cancel();
  const auto outcome = co_await reader.join_op();
  EXPECT_TRUE(outcome.ok());
  if (outcome.ok()) {
    EXPECT_EQ(outcome.value(), 3);
  }
  bool thrown = false;
  try {
    co_await scope.joined();
  } catch (const Cancelled&) {
    thrown = true;
  }
  EXPECT_FALSE(thrown);
}
EVERYWHERE(FlowLifetime, C17_MergingNothing) {
  if (here.concurrent()) {
    auto none = seq::merge(std::vector<Sequence<int>>{});
    EXPECT_EQ(co_await none.co_next(), std::nullopt);
  }
}
TEST(FlowLifetime, S1_WorkingAheadNeedsALoop) {
  auto numbers = seq::count(3) | seq::buffer(2);
  EXPECT_THROW(numbers.next(), std::logic_error);
}

TEST(FlowLifetime, F16_LongChainsDieWithoutRecursion) {
  const int links = static_cast<int>(scaled(20'000, 300'000, 1'000'000));
  Flow<int> falls = flow::success(1);
  Flow<int> times = flow::success(1);
  for (int i = 0; i < links; ++i) {
    falls = flow::success(1) | flow::fallback(falls);
    times = times | flow::timeout(1h);
  }
  EXPECT_EQ(falls.run().value(), 1);
}

/// Somebody kills what a supervisor has set up for itself.
ONE_AFTER_ANOTHER(FlowLifetime, T22_AKilledWatcherIsReplaced) {
  Scope scope;
  std::atomic<int> ended{0};
  Supervisor team({.window = -1ms});
  team.add("w", [&]() -> Coro<> {
    co_await sleep_op(1ms);
    ++ended;
  });
  auto run = here.spawn(scope, [&]() -> Coro<> { co_await team.co_run(); });
  co_await all_others_wait();
  for (std::uint64_t tid = run.tid() + 2; tid < run.tid() + 20; ++tid) kill_task(tid);
  co_await scope.joined();
  EXPECT_EQ(ended, 1);
}
CONCURRENT(FlowLifetime, T23_AKilledTaskOfAGraphIsAnError) {
  TaskGraph graph;
  std::atomic<std::uint64_t> victim{0};
  graph.add("slow", [&]() -> Coro<> {
    victim = this_tid();
    co_await sleep_op(1h);
  });
  Scope scope({.on_failure = OnFailure::isolate});
  auto run = here.spawn(scope, [&]() -> Coro<> { co_await graph.co_run(); });
  co_await all_others_wait();
  EXPECT_TRUE(kill_task(victim));
  const auto outcome = co_await run.join_op();
  EXPECT_TRUE(outcome.failed());
  co_await scope.joined();
}

}  // namespace
}  // namespace weft::test

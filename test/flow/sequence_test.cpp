#include <weft/flow/sequence.hpp>

#include <weft/flow/sequence_parallel.hpp>

#include "support/everywhere.hpp"

#include <algorithm>
#include <numeric>

namespace weft::test {
namespace {

struct Broken : std::runtime_error {
  Broken() : std::runtime_error("broken") {}
};
using Numbers = std::vector<std::uint64_t>;

EVERYWHERE(Sequence, F1_NothingIsMadeBeforeItIsAskedFor) {
  int made = 0;
  auto numbers = seq::generate([&]() -> std::optional<int> { return ++made; }) |
                 seq::map([](int n) { return n * 10; }) | seq::take(3);
  EXPECT_EQ(made, 0);
  EXPECT_EQ(co_await numbers.co_next(), 10);
  EXPECT_EQ(made, 1);
  EXPECT_EQ(co_await numbers.co_next(), 20);
  EXPECT_EQ(co_await numbers.co_next(), 30);
  EXPECT_EQ(co_await numbers.co_next(), std::nullopt);
  EXPECT_EQ(co_await numbers.co_next(), std::nullopt);
  EXPECT_EQ(made, 3);
}

EVERYWHERE(Sequence, F7_TheSteps) {
  auto even = seq::count(10) | seq::filter([](std::uint64_t n) { return n % 2 == 0; });
  const Numbers evens{0, 2, 4, 6, 8};
  EXPECT_EQ(co_await even.co_collect(), evens);
  auto small = seq::count(10) | seq::take_while([](std::uint64_t n) { return n < 3; });
  const Numbers three{0, 1, 2};
  EXPECT_EQ(co_await small.co_collect(), three);
  auto pairs = seq::count(5) | seq::chunk(2);
  const Numbers first{0, 1};
  const Numbers last{4};
  EXPECT_EQ(co_await pairs.co_next(), first);
  co_await pairs.co_next();
  EXPECT_EQ(co_await pairs.co_next(), last);
  EXPECT_EQ(co_await pairs.co_next(), std::nullopt);
  const std::vector<std::string> words{"a", "b", "c"};
  auto rows = seq::zip(seq::count(9), seq::from(words));
  std::string text;
  co_await rows.co_for_each([&](std::tuple<std::uint64_t, std::string> row) {
    text += std::to_string(std::get<0>(row)) + std::get<1>(row);
  });
  EXPECT_EQ(text, "0a1b2c");
  auto waited = seq::count(3) | seq::map([](std::uint64_t n) -> Coro<std::uint64_t> {
                  co_await sleep_op(1ms);
                  co_return n + 1;
                });
  const Numbers one_to_three{1, 2, 3};
  EXPECT_EQ(co_await waited.co_collect(), one_to_three);
}

EVERYWHERE(Sequence, F7_AnErrorEndsIt) {
  auto numbers = seq::count(10) | seq::map([](std::uint64_t n) {
                   if (n == 2) throw Broken();
                   return n;
                 });
  EXPECT_EQ(co_await numbers.co_next(), 0U);
  EXPECT_EQ(co_await numbers.co_next(), 1U);
  bool thrown = false;
  try {
    co_await numbers.co_next();
  } catch (const Broken&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(co_await numbers.co_next(), std::nullopt);
}

CONCURRENT(Sequence, C18_ParallelMapKeepsTheOrder) {
  const Instant start = now();
  std::atomic<int> at_once{0};
  std::atomic<int> most{0};
  auto results = seq::count(40) | seq::parallel_map(4, [&](std::uint64_t n) -> Coro<std::uint64_t> {
                   const int k = ++at_once;
                   int seen = most;
                   while (k > seen && !most.compare_exchange_weak(seen, k)) {
                   }
                   co_await sleep_op(1ms * (n % 4 + 1));
                   --at_once;
                   co_return n* n;
                 });
  std::uint64_t next = 0;
  while (auto value = co_await results.co_next()) {
    EXPECT_EQ(*value, next * next);
    ++next;
  }
  EXPECT_EQ(next, 40U);
  EXPECT_LE(most, 4);
  EXPECT_GT(most, 2);
  EXPECT_LT(now() - start, 70ms);  // 100 ms one after the other
}

CONCURRENT(Sequence, C18_ParallelMapInTheOrderOfCompletion) {
  auto results =
      seq::count(10) | seq::parallel_map_any(10, [](std::uint64_t n) -> Coro<std::uint64_t> {
        co_await sleep_op(1ms * (10 - n));
        co_return n;
      });
  Numbers got = co_await results.co_collect();
  Numbers reversed(10);
  std::iota(reversed.rbegin(), reversed.rend(), 0U);
  EXPECT_EQ(got, reversed);
}

/// Working ahead has its limits, and so does who waits for room.
CONCURRENT(Sequence, C17_BackPressure) {
  std::atomic<int> made{0};
  auto numbers = seq::generate([&]() -> std::optional<int> { return ++made; }) | seq::buffer(5);
  EXPECT_EQ(made, 0);
  EXPECT_EQ(co_await numbers.co_next(), 1);
  co_await all_others_wait();
  EXPECT_LE(made, 7);
  EXPECT_GE(made, 5);
  std::atomic<int> mapped{0};
  auto results = seq::generate([]() -> std::optional<int> { return 1; }) |
                 seq::parallel_map(3, [&](int) -> Coro<int> { co_return ++mapped; });
  co_await results.co_next();
  co_await all_others_wait();
  EXPECT_LE(mapped, 5);
}

CONCURRENT(Sequence, C17_MergeGetsEverything) {
  Channel<std::uint64_t> channel(2);
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    for (std::uint64_t i = 200; i < 300; ++i) co_await channel.send_op(i);
    channel.close();
  });
  auto all = seq::merge(seq::count(100),
                        seq::count(100) | seq::map([](std::uint64_t n) { return n + 100; }),
                        seq::of(channel));
  Numbers got = co_await all.co_collect();
  std::sort(got.begin(), got.end());
  Numbers expected(300);
  std::iota(expected.begin(), expected.end(), 0U);
  EXPECT_EQ(got, expected);
  co_await scope.joined();
}

/// An error behind a step that works ahead comes out after what was made before it.
CONCURRENT(Sequence, F7_ErrorsComeThroughInOrder) {
  for (const bool in_order : {true, false}) {
    auto numbers = seq::count(10) | seq::map([](std::uint64_t n) {
                     if (n == 5) throw Broken();
                     return n;
                   });
    auto results = in_order ? std::move(numbers) | seq::parallel_map(2, [](auto n) { return n; })
                            : std::move(numbers) | seq::buffer(3);
    std::uint64_t got = 0;
    bool thrown = false;
    try {
      while (auto value = co_await results.co_next()) EXPECT_EQ(*value, got++);
    } catch (const Broken&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
    EXPECT_EQ(got, 5U);
  }
  auto fails = seq::count(10) | seq::parallel_map(2, [](std::uint64_t n) {
                 if (n == 3) throw Broken();
                 return n;
               });
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(co_await fails.co_next(), i);
  bool thrown = false;
  try {
    co_await fails.co_next();
  } catch (const Broken&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(co_await fails.co_next(), std::nullopt);
}

/// One that is dropped midway stops what works for it, and nothing is left.
CONCURRENT(Sequence, S6_DroppedMidway) {
  const Instant start = now();
  std::atomic<int> ended{0};
  const auto outcome = co_await within({}, [&](Scope&) -> Coro<> {
    struct Ended {
      std::atomic<int>& count;
      ~Ended() { ++count; }
    };
    auto slow = [&ended](std::uint64_t n) -> Coro<std::uint64_t> {
      const Ended on_exit{ended};
      if (n > 0) co_await sleep_op(1h);
      co_return n;
    };
    auto ordered = seq::count(10) | seq::parallel_map(3, slow);
    auto any = seq::count(10) | seq::parallel_map_any(3, slow);
    auto ahead = seq::count(10) | seq::map(slow) | seq::buffer(3);
    EXPECT_EQ(co_await ordered.co_next(), 0U);
    EXPECT_EQ(co_await any.co_next(), 0U);
    EXPECT_EQ(co_await ahead.co_next(), 0U);
    co_await all_others_wait();
  });
  EXPECT_TRUE(outcome.ok());
  EXPECT_LT(now() - start, 1ms);
  EXPECT_GE(ended, 7);
}

TEST(Sequence, F8_InFibersAndOnThreads) {
  Numbers got;
  Loop loop;
  loop.run([&] {
    auto numbers = seq::count(5) | seq::parallel_map(2, [](std::uint64_t n) { return n + 1; });
    for (const std::uint64_t n : numbers) got.push_back(n);
  });
  EXPECT_EQ(got, (Numbers{1, 2, 3, 4, 5}));
  auto plain = seq::count(3) | seq::map([](std::uint64_t n) { return n * 2; });
  EXPECT_EQ(plain.collect(), (Numbers{0, 2, 4}));
}

}  // namespace
}  // namespace weft::test

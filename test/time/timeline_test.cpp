// The timing wheel against a sorted map that is obviously right.
#include <weft/time/timeline.hpp>

#include "support/everywhere.hpp"

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#if defined(WEFT_HAVE_RAPIDCHECK)
#include <rapidcheck.h>
#endif

namespace weft::test {
namespace {

struct TestTimer : TimerNode {
  explicit TestTimer(std::vector<int>& log, int n)
      : TimerNode([](TimerNode& node, WakeList&) noexcept {
          auto& self = static_cast<TestTimer&>(node);
          self.fired.push_back(self.number);
        }),
        fired(log),
        number(n) {}
  std::vector<int>& fired;
  int number;
};

Instant at(std::int64_t ns) {
  return Instant(Duration(ns));
}

void arm(Timeline& line, TestTimer& timer, Instant deadline) {
  timer.deadline = deadline;
  line.arm(timer);
}

std::vector<int> fired_by(Timeline& line, std::vector<int>& log, Instant now) {
  log.clear();
  WakeList wakes;
  line.advance(now, wakes);
  return log;
}

/// What fired counts, not that it was looked at; but a crowd does not outlast a silence.
TEST(Timeline, F14_KnowsWhenTimersComeInCrowds) {
  std::vector<int> log;
  Timeline line(at(0));
  std::deque<TestTimer> timers;
  for (int i = 0; i < 5; ++i) arm(line, timers.emplace_back(log, i), at(1'000'000 + i));
  arm(line, timers.emplace_back(log, 5), at(9'000'000));
  EXPECT_FALSE(line.crowded());
  fired_by(line, log, at(2'000'000));
  EXPECT_TRUE(line.crowded());
  fired_by(line, log, at(2'001'000));
  EXPECT_TRUE(line.crowded()) << "nothing fired";
  arm(line, timers[0], at(2'002'000));
  fired_by(line, log, at(2'002'000));
  EXPECT_TRUE(line.crowded()) << "a straggler";
  fired_by(line, log, at(2'203'000));
  EXPECT_FALSE(line.crowded()) << "nothing for 0.2 ms";
  fired_by(line, log, at(9'000'000));
  EXPECT_FALSE(line.crowded());
}

TEST(Timeline, FiresInOrderOfDeadlinesAndFifoAmongEquals) {
  std::vector<int> log;
  Timeline line(at(0));
  std::vector<std::unique_ptr<TestTimer>> timers;
  const std::int64_t deadlines[] = {30, 10, 20, 15, 15};
  for (int i = 0; i < 5; ++i) {
    timers.push_back(std::make_unique<TestTimer>(log, i));
    arm(line, *timers.back(), at(deadlines[i]));
  }
  EXPECT_EQ(line.size(), 5U);
  EXPECT_EQ(fired_by(line, log, at(9)), std::vector<int>{});
  EXPECT_EQ(fired_by(line, log, at(29)), (std::vector{1, 3, 4, 2}));
  EXPECT_EQ(fired_by(line, log, at(30)), (std::vector{0}));
  EXPECT_EQ(line.size(), 0U);
  EXPECT_TRUE(line.next().is_never());
}

// Equal deadlines armed at different times lie on different levels of the wheel at first.
TEST(Timeline, FifoAmongEqualsArmedFromAfarAndFromNearby) {
  std::vector<int> log;
  Timeline line(at(0));
  TestTimer a(log, 0), b(log, 1), c(log, 2), d(log, 3);
  const Instant when = at(1'000'000'007);
  arm(line, a, when);
  fired_by(line, log, at(999'999'999));
  arm(line, b, when);
  fired_by(line, log, at(1'000'000'000));
  arm(line, c, when);
  fired_by(line, log, at(1'000'000'006));
  arm(line, d, when);
  EXPECT_EQ(fired_by(line, log, when), (std::vector{0, 1, 2, 3}));
}

TEST(Timeline, EverySpreadKeepsTheExactNanosecond) {
  for (unsigned bit = 0; bit < 63; ++bit) {
    for (const std::int64_t off : {-1, 0, 1}) {
      const std::int64_t when = static_cast<std::int64_t>((std::uint64_t{1} << bit)) + off;
      if (when <= 1) continue;
      std::vector<int> log;
      Timeline line(at(0));
      TestTimer timer(log, 1);
      arm(line, timer, at(when));
      ASSERT_TRUE(fired_by(line, log, at(when - 1)).empty()) << when;
      ASSERT_EQ(fired_by(line, log, at(when)).size(), 1U) << when;
    }
  }
}

TEST(Timeline, ThePastFiresAtTheNextAdvance) {
  std::vector<int> log;
  Timeline line(at(100));
  TestTimer past(log, 0), present(log, 1), negative(log, 2), next(log, 3);
  arm(line, next, at(101));
  arm(line, past, at(50));
  arm(line, present, at(100));
  arm(line, negative, at(-5));
  EXPECT_LE(line.next(), at(100));
  EXPECT_EQ(fired_by(line, log, at(100)), (std::vector{0, 1, 2}));
  EXPECT_EQ(line.next(), at(101));
  EXPECT_EQ(fired_by(line, log, at(101)), (std::vector{3}));
}

TEST(Timeline, NeverIsAsGoodAsNothing) {
  std::vector<int> log;
  Timeline line(at(0));
  TestTimer never(log, 0), last(log, 1);
  arm(line, never, Instant::never());
  EXPECT_TRUE(fired_by(line, log, at(std::numeric_limits<std::int64_t>::max() - 1)).empty());
  arm(line, last, at(std::numeric_limits<std::int64_t>::max() - 1));
  EXPECT_EQ(fired_by(line, log, at(std::numeric_limits<std::int64_t>::max() - 1)),
            (std::vector{1}));
  line.disarm(never);
  EXPECT_EQ(line.size(), 0U);
}

TEST(Timeline, DisarmTwiceAndAfterFiringIsHarmless) {
  std::vector<int> log;
  Timeline line(at(0));
  TestTimer a(log, 0), b(log, 1);
  line.disarm(a);
  arm(line, a, at(10));
  arm(line, b, at(10));
  line.disarm(a);
  line.disarm(a);
  EXPECT_EQ(line.size(), 1U);
  EXPECT_EQ(fired_by(line, log, at(10)), (std::vector{1}));
  line.disarm(b);
  EXPECT_EQ(line.size(), 0U);
  arm(line, b, at(20));
  EXPECT_EQ(fired_by(line, log, at(20)), (std::vector{1}));
}

TEST(Timeline, TimeDoesNotGoBack) {
  std::vector<int> log;
  Timeline line(at(0));
  TestTimer a(log, 0);
  fired_by(line, log, at(1000));
  arm(line, a, at(1500));
  EXPECT_TRUE(fired_by(line, log, at(10)).empty());
  EXPECT_EQ(fired_by(line, log, at(1500)), (std::vector{0}));
}

// Following next() from bound to bound reaches every deadline exactly, in a bounded number of
// steps: this is what a virtual clock does.
TEST(Timeline, F14_FollowingNextStopsAtEveryDeadline) {
  std::vector<int> log;
  Timeline line(at(0));
  Rng rng(5);
  std::vector<std::unique_ptr<TestTimer>> timers;
  std::multimap<std::int64_t, int> oracle;
  for (int i = 0; i < 200; ++i) {
    timers.push_back(std::make_unique<TestTimer>(log, i));
    const auto when = static_cast<std::int64_t>(rng.next() >> (1 + rng.below(60))) + 1;
    arm(line, *timers.back(), at(when));
    oracle.emplace(when, i);
  }
  std::size_t steps = 0;
  for (Instant t = line.next(); line.size() > 0; t = line.next()) {
    ASSERT_LE(t.ns(), oracle.begin()->first) << "next() is later than the first deadline";
    for (const int n : fired_by(line, log, t)) {
      ASSERT_EQ(oracle.begin()->second, n);
      ASSERT_EQ(oracle.begin()->first, t.ns()) << "fired at the wrong instant";
      oracle.erase(oracle.begin());
    }
    ASSERT_LT(++steps, 200U * 12U) << "next() does not get anywhere";
  }
  EXPECT_TRUE(oracle.empty());
}

TEST(Timeline, C21_AMillionTimersArmAndCancel) {
  const std::size_t count = scaled(20'000, 1'000'000, 4'000'000);
  std::vector<int> log;
  auto line = std::make_unique<Timeline>(at(0));
  std::deque<TestTimer> timers;
  Rng rng(9);
  for (std::size_t i = 0; i < count; ++i) {
    timers.emplace_back(log, static_cast<int>(i));
    arm(*line, timers.back(), at(1 + static_cast<std::int64_t>(rng.next() >> 24)));
  }
  EXPECT_EQ(line->size(), count);
  for (std::size_t i = 0; i < count; i += 2) line->disarm(timers[i]);
  EXPECT_EQ(line->size(), count - (count + 1) / 2);
  fired_by(*line, log, at(std::int64_t{1} << 42));
  EXPECT_EQ(log.size(), count / 2);
  for (std::size_t i = 1; i < log.size(); ++i) {
    const auto& before = timers[static_cast<std::size_t>(log[i - 1])];
    const auto& after = timers[static_cast<std::size_t>(log[i])];
    ASSERT_LE(before.deadline, after.deadline);
    ASSERT_TRUE(before.deadline < after.deadline || before.number < after.number);
  }
  EXPECT_EQ(line->size(), 0U);
}

#if defined(WEFT_HAVE_RAPIDCHECK)

/// Timers in the order in which they must fire: by deadline, then by arming; what is armed too late
/// comes first, in the order of arming.
class Oracle {
 public:
  explicit Oracle(std::int64_t start) : now_(start) {}
  void arm(int timer, std::int64_t when) { armed_.push_back({timer, when, when <= now_}); }
  void disarm(int timer) {
    std::erase_if(armed_, [&](const Entry& e) { return e.timer == timer; });
  }
  [[nodiscard]] bool is_armed(int timer) const {
    for (const Entry& e : armed_) {
      if (e.timer == timer) return true;
    }
    return false;
  }
  std::vector<int> advance(std::int64_t now) {
    now_ = std::max(now_, now);
    std::vector<int> fired;
    std::multimap<std::int64_t, int> due;
    for (const Entry& e : armed_) {
      if (e.late) fired.push_back(e.timer);
      if (!e.late && e.when <= now) due.emplace(e.when, e.timer);
    }
    for (const auto& [when, timer] : due) fired.push_back(timer);
    for (const int timer : fired) disarm(timer);
    return fired;
  }
  [[nodiscard]] std::optional<std::int64_t> first() const {
    std::optional<std::int64_t> least;
    for (const Entry& e : armed_) {
      if (!least || e.when < *least) least = e.late ? std::min(e.when, now_) : e.when;
    }
    return least;
  }
  [[nodiscard]] std::int64_t now() const { return now_; }
  [[nodiscard]] std::size_t size() const { return armed_.size(); }

 private:
  struct Entry {
    int timer;
    std::int64_t when;
    bool late;
  };
  std::int64_t now_;
  std::vector<Entry> armed_;  // in the order of arming
};

/// A span of any magnitude, so that all levels of the wheel are met.
rc::Gen<std::int64_t> any_span() {
  return rc::gen::map(rc::gen::resize(100, rc::gen::pair(rc::gen::inRange(0, 62),
                                                         rc::gen::arbitrary<std::uint64_t>())),
                      [](const std::pair<int, std::uint64_t>& p) {
                        return static_cast<std::int64_t>(p.second >> (63 - p.first));
                      });
}

std::int64_t plus(std::int64_t a, std::int64_t b) {
  return (at(a) + Duration(b)).ns();
}

void random_sequence() {
  constexpr int count = 24;
  std::vector<int> log;
  std::int64_t start = *rc::gen::inRange<std::int64_t>(0, 1000);
  Timeline line(at(start));
  Oracle oracle(start);
  std::deque<TestTimer> timers;
  for (int i = 0; i < count; ++i) timers.emplace_back(log, i);
  const int steps = *rc::gen::resize(100, rc::gen::inRange(1, 120));
  for (int s = 0; s < steps; ++s) {
    const int timer = *rc::gen::resize(100, rc::gen::inRange(0, count));
    TestTimer& node = timers[static_cast<std::size_t>(timer)];
    switch (*rc::gen::weightedElement<int>({{5, 0}, {2, 1}, {3, 2}, {1, 3}, {1, 4}})) {
      case 0: {  // arm, sometimes with the deadline of another one
        if (oracle.is_armed(timer)) break;
        std::int64_t when = plus(oracle.now(), *any_span());
        if (*rc::gen::resize(100, rc::gen::inRange(0, 3)) == 0) when = timers[0].deadline.ns();
        if (*rc::gen::resize(100, rc::gen::inRange(0, 10)) == 0)
          when = oracle.now() - *rc::gen::inRange(0, 5);
        oracle.arm(timer, when);
        arm(line, node, at(when));
        break;
      }
      case 1:
        oracle.disarm(timer);
        line.disarm(node);
        break;
      case 2: {  // any jump, short of never
        const std::int64_t now =
            std::min(plus(oracle.now(), *any_span()), std::numeric_limits<std::int64_t>::max() - 1);
        const auto expected = oracle.advance(now);
        RC_ASSERT(fired_by(line, log, at(now)) == expected);
        break;
      }
      case 3: {  // as a virtual clock does
        const Instant now = line.next();
        if (now.is_never()) break;
        const auto expected = oracle.advance(now.ns());
        RC_ASSERT(fired_by(line, log, now) == expected);
        break;
      }
      default: {  // just short of the first deadline
        const auto first = oracle.first();
        if (!first || *first <= oracle.now()) break;
        const auto expected = oracle.advance(*first - 1);
        RC_ASSERT(fired_by(line, log, at(*first - 1)) == expected);
        break;
      }
    }
    RC_ASSERT(line.size() == oracle.size());
    const auto first = oracle.first();
    RC_ASSERT(first || line.next().is_never());
    RC_ASSERT(!first || line.next().ns() <= std::max(*first, oracle.now()));
  }
  for (TestTimer& timer : timers) line.disarm(timer);
  RC_ASSERT(line.size() == 0U);
}

TEST(Timeline, OracleAgreesOnRandomSequences) {
  const std::size_t times = scaled(1, 20, 500);  // for each of a hundred rounds
  ASSERT_TRUE(rc::check("the wheel and the sorted map agree", [&] {
    for (std::size_t i = 0; i < times; ++i) random_sequence();
  }));
}

#endif

}  // namespace
}  // namespace weft::test

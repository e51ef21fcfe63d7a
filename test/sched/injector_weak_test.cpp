/// The global queue under weak memory: every outcome of small scenarios, and every memory order in
/// it weakened in turn, which must be noticed.
#include <weft/sched/injector.hpp>

#include "support/weak_memory/items.hpp"

#include <gtest/gtest.h>

namespace weft::test::weak {
namespace {

template <std::size_t Ring, class Policy = Atomics>
struct Shop : Ledger<4> {
  Injector<Item, NextItem, Ring, Policy> injector;
  StealQueue<Item, 4, Policy> mine;
  Atomic<int> asleep{0};
  bool woken = false;
  bool slept = false;
  int first = -1;

  void put(std::initializer_list<std::size_t> items) {
    for (const std::size_t i : items) {
      push(
          [&](Item& item) {
            injector.push(item);
            return true;
          },
          i);
    }
  }
  int pop() { return take(injector.pop()); }
  /// After a push of one's own, where others do the same.
  void must_pop() { check(pop() >= 0, "a completed push can be popped"); }
  void share() { take(injector.pop_some(mine, 1)); }
  void wake() {
    if (asleep.load() == 1) woken = true;
  }
  void sleep() {
    asleep.store(1);
    slept = injector.empty();
  }
  void finish() {
    check(!slept || woken || injector.empty(), "nobody sleeps through a push");
    check(first != 1 || is_out(0), "what was pushed before is not overtaken");
    while (take(mine.pop()) >= 0) {
    }
    while (pop() >= 0) {
    }
    settle();
    check(injector.empty() && injector.size() == 0, "empty in the end");
  }
};

template <class State>
Scenario scenario(const std::vector<std::function<void(State&)>>& threads) {
  return [=](const Options& options) {
    return explore<State>(options, threads, [](State& state) { state.finish(); });
  };
}

Scenario before_sleep() {
  using S = Shop<2>;
  return scenario<S>({[](S& s) {
                        s.put({0});
                        s.wake();
                      },
                      [](S& s) { s.sleep(); }});
}
Scenario before_sleep_with_a_list() {
  using S = Shop<1>;
  return scenario<S>({[](S& s) {
                        s.put({0, 1});
                        s.wake();
                      },
                      [](S& s) { s.sleep(); }, [](S& s) { s.pop(); }});
}
Scenario before_sleep_two_push() {
  using S = Shop<2>;
  return scenario<S>({[](S& s) {
                        s.put({0});
                        s.wake();
                      },
                      [](S& s) {
                        s.put({1});
                        s.wake();
                      },
                      [](S& s) { s.sleep(); }});
}
Scenario shares() {
  using S = Shop<2>;
  return scenario<S>({[](S& s) { s.put({0, 1, 2}); },
                      [](S& s) {
                        s.pop();
                        s.pop();
                      },
                      [](S& s) { s.share(); }});
}
/// Over several laps: who pushes and then pops, gets something.
template <class Policy, std::size_t Ring>
Scenario laps(bool long_way = true) {
  using S = Shop<Ring, Policy>;
  return scenario<S>({[](S& s) {
                        s.put({0});
                        s.must_pop();
                        s.put({1});
                        s.must_pop();
                      },
                      [=](S& s) {
                        s.put({2});
                        s.must_pop();
                        if (!long_way) return;
                        s.put({3});
                        s.must_pop();
                      }});
}
Scenario two_producers() {
  using S = Shop<2>;
  return scenario<S>({[](S& s) { s.put({0, 1}); }, [](S& s) { s.put({2, 3}); },
                      [](S& s) {
                        s.pop();
                        s.pop();
                      }});
}
Scenario in_order() {
  using S = Shop<1>;
  return scenario<S>({[](S& s) {
                        s.put({0, 1});
                        s.first = s.pop();
                      },
                      [](S& s) {
                        s.put({2});
                        s.pop();
                      }});
}

std::vector<Scenario> small_scenarios() {
  return {before_sleep(),          shares(),  before_sleep_with_a_list(), before_sleep_two_push(),
          laps<Atomics, 1>(false), in_order()};
}

TEST(InjectorWeak, C6_EachItemComesOutOnceWithoutDataRaces) {
  for (const Scenario& scenario : small_scenarios()) expect_proven(scenario);
  for (const Scenario& scenario : {laps<Atomics, 1>(), laps<Atomics, 2>(false), two_producers()}) {
    expect_proven(scenario);
  }
}

TEST(InjectorWeak, C6_EveryOrderIsNeeded) {
  if (!exhaustive()) GTEST_SKIP() << "searched exhaustively in plain builds";
  // One is needed by the letter of C++20 alone: the checker takes happens-before for what the
  // standard calls "strongly happens before" (memory.hpp).
  const Mutation weak =
      mutate(small_scenarios(), weakenings,
             {.in = "injector.hpp", .except = "failed compare_exchange load (seq_cst) as acquire"});
  EXPECT_EQ(weak.unnoticed, "");
  EXPECT_EQ(weak.planted, 12U) << weak.noticed;
  const Mutation split = mutate(small_scenarios(), splits, {.in = "injector.hpp"});
  EXPECT_EQ(split.unnoticed, "");
  EXPECT_EQ(split.planted, 3U) << split.noticed;
}

/// A list without its lock.
struct WithoutLock : Atomics {
  struct Lock {
    void lock() {}
    void unlock() {}
  };
};

TEST(InjectorWeak, WithoutTheLockTheListBreaks) {
  const Report report = laps<WithoutLock, 1>()({});
  EXPECT_NE(report.violation, "") << report.text();
}

}  // namespace
}  // namespace weft::test::weak

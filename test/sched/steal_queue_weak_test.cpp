/// The run queue under weak memory: every outcome of small scenarios, and every memory order in it
/// weakened in turn, which must be noticed.
#include <weft/sched/steal_queue.hpp>

#include "support/weak_memory/items.hpp"

#include <gtest/gtest.h>

namespace weft::test::weak {
namespace {

/// An owner's queue and two thieves'. Positions begin just before they wrap.
template <std::size_t Capacity, class Policy = Atomics>
struct Shop : Ledger<6> {
  using Queue = StealQueue<Item, Capacity, Policy>;
  Queue owner{(std::uint64_t{1} << 48) - 2};
  Queue one;
  Queue two;
  Atomic<int> asleep{0};
  bool woken = false;
  bool slept = false;

  void put(std::initializer_list<std::size_t> items) {
    for (const std::size_t i : items) push([&](Item& item) { return owner.push(&item); }, i);
  }
  void pop() { take(owner.pop()); }
  void drain_half() {
    std::array<Item*, Capacity / 2> out{};
    for (Item* item : owner.drain_half(out)) take(item);
  }
  void steal(Queue& from, Queue& to) { take(from.steal_half(to)); }
  void drain(Queue& queue) {
    while (take(queue.pop()) >= 0) {
    }
  }
  void finish() {
    check(!slept || woken || owner.empty(), "nobody sleeps through a push");
    for (Queue* queue : {&owner, &one, &two}) drain(*queue);
    check(owner.empty() && one.empty() && two.empty(), "empty in the end");
    settle();
  }
};

template <class State>
Scenario scenario(const std::vector<std::function<void(State&)>>& threads) {
  return [=](const Options& options) {
    return explore<State>(options, threads, [](State& state) { state.finish(); });
  };
}

template <class Policy>
Scenario slots_are_reused() {
  using S = Shop<2, Policy>;
  return scenario<S>({[](S& s) {
                        s.put({0, 1});
                        s.pop();
                        s.put({2, 3});
                        s.pop();
                      },
                      [](S& s) {
                        s.steal(s.owner, s.one);
                        s.drain(s.one);
                        s.steal(s.owner, s.one);
                      }});
}
Scenario half_is_taken() {
  using S = Shop<4>;
  return scenario<S>({[](S& s) {
                        s.put({0, 1, 2, 3});
                        s.pop();
                        s.put({4, 5});
                      },
                      [](S& s) {
                        s.steal(s.owner, s.one);
                        s.drain(s.one);
                        s.steal(s.owner, s.one);
                      }});
}
Scenario two_thieves() {
  using S = Shop<2>;
  return scenario<S>({[](S& s) {
                        s.put({0, 1});
                        s.pop();
                        s.put({2, 3});
                      },
                      [](S& s) { s.steal(s.owner, s.one); },
                      [](S& s) { s.steal(s.owner, s.two); }});
}
Scenario a_thief_is_robbed() {
  using S = Shop<4>;
  return scenario<S>({[](S& s) { s.put({0, 1, 2}); }, [](S& s) { s.steal(s.owner, s.one); },
                      [](S& s) { s.steal(s.one, s.two); }});
}
Scenario a_full_queue_is_halved() {
  using S = Shop<4>;
  return scenario<S>({[](S& s) {
                        s.put({0, 1, 2, 3});
                        s.drain_half();
                        s.put({4, 5});
                      },
                      [](S& s) {
                        s.steal(s.owner, s.one);
                        s.drain(s.one);
                      }});
}
/// The owner pushes and looks for sleepers, with a fence in between; a sleeper looks for work.
Scenario before_sleep() {
  using S = Shop<2>;
  return scenario<S>({[](S& s) {
                        s.put({0});
                        fence(Order::seq_cst);
                        s.woken = s.asleep.load(Order::relaxed) == 1;
                      },
                      [](S& s) {
                        s.asleep.exchange(1);
                        s.slept = s.owner.empty();
                      }});
}

std::vector<Scenario> all_scenarios() {
  return {before_sleep(),  a_thief_is_robbed(),      slots_are_reused<Atomics>(),
          half_is_taken(), a_full_queue_is_halved(), two_thieves()};
}

TEST(StealQueueWeak, C6_EachItemComesOutOnceWithoutDataRaces) {
  for (const Scenario& scenario : all_scenarios()) expect_proven(scenario);
}

TEST(StealQueueWeak, C6_EveryOrderIsNeeded) {
  if (!exhaustive()) GTEST_SKIP() << "searched exhaustively in plain builds";
  const Mutation weak = mutate(all_scenarios(), weakenings, {.in = "steal_queue.hpp"});
  EXPECT_EQ(weak.unnoticed, "");
  EXPECT_EQ(weak.planted, 6U) << weak.noticed;
  const Mutation split = mutate(all_scenarios(), splits, {.in = "steal_queue.hpp"});
  EXPECT_EQ(split.unnoticed, "");
  EXPECT_EQ(split.planted, 3U) << split.noticed;
}

/// A claim that forgets the lag: the owner may push over slots that the thief has not copied yet.
struct WithoutLag : Atomics {
  template <class V>
  struct Atomic : weak::Atomic<V> {
    using weak::Atomic<V>::Atomic;
    bool compare_exchange_strong(V& expected, V desired, Order order) {
      return weak::Atomic<V>::compare_exchange_strong(expected, desired & ~V{0xffff}, order);
    }
  };
};

TEST(StealQueueWeak, WithoutTheLagSlotsAreOverwritten) {
  const Report report = slots_are_reused<WithoutLag>()({});
  EXPECT_TRUE(report.violation.starts_with("data race at steal_queue.hpp:")) << report.text();
}

}  // namespace
}  // namespace weft::test::weak

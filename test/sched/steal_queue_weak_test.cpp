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
  Queue owner{(std::uint64_t{1} << 24) - 2};
  Queue one;
  Queue two;
  Atomic<int> asleep{0};
  bool woken = false;
  bool slept = false;

  void put(std::initializer_list<std::size_t> items) {
    for (const std::size_t i : items) push([&](Item& item) { return owner.push(&item); }, i);
  }
  void pop() { take(owner.pop()); }
  void pop_newest() { take(owner.pop_newest()); }
  void drain_half() {
    std::array<Item*, Capacity / 2> out{};
    for (Item* item : owner.drain_half(out)) take(item);
  }
  void steal(Queue& from, Queue& to) { take(from.steal_half(to)); }
  void drain(Queue& queue) {
    for (std::size_t i = 0; i <= Capacity && take(queue.pop()) >= 0; ++i) {
    }
  }
  void wake() { woken = asleep.load() == 1; }
  void sleep(Queue& queue) {
    asleep.exchange(1);
    slept = queue.empty();
  }
  void finish() {
    for (Queue* queue : {&owner, &one, &two}) drain(*queue);
    check(owner.empty() && one.empty() && two.empty(), "empty in the end");
    check(owner.room() == Capacity && one.room() == Capacity, "all slots are free in the end");
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
/// The word is the same as before, the item is not.
template <class Policy>
Scenario the_newest_is_replaced() {
  using S = Shop<2, Policy>;
  return scenario<S>({[](S& s) {
                        s.put({0});
                        s.pop_newest();
                        s.put({1, 2});
                        s.pop_newest();
                        s.put({3});
                      },
                      [](S& s) {
                        s.steal(s.owner, s.one);
                        s.steal(s.owner, s.one);
                      }});
}
/// The last item is the oldest and the newest. (One stays to the end: what a thief never gets in
/// the runs where the owner goes first, the checker does not know to be wanted.)
template <class Policy>
Scenario the_last_is_wanted_by_all() {
  using S = Shop<2, Policy>;
  return scenario<S>({[](S& s) {
                        s.put({0, 1});
                        s.pop_newest();
                        s.pop_newest();
                        s.put({2});
                        s.pop_newest();
                        s.put({3});
                      },
                      [](S& s) { s.steal(s.owner, s.one); },
                      [](S& s) { s.steal(s.owner, s.two); }});
}
Scenario both_ends() {
  using S = Shop<4>;
  return scenario<S>({[](S& s) {
                        s.put({0, 1, 2, 3});
                        s.pop_newest();
                        s.pop();
                        s.put({4, 5});
                        s.pop_newest();
                        s.drain_half();
                      },
                      [](S& s) {
                        s.steal(s.owner, s.one);
                        s.take(s.one.pop_newest());
                        s.steal(s.owner, s.one);
                      }});
}
Scenario a_robbed_thief_takes_its_newest() {
  using S = Shop<4>;
  return scenario<S>({[](S& s) { s.put({0, 1, 2, 3, 4}); },
                      [](S& s) {
                        s.steal(s.owner, s.one);
                        s.take(s.one.pop_newest());
                        s.steal(s.owner, s.one);
                      },
                      [](S& s) { s.steal(s.one, s.two); }});
}

/// Who has pushed looks for sleepers; a sleeper looks for work. Nobody takes anything.
struct Inn : Shop<2> {
  void finish() {
    check(!slept || woken || owner.empty(), "nobody sleeps through a push");
    Shop<2>::finish();
  }
};
Scenario before_sleep() {
  return scenario<Inn>({[](Inn& s) {
                          s.put({0});
                          s.wake();
                        },
                        [](Inn& s) { s.sleep(s.owner); }});
}
/// The same for what a thief has brought home.
struct Den : Shop<4> {
  Den() { put({0, 1, 2}); }
  void finish() {
    check(!slept || woken || one.empty(), "nobody sleeps through a theft");
    Shop<4>::finish();
  }
};
Scenario before_sleep_with_loot() {
  return scenario<Den>({[](Den& s) {
                          s.steal(s.owner, s.one);
                          s.wake();
                        },
                        [](Den& s) { s.sleep(s.one); }});
}

std::vector<Scenario> all_scenarios() {
  return {before_sleep(),
          before_sleep_with_loot(),
          the_newest_is_replaced<Atomics>(),
          a_thief_is_robbed(),
          slots_are_reused<Atomics>(),
          half_is_taken(),
          a_full_queue_is_halved(),
          two_thieves(),
          both_ends(),
          the_last_is_wanted_by_all<Atomics>(),
          a_robbed_thief_takes_its_newest()};
}

TEST(StealQueueWeak, C6_EachItemComesOutOnceWithoutDataRaces) {
  for (const Scenario& scenario : all_scenarios()) expect_proven(scenario);
}

/// Mutations weaken by a notch: seq_cst still releases then.
std::vector<Fault> without_release(const Site& site) {
  if (site.operation != "rmw" || site.order != Order::seq_cst) return {};
  return {{.site = site, .order = Order::acquire, .split = false}};
}

TEST(StealQueueWeak, C6_EveryOrderIsNeeded) {
  if (!exhaustive()) GTEST_SKIP() << "searched exhaustively in plain builds";
  const Mutation weak = mutate(all_scenarios(), weakenings, {.in = "steal_queue.hpp"});
  EXPECT_EQ(weak.unnoticed, "");
  EXPECT_EQ(weak.planted, 5U) << weak.noticed;
  const Mutation unreleased = mutate(all_scenarios(), without_release, {.in = "steal_queue.hpp"});
  EXPECT_EQ(unreleased.unnoticed, "");
  EXPECT_EQ(unreleased.planted, 1U) << unreleased.noticed;
  const Mutation split = mutate(all_scenarios(), splits, {.in = "steal_queue.hpp"});
  EXPECT_EQ(split.unnoticed, "");
  EXPECT_EQ(split.planted, 4U) << split.noticed;
}

// Broken twins: each leaves out one thing, and must fail.

/// A claim that forgets the lag: the owner may push over slots that the thief has not copied yet.
struct WithoutLag : Atomics {
  template <class V>
  struct Atomic : weak::Atomic<V> {
    using weak::Atomic<V>::Atomic;
    bool compare_exchange_strong(V& expected, V desired, Order success, Order failure) {
      const V without_lag = desired & ~V{0xffff};
      return weak::Atomic<V>::compare_exchange_strong(expected, without_lag, success, failure);
    }
  };
};

TEST(StealQueueWeak, WithoutTheLagSlotsAreOverwritten) {
  const Report report = slots_are_reused<WithoutLag>()({});
  EXPECT_TRUE(report.violation.starts_with("data race at steal_queue.hpp:")) << report.text();
}

/// A thief that acquires when it looks, not when it claims. Enough while words never come back.
struct AcquiringTooEarly : Atomics {
  template <class V>
  struct Atomic : weak::Atomic<V> {
    using weak::Atomic<V>::Atomic;
    [[nodiscard]] V load(Order order = Order::seq_cst) const {
      return weak::Atomic<V>::load(order == Order::relaxed ? Order::acquire : order);
    }
    bool compare_exchange_strong(V& expected, V desired, Order /*success*/, Order /*failure*/) {
      return weak::Atomic<V>::compare_exchange_strong(expected, desired, Order::relaxed,
                                                      Order::acquire);
    }
  };
};

TEST(StealQueueWeak, AThiefMustAcquireByItsClaim) {
  expect_proven(slots_are_reused<AcquiringTooEarly>());
  const Report report = the_newest_is_replaced<AcquiringTooEarly>()({});
  EXPECT_TRUE(report.violation.starts_with("data race at steal_queue.hpp:")) << report.text();
}

/// An owner who takes what it has seen, without a check that it is still there.
struct TakingBlindly : Atomics {
  template <class V>
  struct Atomic : weak::Atomic<V> {
    using weak::Atomic<V>::Atomic;
    bool compare_exchange_weak(V& expected, V desired, Order order) {
      expected = weak::Atomic<V>::fetch_add(desired - expected, order);
      return true;
    }
  };
};

TEST(StealQueueWeak, TheOwnerMustNotTakeTheNewestBlindly) {
  const Report report = the_last_is_wanted_by_all<TakingBlindly>()({});
  EXPECT_NE(report.violation, "") << report.text();
}

/// A push that stores the word it has computed, as if only the owner wrote it.
struct PushingByStore : Atomics {
  template <class V>
  struct Atomic : weak::Atomic<V> {
    using weak::Atomic<V>::Atomic;
    V fetch_add(V by) {
      const V old = weak::Atomic<V>::load(Order::relaxed);
      weak::Atomic<V>::store(old + by);
      return old;
    }
  };
};

TEST(StealQueueWeak, APushMustNotUndoAClaim) {
  const Report report = slots_are_reused<PushingByStore>()({});
  EXPECT_NE(report.violation, "") << report.text();
}

/// The design in miniature, for one item: a thief copies after it has claimed, or before, as Go
/// does. The slot is atomic, so that a copy made too early is no data race.
template <bool CopiesFirst>
struct Stall : Ledger<2> {
  Atomic<int> count{0};
  Atomic<Item*> slot{nullptr};

  void put(std::size_t index) {
    push(
        [&](Item& item) {
          slot.store(&item);
          count.store(1);
          return true;
        },
        index);
  }
  bool claim() {
    int one = 1;
    return count.compare_exchange_strong(one, 0);
  }
  void pop_newest() {
    if (claim()) take(slot.load());
  }
  void steal() {
    Item* early = slot.load();
    if (claim()) take(CopiesFirst ? early : slot.load());
  }
  void finish() {
    pop_newest();
    settle();
  }
};
template <bool CopiesFirst>
Report rob_a_stall() {
  using S = Stall<CopiesFirst>;
  return scenario<S>({[](S& s) {
                        s.put(0);
                        s.pop_newest();
                        if (s.is_out(0)) s.put(1);  // the slot is free only if no thief has it
                      },
                      [](S& s) { s.steal(); }})({});
}

TEST(StealQueueWeak, AThiefMustNotCopyBeforeItClaims) {
  EXPECT_TRUE(rob_a_stall<false>().proven());
  const Report report = rob_a_stall<true>();
  EXPECT_NE(report.violation, "") << report.text();
}

}  // namespace
}  // namespace weft::test::weak

/// The checker itself, on the classic litmus tests: every outcome that C++20 allows is found, and
/// none that it forbids. (Allowed outcomes that need load buffering are not modelled, see
/// memory.hpp.)
#include "support/weak_memory/atomics.hpp"

#include <set>

#include <gtest/gtest.h>

namespace weft::test::weak {
namespace {

constexpr Order relaxed = Order::relaxed;
constexpr Order acquire = Order::acquire;
constexpr Order release = Order::release;
constexpr Order acq_rel = Order::acq_rel;
constexpr Order seq_cst = Order::seq_cst;

using Outcome = std::vector<int>;
using Outcomes = std::set<Outcome>;

/// Some locations, and what was read into registers.
struct Litmus {
  Atomic<int> x{0};
  Atomic<int> y{0};
  Atomic<int> z{0};
  Atomic<int> w{0};
  Cell<int> data{};
  std::array<int, 4> r{-1, -1, -1, -1};
};
using Body = std::function<void(Litmus&)>;

/// The final values of the first `registers` registers, in all runs.
Outcomes outcomes(const std::vector<Body>& threads, std::size_t registers) {
  Outcomes all;
  const Report report = explore<Litmus>({}, threads, [&](Litmus& l) {
    all.insert(Outcome(l.r.begin(), l.r.begin() + static_cast<std::ptrdiff_t>(registers)));
  });
  EXPECT_TRUE(report.proven()) << report.text();
  return all;
}

Body writer(Order first, Order second) {
  return [=](Litmus& l) {
    l.x.store(1, first);
    l.y.store(1, second);
  };
}
Body reader(Order first, Order second) {
  return [=](Litmus& l) {
    l.r[0] = l.y.load(first);
    l.r[1] = l.x.load(second);
  };
}

TEST(WeakMemory, MessagePassing) {
  const Outcomes strong{{0, 0}, {0, 1}, {1, 1}};
  Outcomes weak = strong;
  weak.insert({1, 0});
  EXPECT_EQ(outcomes({writer(relaxed, release), reader(acquire, relaxed)}, 2), strong);
  EXPECT_EQ(outcomes({writer(relaxed, relaxed), reader(acquire, relaxed)}, 2), weak);
  EXPECT_EQ(outcomes({writer(relaxed, release), reader(relaxed, relaxed)}, 2), weak);
  EXPECT_EQ(outcomes({writer(seq_cst, relaxed), reader(relaxed, seq_cst)}, 2), weak);
  EXPECT_EQ(outcomes({writer(seq_cst, seq_cst), reader(seq_cst, seq_cst)}, 2), strong);
}

TEST(WeakMemory, MessagePassingByFences) {
  auto fenced_writer = [](Order order) -> Body {
    return [=](Litmus& l) {
      l.x.store(1, relaxed);
      fence(order);
      l.y.store(1, relaxed);
    };
  };
  auto fenced_reader = [](Order order) -> Body {
    return [=](Litmus& l) {
      l.r[0] = l.y.load(relaxed);
      fence(order);
      l.r[1] = l.x.load(relaxed);
    };
  };
  const Outcomes strong{{0, 0}, {0, 1}, {1, 1}};
  Outcomes weak = strong;
  weak.insert({1, 0});
  EXPECT_EQ(outcomes({fenced_writer(release), fenced_reader(acquire)}, 2), strong);
  EXPECT_EQ(outcomes({fenced_writer(seq_cst), fenced_reader(seq_cst)}, 2), strong);
  EXPECT_EQ(outcomes({fenced_writer(acquire), fenced_reader(acquire)}, 2), weak);
  EXPECT_EQ(outcomes({fenced_writer(release), fenced_reader(release)}, 2), weak);
}

/// Both threads store, then look at the other's: may both see nothing?
Outcomes store_buffering(Order store, Order load, bool fences = false) {
  return outcomes({[=](Litmus& l) {
                     l.x.store(1, store);
                     if (fences) fence(seq_cst);
                     l.r[0] = l.y.load(load);
                   },
                   [=](Litmus& l) {
                     l.y.store(1, store);
                     if (fences) fence(seq_cst);
                     l.r[1] = l.x.load(load);
                   }},
                  2);
}

TEST(WeakMemory, StoreBuffering) {
  const Outcomes strong{{0, 1}, {1, 0}, {1, 1}};
  Outcomes weak = strong;
  weak.insert({0, 0});
  EXPECT_EQ(store_buffering(seq_cst, seq_cst), strong);
  EXPECT_EQ(store_buffering(relaxed, relaxed, true), strong);
  EXPECT_EQ(store_buffering(release, acquire), weak);
  EXPECT_EQ(store_buffering(seq_cst, acquire), weak);
  EXPECT_EQ(store_buffering(release, seq_cst), weak);
}

/// One side with a fence, the other with seq_cst operations: enough in C++20.
TEST(WeakMemory, StoreBufferingWithAFenceOnOneSide) {
  auto with_fence = [](Order order) -> Body {
    return [=](Litmus& l) {
      l.x.store(1, relaxed);
      fence(order);
      l.r[0] = l.y.load(relaxed);
    };
  };
  const Body without = [](Litmus& l) {
    l.y.exchange(1);
    l.r[1] = l.x.load();
  };
  const Outcomes strong{{0, 1}, {1, 0}, {1, 1}};
  Outcomes weak = strong;
  weak.insert({0, 0});
  EXPECT_EQ(outcomes({with_fence(seq_cst), without}, 2), strong);
  EXPECT_EQ(outcomes({with_fence(acq_rel), without}, 2), weak);
}

/// A read-modify-write between store and load, of one variable or of one each.
Outcomes store_buffering_with_rmw(Order order, bool same) {
  auto side = [=](Atomic<int> Litmus::* mine, Atomic<int> Litmus::* its,
                  Atomic<int> Litmus::* between, std::size_t result) -> Body {
    return [=](Litmus& l) {
      (l.*mine).store(1, relaxed);
      (l.*between).fetch_add(0, order);
      l.r[result] = (l.*its).load(relaxed);
    };
  };
  return outcomes({side(&Litmus::x, &Litmus::y, &Litmus::z, 0),
                   side(&Litmus::y, &Litmus::x, same ? &Litmus::z : &Litmus::w, 1)},
                  2);
}

TEST(WeakMemory, AReadModifyWriteIsNoFenceExceptBetweenThoseWhoShareIt) {
  EXPECT_FALSE(store_buffering_with_rmw(acq_rel, true).contains({0, 0}));
  EXPECT_TRUE(store_buffering_with_rmw(relaxed, true).contains({0, 0}));
  EXPECT_TRUE(store_buffering_with_rmw(seq_cst, false).contains({0, 0}));
}

/// R: a store against the final value, and a load.
bool store_then_look_back(Order order) {
  bool found = false;
  const Report report =
      explore<Litmus>({},
                      {[=](Litmus& l) {
                         l.x.store(1, order);
                         l.y.store(1, order);
                       },
                       [=](Litmus& l) {
                         l.y.store(2, order);
                         l.r[0] = l.x.load(order == release ? acquire : order);
                       }},
                      [&](Litmus& l) { found |= l.y.load() == 2 && l.r[0] == 0; });
  EXPECT_TRUE(report.proven()) << report.text();
  return found;
}

TEST(WeakMemory, StoreThenLookBack) {
  EXPECT_FALSE(store_then_look_back(seq_cst));
  EXPECT_TRUE(store_then_look_back(release));
}

/// Two readers see two independent writes in opposite orders.
bool readers_may_disagree(Order store, Order load, bool fences = false) {
  auto read = [=](Atomic<int> Litmus::* first, Atomic<int> Litmus::* second,
                  std::size_t result) -> Body {
    return [=](Litmus& l) {
      l.r[result] = (l.*first).load(load);
      if (fences) fence(seq_cst);
      l.r[result + 1] = (l.*second).load(load);
    };
  };
  return outcomes({[=](Litmus& l) { l.x.store(1, store); }, [=](Litmus& l) { l.y.store(1, store); },
                   read(&Litmus::x, &Litmus::y, 0), read(&Litmus::y, &Litmus::x, 2)},
                  4)
      .contains({1, 0, 1, 0});
}

TEST(WeakMemory, IndependentReadsOfIndependentWrites) {
  EXPECT_TRUE(readers_may_disagree(relaxed, relaxed));
  EXPECT_TRUE(readers_may_disagree(release, acquire));
  EXPECT_TRUE(readers_may_disagree(seq_cst, acquire));
  EXPECT_FALSE(readers_may_disagree(seq_cst, seq_cst));
  EXPECT_FALSE(readers_may_disagree(relaxed, relaxed, true));
}

TEST(WeakMemory, Coherence) {
  // A thread never reads backwards (CoRR), nor before its own write (CoWR) ...
  const Outcomes seen = outcomes({[](Litmus& l) {
                                    l.x.store(1, relaxed);
                                    l.x.store(2, relaxed);
                                  },
                                  [](Litmus& l) {
                                    l.r[0] = l.x.load(relaxed);
                                    l.r[1] = l.x.load(relaxed);
                                  }},
                                 2);
  EXPECT_EQ(seen, (Outcomes{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}}));
  // ... and all agree on the order, though the writers do not know of each other.
  const Outcomes ordered = outcomes({[](Litmus& l) { l.x.store(1, relaxed); },
                                     [](Litmus& l) {
                                       l.x.store(2, relaxed);
                                       l.r[0] = l.x.load(relaxed);
                                       l.r[1] = l.x.load(relaxed);
                                     },
                                     [](Litmus& l) {
                                       l.r[2] = l.x.load(relaxed);
                                       l.r[3] = l.x.load(relaxed);
                                     }},
                                    4);
  EXPECT_TRUE(ordered.contains({2, 1, 2, 1}));
  EXPECT_TRUE(ordered.contains({2, 2, 1, 2}));
  EXPECT_FALSE(ordered.contains({2, 1, 1, 2}));
  EXPECT_FALSE(ordered.contains({1, 2, 1, 2}));
}

/// 2+2W: a store may enter the modification order before one that was executed earlier.
TEST(WeakMemory, StoresMayBeOrderedAgainstTheOrderOfExecution) {
  auto run = [](Order order) {
    Outcomes all;
    const Report report = explore<Litmus>({},
                                          {[=](Litmus& l) {
                                             l.x.store(1, order);
                                             l.y.store(2, order);
                                           },
                                           [=](Litmus& l) {
                                             l.y.store(1, order);
                                             l.x.store(2, order);
                                           }},
                                          [&](Litmus& l) { all.insert({l.x.load(), l.y.load()}); });
    EXPECT_TRUE(report.proven()) << report.text();
    return all;
  };
  EXPECT_EQ(run(relaxed), (Outcomes{{1, 1}, {1, 2}, {2, 1}, {2, 2}}));
  EXPECT_EQ(run(release), (Outcomes{{1, 1}, {1, 2}, {2, 1}, {2, 2}}));
  EXPECT_EQ(run(seq_cst), (Outcomes{{1, 2}, {2, 1}, {2, 2}}));
}

/// A release store, then another thread's operation on top, then an acquiring reader of that.
Outcomes through_the_middle(bool rmw) {
  return outcomes({[](Litmus& l) {
                     l.x.store(1, relaxed);
                     l.y.store(1, release);
                   },
                   [=](Litmus& l) {
                     if (rmw) {
                       int one = 1;
                       l.r[2] = l.y.compare_exchange_strong(one, 2, relaxed) ? 1 : 0;
                     } else if (l.y.load(relaxed) == 1) {
                       l.y.store(2, relaxed);
                     }
                   },
                   [](Litmus& l) {
                     l.r[0] = l.y.load(acquire);
                     l.r[1] = l.x.load(relaxed);
                   }},
                  2);
}

TEST(WeakMemory, ReleaseSequencesAreCarriedByReadModifyWritesOnly) {
  EXPECT_FALSE(through_the_middle(true).contains({2, 0}));
  EXPECT_TRUE(through_the_middle(true).contains({2, 1}));
  EXPECT_TRUE(through_the_middle(false).contains({2, 0}));
  // C++20: not by a later relaxed store of the same thread either.
  const Outcomes same_thread = outcomes({[](Litmus& l) {
                                           l.x.store(1, relaxed);
                                           l.y.store(1, release);
                                           l.y.store(2, relaxed);
                                         },
                                         reader(acquire, relaxed)},
                                        2);
  EXPECT_TRUE(same_thread.contains({2, 0}));
  EXPECT_FALSE(same_thread.contains({1, 0}));
}

TEST(WeakMemory, ReadModifyWritesAreAtomic) {
  auto sum = [](const Body& add) {
    Outcomes all;
    const Report report =
        explore<Litmus>({}, {add, add, add}, [&](Litmus& l) { all.insert({l.x.load()}); });
    EXPECT_TRUE(report.proven()) << report.text();
    return all;
  };
  EXPECT_EQ(sum([](Litmus& l) { l.x.fetch_add(1, relaxed); }), (Outcomes{{3}}));
  EXPECT_EQ(sum([](Litmus& l) {
              int seen = l.x.load(relaxed);
              while (!l.x.compare_exchange_weak(seen, seen + 1, relaxed)) {
              }
            }),
            (Outcomes{{3}}));
  EXPECT_EQ(sum([](Litmus& l) { l.x.store(l.x.load(seq_cst) + 1, seq_cst); }),
            (Outcomes{{1}, {2}, {3}}));
}

/// Nobody may pass a value on backwards in causality, over a third thread.
TEST(WeakMemory, WriteToReadCausality) {
  auto run = [](Order store, Order load) {
    return outcomes({[](Litmus& l) { l.x.store(1, relaxed); },
                     [=](Litmus& l) {
                       if (l.x.load(load) == 1) l.y.store(1, store);
                     },
                     [=](Litmus& l) {
                       l.r[0] = l.y.load(load);
                       l.r[1] = l.x.load(relaxed);
                     }},
                    2);
  };
  EXPECT_FALSE(run(release, acquire).contains({1, 0}));
  EXPECT_TRUE(run(relaxed, relaxed).contains({1, 0}));
}

TEST(WeakMemory, LoadBufferingIsNotModelled) {
  const Outcomes all = outcomes({[](Litmus& l) {
                                   l.r[0] = l.x.load(relaxed);
                                   l.y.store(1, relaxed);
                                 },
                                 [](Litmus& l) {
                                   l.r[1] = l.y.load(relaxed);
                                   l.x.store(1, relaxed);
                                 }},
                                2);
  EXPECT_EQ(all, (Outcomes{{0, 0}, {0, 1}, {1, 0}}));
}

Report publish(Order store, Order load) {
  return explore<Litmus>({},
                         {[=](Litmus& l) {
                            l.data.set(7);
                            l.x.store(1, store);
                          },
                          [=](Litmus& l) {
                            if (l.x.load(load) == 1) check(l.data.get() == 7, "published");
                          }},
                         [](Litmus& l) { check(l.data.get() == 7, "at the end"); });
}

TEST(WeakMemory, DataRacesAreFound) {
  EXPECT_TRUE(publish(release, acquire).proven());
  EXPECT_TRUE(publish(relaxed, acquire).violation.starts_with("data race"));
  EXPECT_TRUE(publish(release, relaxed).violation.starts_with("data race"));
}

struct Locked {
  Lock one;
  Lock two;
  Cell<int> data{};
};

TEST(WeakMemory, LocksExcludeAndDeadlocksAreFound) {
  auto add = [](Locked& l) {
    l.one.lock();
    l.data.set(l.data.get() + 1);
    l.one.unlock();
  };
  const Report sum = explore<Locked>(
      {}, {add, add, add}, [](Locked& l) { check(l.data.get() == 3, "each was counted"); });
  EXPECT_TRUE(sum.proven()) << sum.text();
  const Report crossed = explore<Locked>({},
                                         {[](Locked& l) {
                                            l.one.lock();
                                            l.two.lock();
                                            l.two.unlock();
                                            l.one.unlock();
                                          },
                                          [](Locked& l) {
                                            l.two.lock();
                                            l.one.lock();
                                            l.one.unlock();
                                            l.two.unlock();
                                          }},
                                         [](Locked&) {});
  EXPECT_EQ(crossed.violation, "deadlock");
}

TEST(WeakMemory, AViolationComesWithItsTrace) {
  const Report report = publish(relaxed, acquire);
  EXPECT_NE(report.trace.find("store 1 (relaxed)"), std::string::npos) << report.text();
  EXPECT_NE(report.trace.find("violation: data race at weak_memory_test.cpp:"), std::string::npos)
      << report.text();
}

/// Threads are run in a fixed order, so that each way is met once. Which order must not matter.
TEST(WeakMemory, TheOrderOfThreadsDoesNotMatter) {
  std::vector<Body> threads{[](Litmus& l) {
                              l.x.store(1, release);
                              l.y.fetch_add(1, relaxed);
                              l.r[0] = l.z.load();
                            },
                            [](Litmus& l) {
                              int one = 1;
                              l.y.compare_exchange_strong(one, 5, acq_rel);
                              l.z.store(1);
                              l.x.store(2, relaxed);
                            },
                            [](Litmus& l) {
                              l.r[1] = l.y.load(acquire);
                              l.x.fetch_add(10, relaxed);
                              l.z.store(2, release);
                              l.r[2] = l.x.load();
                            }};
  std::array<std::size_t, 3> order{0, 1, 2};
  std::size_t found = 0;
  Outcomes all;
  do {
    Outcomes seen;
    const Report report = explore<Litmus>(
        {}, {threads[order[0]], threads[order[1]], threads[order[2]]}, [&](Litmus& l) {
          seen.insert({l.r[0], l.r[1], l.r[2], l.x.load(), l.y.load(), l.z.load()});
        });
    EXPECT_TRUE(report.proven()) << report.text();
    if (found == 0) {
      found = report.found;
      all = seen;
    }
    EXPECT_EQ(report.found, found);
    EXPECT_EQ(seen, all);
  } while (std::next_permutation(order.begin(), order.end()));
  EXPECT_GT(all.size(), 50U);
}

TEST(WeakMemory, BoundsAreReported) {
  auto spin = [](Litmus& l) {
    while (l.x.load(relaxed) == 0) {
    }
  };
  const Report cut =
      explore<Litmus>({.most_runs = 100, .most_steps = 20}, {spin, spin}, [](Litmus&) {});
  EXPECT_FALSE(cut.proven());
  EXPECT_GT(cut.cut, 0U);
}

}  // namespace
}  // namespace weft::test::weak

/// The leaning lock under weak memory: every outcome of small scenarios, with every memory order
/// weakened in turn, and designs that look right and are not.
#include "support/weak_memory/items.hpp"
#include "support/weak_memory/leaning.hpp"

#include <gtest/gtest.h>

namespace weft::test::weak {
namespace {

constexpr Seat first = 1;  // whom they lean to in the beginning

/// Leans only after some uses, so that there are some upright ones.
struct Patient : Leaning<> {
  static constexpr std::uint32_t first_patience = 4;
};

template <Without without, class Policy = Leaning<without>>
struct Shop {
  typename Policy::Seats seats;
  LeaningLockOn<Policy> lock{first};
  LeaningLockOn<Policy> other{first};
  Cell<int> data;
  Cell<int> more;
  std::size_t uses = 0;

  void use(int times = 1) {
    for (int i = 0; i < times; ++i) {
      auto& hold = lock.take();
      data.set(data.get() + 1);
      ++uses;
      lock.give_back(hold);
    }
  }
  void use_quickly(int times = 1) {
    for (int i = 0; i < times; ++i) {
      auto* const quick = lock.take_quickly();
      auto& hold = quick != nullptr ? *quick : lock.take();
      data.set(data.get() + 1);
      ++uses;
      lock.give_back(hold);
    }
  }
  /// As those do who cannot remember how they took them: one inside the other.
  void use_both() {
    lock.lock();
    other.lock();
    data.set(data.get() + 1);
    more.set(more.get() + 1);
    ++uses;
    other.unlock();
    lock.unlock();
  }
  void use_other() {
    auto& hold = other.take();
    more.set(more.get() + 1);
    other.give_back(hold);
  }
  void finish() { check(data.get() == static_cast<int>(uses), "nothing that was done is lost"); }
};

template <Without without>
Scenario scenario(std::vector<std::function<void(Shop<without>&)>> threads) {
  return [=](const Options& options) {
    return explore<Shop<without>>(options, threads, [](auto& shop) { shop.finish(); });
  };
}

template <Without without = Without::nothing>
Scenario it_is_straightened() {
  return scenario<without>({[](auto& s) { s.use(2); }, [](auto& s) { s.use(); }});
}
template <Without without = Without::nothing>
Scenario two_straighten_it() {
  return scenario<without>(
      {[](auto& s) { s.use(); }, [](auto& s) { s.use(); }, [](auto& s) { s.use(); }});
}
/// The second is alone with it for so long that it leans the other way; the first may still be
/// about to say that it is inside.
template <Without without = Without::nothing>
Scenario it_leans_the_other_way() {
  return scenario<without>(
      {[](auto& s) { s.use(); }, [](auto& s) { s.use(3); }, [](auto& s) { s.use(); }});
}
/// Two locks that lean towards the same worker, which can be inside one only.
template <Without without = Without::nothing>
Scenario one_inside_the_other() {
  return scenario<without>(
      {[](auto& s) { s.use_both(); }, [](auto& s) { s.use_other(); }, [](auto& s) { s.use(); }});
}
/// From one into the other: whoever straightens the first may only see that it is in the second.
template <Without without = Without::nothing>
Scenario one_after_the_other() {
  return scenario<without>({[](auto& s) {
                              s.use();
                              s.use_other();
                            },
                            [](auto& s) { s.use(); }});
}

/// By those who give up if it takes more than a few lines; one after the other it is upright.
Scenario it_is_taken_quickly() {
  using S = Shop<Without::nothing, Patient>;
  return [](const Options& options) {
    return explore<S>(options, {[](S& s) { s.use_quickly(); }, [](S& s) { s.use_quickly(3); }},
                      [](S& s) { s.finish(); });
  };
}

TEST(LeaningLockWeak, C1_IsHeldByOneAtATime) {
  expect_proven(it_is_straightened());
  expect_proven(two_straighten_it());
  expect_proven(it_leans_the_other_way());
  expect_proven(one_inside_the_other());
  expect_proven(one_after_the_other());
  expect_proven(it_is_taken_quickly());
}

TEST(LeaningLockWeak, C6_NeedsEveryMemoryOrder) {
  if (!exhaustive()) GTEST_SKIP() << "sanitizers and emulators get a sample";
  const Mutation orders = mutate({it_is_straightened(), one_after_the_other(), two_straighten_it(),
                                  one_inside_the_other(), it_is_taken_quickly()},
                                 weakenings, {.in = "leaning_lock.hpp"});
  EXPECT_GE(orders.planted, 7U) << orders.noticed;
  EXPECT_EQ(orders.unnoticed, "");
}

TEST(LeaningLockWeak, NeedsBothFences) {
  EXPECT_NE(it_is_straightened<Without::light_fence>()({}).violation, "");
  EXPECT_NE(it_is_straightened<Without::heavy_fence>()({}).violation, "");
}

TEST(LeaningLockWeak, WhoIsInsideMustNotStandInTheLock) {
  if (!exhaustive()) GTEST_SKIP() << "it takes some ten thousand runs";
  EXPECT_NE(it_leans_the_other_way<Without::own_inside>()({}).violation, "");
}

}  // namespace
}  // namespace weft::test::weak

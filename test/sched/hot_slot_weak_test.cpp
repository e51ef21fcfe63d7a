/// The hot slot under weak memory: what its owner puts in comes out once, to the owner or a thief.
#include "sched/hot_slot.hpp"
#include "support/weak_memory/items.hpp"
#include "support/weak_memory/leaning.hpp"

#include <gtest/gtest.h>

namespace weft::test::weak {
namespace {

/// Leans towards the owner.
class RealLock : public LeaningLockOn<Leaning<>> {
 public:
  RealLock() : LeaningLockOn(Seat{1}) {}
};
class PlainLock {
 public:
  PlainLock& take() {
    lock_.lock();
    return *this;
  }
  static void give_back(PlainLock& lock) { lock.lock_.unlock(); }

 private:
  Lock lock_;
};
class NoLock {
 public:
  NoLock& take() { return *this; }
  static void give_back(NoLock& /*lock*/) {}
};

template <class AnyLock>
struct Shop : Ledger<3> {
  Leaning<>::Seats seats;
  HotSlot<Item, AnyLock, Atomics> slot;

  void put(std::size_t index) {
    push(
        [&](Item& item) {
          take(slot.put(item));
          return true;
        },
        index);
  }
  void finish() {
    take(slot.take());
    settle();
  }
};

template <class AnyLock = PlainLock>
Scenario put_and_taken() {
  using S = Shop<AnyLock>;
  return [](const Options& options) {
    return explore<S>(options,
                      {[](S& s) {
                         s.put(0);
                         s.take(s.slot.take());
                         s.put(1);
                         s.put(2);
                       },
                       [](S& s) { s.take(s.slot.steal()); }, [](S& s) { s.take(s.slot.steal()); }},
                      [](S& s) { s.finish(); });
  };
}

Scenario put_taken_and_stolen() {
  using S = Shop<RealLock>;
  return [](const Options& options) {
    return explore<S>(options,
                      {[](S& s) {
                         s.put(0);
                         s.take(s.slot.take());
                         s.put(1);
                         s.put(2);
                       },
                       [](S& s) { s.take(s.slot.steal()); }},
                      [](S& s) { s.finish(); });
  };
}

TEST(HotSlotWeak, C1_EveryTaskComesOutOnce) {
  expect_proven(put_and_taken());
  expect_proven(put_taken_and_stolen());
}

TEST(HotSlotWeak, NeedsItsLockAndItsOrders) {
  EXPECT_NE(put_and_taken<NoLock>()({}).violation, "");
  if (!exhaustive()) GTEST_SKIP() << "sanitizers and emulators get a sample";
  const Mutation orders = mutate({put_and_taken()}, weakenings, {.in = "hot_slot.hpp"});
  EXPECT_GE(orders.planted, 2U);
  EXPECT_EQ(orders.unnoticed, "");
}

}  // namespace
}  // namespace weft::test::weak

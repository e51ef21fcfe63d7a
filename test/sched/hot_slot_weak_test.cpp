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

template <class AnyLock>
Scenario put_and_taken(int thieves) {
  using S = Shop<AnyLock>;
  return [=](const Options& options) {
    std::vector<std::function<void(S&)>> threads{[](S& s) {
      s.put(0);
      s.take(s.slot.take());
      s.put(1);
      s.put(2);
    }};
    for (int i = 0; i < thieves; ++i) threads.push_back([](S& s) { s.take(s.slot.take()); });
    return explore<S>(options, threads, [](S& s) { s.finish(); });
  };
}

TEST(HotSlotWeak, C1_EveryTaskComesOutOnce) {
  expect_proven(put_and_taken<PlainLock>(2));
  expect_proven(put_and_taken<RealLock>(1));
}

TEST(HotSlotWeak, NeedsItsLockAndItsOrders) {
  EXPECT_NE(put_and_taken<NoLock>(2)({}).violation, "");
  if (!exhaustive()) GTEST_SKIP() << "sanitizers and emulators get a sample";
  const Mutation orders = mutate({put_and_taken<PlainLock>(2)}, weakenings, {.in = "hot_slot.hpp"});
  EXPECT_GE(orders.planted, 2U);
  EXPECT_EQ(orders.unnoticed, "");
}

}  // namespace
}  // namespace weft::test::weak

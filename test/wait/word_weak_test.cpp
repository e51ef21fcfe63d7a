/// The word of a wait under weak memory: every outcome of small scenarios, with every memory order
/// weakened and every change taken apart in turn.
#include <weft/wait/word.hpp>

#include "support/weak_memory/items.hpp"

#include <gtest/gtest.h>

namespace weft::test::weak {
namespace {

using Word = WaitWord<Atomic>;
using Parked = Word::Parked;

/// A waiter, which suspends on two objects and then on nothing but its cancellation. Whoever ends a
/// suspension goes on with it, as workers do.
struct Waiter {
  Word word;
  Cell<Word::Phase> phase;
  Cell<int> context;  // what it has left on its stack
  std::array<Cell<int>, 2> results;
  Cell<int> reason;
  struct Object {
    Lock lock;
    Cell<bool> linked;
  };
  std::array<Object, 2> objects;
  int ended = 0;  // suspensions
  int won = 0;    // claims
  bool cancelled = false;
  bool rest_of_life = false;

  /// The first suspension; `published` on so many objects.
  void wait(std::size_t published) {
    phase.set(word.open());
    for (std::size_t i = 0; i < published; ++i) {
      objects[i].lock.lock();
      objects[i].linked.set(true);
      objects[i].lock.unlock();
    }
    leave(0);
  }
  void leave(int winner) {
    context.set(context.get() + 1);
    const Parked how = word.park();
    if (how == Parked::parked) return;
    go_on(how == Parked::cancelled ? -1 : winner_of(winner));
  }
  /// Somebody else's result, of the only one who can have claimed it.
  int winner_of(int /*unknown*/) {
    for (int i = 0; i < 2; ++i) {
      if (claimed_by[static_cast<std::size_t>(i)]) return i;
    }
    return 0;
  }
  void go_on(int winner) {
    check(context.get() == ended + 1, "whoever goes on finds what was saved");
    ++ended;
    if (winner < 0) {
      check(reason.get() == 1, "whoever is cancelled knows why");
      check(!cancelled, "it is cancelled once");
      cancelled = true;
    } else {
      check(results[static_cast<std::size_t>(winner)].get() == 1, "the result is there");
    }
    for (std::size_t i = 0; i < 2; ++i) {
      if (static_cast<int>(i) == winner) continue;
      objects[i].lock.lock();
      objects[i].linked.set(false);
      objects[i].lock.unlock();
    }
    word.close();
    if (rest_of_life || cancelled) return;
    rest_of_life = true;
    phase.set(word.open());
    leave(0);
  }

  void claim(std::size_t i) {
    Object& object = objects[i];
    object.lock.lock();
    bool mine = false;
    if (object.linked.get()) {
      object.linked.set(false);
      mine = word.claim(phase.get());
      if (mine) {
        ++won;
        claimed_by[i] = true;
        results[i].set(1);
      }
    }
    object.lock.unlock();
    if (mine && word.commit()) go_on(static_cast<int>(i));
  }
  void cancel() {
    reason.set(1);
    if (word.cancel()) go_on(-1);
  }

  std::array<bool, 2> claimed_by{};
};

using Threads = std::vector<std::function<void(Waiter&)>>;

Scenario scenario(Threads threads, bool is_cancelled) {
  return [=](const Options& options) {
    return explore<Waiter>(options, threads, [=](Waiter& w) {
      check(w.won <= 1, "one claim succeeds");
      check(w.cancelled == is_cancelled, "who is cancelled finds out");
      check(w.ended == w.won + (w.cancelled ? 1 : 0), "each suspension ends once");
    });
  };
}

Scenario it_is_claimed() {
  return scenario({[](Waiter& w) { w.wait(1); }, [](Waiter& w) { w.claim(0); }}, false);
}
Scenario it_is_claimed_twice() {
  return scenario(
      {[](Waiter& w) { w.wait(2); }, [](Waiter& w) { w.claim(0); }, [](Waiter& w) { w.claim(1); }},
      false);
}
Scenario it_is_cancelled() {
  return scenario({[](Waiter& w) { w.wait(0); }, [](Waiter& w) { w.cancel(); }}, true);
}
Scenario it_is_claimed_and_cancelled() {
  return scenario(
      {[](Waiter& w) { w.wait(1); }, [](Waiter& w) { w.claim(0); }, [](Waiter& w) { w.cancel(); }},
      true);
}

TEST(WordWeak, C1_ASuspensionEndsOnceAndItsEndIsSeen) {
  expect_proven(it_is_claimed());
  expect_proven(it_is_claimed_twice());
}

TEST(WordWeak, S6_ACancelEndsThisSuspensionOrTheNext) {
  expect_proven(it_is_cancelled());
  expect_proven(it_is_claimed_and_cancelled());
}

TEST(WordWeak, C6_NeedsEveryMemoryOrder) {
  if (!exhaustive()) GTEST_SKIP() << "sanitizers and emulators get a sample";
  const std::vector<Scenario> all{it_is_claimed(), it_is_cancelled(), it_is_claimed_twice(),
                                  it_is_claimed_and_cancelled()};
  const Mutation orders = mutate(all, weakenings, {.in = "word.hpp"});
  EXPECT_GE(orders.planted, 4U) << orders.noticed;
  EXPECT_EQ(orders.unnoticed, "");
}

TEST(WordWeak, C1_EveryChangeMustBeOne) {
  if (!exhaustive()) GTEST_SKIP() << "sanitizers and emulators get a sample";
  const std::vector<Scenario> all{it_is_claimed(), it_is_cancelled(), it_is_claimed_twice(),
                                  it_is_claimed_and_cancelled()};
  const Mutation parts = mutate(all, splits, {.in = "word.hpp"});
  EXPECT_GE(parts.planted, 3U) << parts.noticed;
  EXPECT_EQ(parts.unnoticed, "");
}

}  // namespace
}  // namespace weft::test::weak

/// The word of a wait under weak memory: every outcome of small scenarios, with every memory order
/// weakened and every change taken apart in turn.
#include <weft/wait/word.hpp>

#include "support/weak_memory/items.hpp"

#include <gtest/gtest.h>

namespace weft::test::weak {
namespace {

using Word = WaitWord<Atomic>;
using Parked = Word::Parked;

constexpr int by_cancel = -1;

/// A waiter that suspends so often, each time on so many objects. Each event that is given to an
/// object ends one suspension, or is still there in the end. Whoever ends a suspension goes on with
/// the waiter, as workers do.
template <int times, int objects_used>
struct Waiter {
  struct Object {
    Lock lock;
    Cell<bool> linked;
    Cell<int> ready;  // events that nobody was there for
    Cell<int> result;
  };
  Word word;
  Cell<Word::Phase> phase;
  Cell<int> number;   // of its suspension
  Cell<int> context;  // what it has left on its stack
  Cell<int> winner;
  Cell<int> reason;
  std::array<Object, 2> objects;
  int begun = 0;
  int ended = 0;
  int given = 0;
  int taken = 0;
  bool cancelled = false;

  void run() {
    while (begun < times && !cancelled) {
      ++begun;
      number.set(begun);
      phase.set(word.open());
      const bool won = arm_all();
      context.set(begun);
      const Parked how = won ? Parked::done : word.park();
      if (how == Parked::parked) return;  // and somebody else may be at it already
      if (how == Parked::cancelled) winner.set(by_cancel);
      finish();
    }
  }
  /// True: one was ready.
  bool arm_all() {
    for (int i = 0; i < objects_used; ++i) {
      Object& object = objects[static_cast<std::size_t>(i)];
      object.lock.lock();
      const bool ready = object.ready.get() > 0;
      const bool won = ready && word.claim(phase.get());
      if (won) {
        object.ready.set(object.ready.get() - 1);
        object.result.set(begun);
        winner.set(i);
        ++taken;
      }
      if (!ready) object.linked.set(true);
      object.lock.unlock();
      if (ready) return won;  // if not, another one has been given something
    }
    return false;
  }
  void finish() {
    check(context.get() == begun && ended == begun - 1, "each suspension ends once");
    ++ended;
    const int who = winner.get();
    if (who == by_cancel) {
      check(reason.get() == 1, "whoever is cancelled knows why");
      cancelled = true;
    } else {
      check(objects[static_cast<std::size_t>(who)].result.get() == begun, "the result is there");
    }
    for (int i = 0; i < objects_used; ++i) {
      if (i == who) continue;
      Object& object = objects[static_cast<std::size_t>(i)];
      object.lock.lock();
      object.linked.set(false);
      object.lock.unlock();
    }
    word.close();
  }

  void give(int i) {
    ++given;
    Object& object = objects[static_cast<std::size_t>(i)];
    object.lock.lock();
    bool claimed = false;
    if (object.linked.get()) {
      object.linked.set(false);
      claimed = word.claim(phase.get());
    }
    if (claimed) {
      object.result.set(number.get());
      winner.set(i);
      ++taken;
    } else {
      object.ready.set(object.ready.get() + 1);
    }
    object.lock.unlock();
    if (claimed && word.commit()) go_on();
  }
  void cancel() {
    reason.set(1);
    if (!word.cancel()) return;
    winner.set(by_cancel);
    if (word.commit()) go_on();
  }
  void go_on() {
    finish();
    run();
  }
};

/// `givers`: to which object each gives.
template <int times, int objects_used>
Scenario scenario(std::initializer_list<int> givers, bool canceller) {
  using W = Waiter<times, objects_used>;
  std::vector<std::function<void(W&)>> threads{[](W& w) { w.run(); }};
  for (const int i : givers) threads.push_back([i](W& w) { w.give(i); });
  if (canceller) threads.push_back([](W& w) { w.cancel(); });
  return [=](const Options& options) {
    return explore<W>(options, threads, [=](W& w) {
      int ready = 0;
      for (auto& object : w.objects) ready += object.ready.get();
      check(w.taken + ready == w.given, "an event ends one suspension, or is still there");
      check(w.ended == w.taken + (w.cancelled ? 1 : 0), "nothing else ends one");
      check(w.ended == times || (ready == 0 && !canceller) || w.cancelled,
            "nothing is missed, no cancel either");
    });
  };
}

std::vector<Scenario> all() {
  return {scenario<1, 1>({0}, false),     // claimed before or after it has parked
          scenario<1, 1>({}, true),       // cancelled, likewise
          scenario<1, 2>({0, 1}, false),  // by two at a time
          scenario<2, 1>({0}, true),      // the one that is not cancelled is claimed
          scenario<2, 2>({0, 1}, false),  // with what is left of the first when the second begins
          scenario<2, 1>({0, 0}, false)};
}

TEST(WordWeak, C1_EachSuspensionEndsOnceAndNothingIsMissed) {
  for (const Scenario& one : all()) expect_proven(one);
}

TEST(WordWeak, C6_NeedsEveryMemoryOrder) {
  if (!exhaustive()) GTEST_SKIP() << "sanitizers and emulators get a sample";
  const Mutation orders = mutate(all(), weakenings, {.in = "word.hpp"});
  EXPECT_GE(orders.planted, 4U) << orders.noticed;
  EXPECT_EQ(orders.unnoticed, "");
}

TEST(WordWeak, C1_EveryChangeMustBeOne) {
  if (!exhaustive()) GTEST_SKIP() << "sanitizers and emulators get a sample";
  const Mutation parts = mutate(all(), splits, {.in = "word.hpp"});
  EXPECT_GE(parts.planted, 3U) << parts.noticed;
  EXPECT_EQ(parts.unnoticed, "");
}

}  // namespace
}  // namespace weft::test::weak

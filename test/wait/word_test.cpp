// The Wait word by itself, without any engine: who claims, who resumes, and how often.
#include <weft/base/spinlock.hpp>
#include <weft/wait/wait.hpp>

#include "support/everywhere.hpp"

#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

class TestWait final : public Wait {
 public:
  TestWait() noexcept : Wait(Flow::thread) {}

  void suspend() override {}
  std::coroutine_handle<> suspend_coroutine(std::coroutine_handle<>, Recheck*) noexcept override {
    return std::noop_coroutine();
  }
  void give_way() override {}
  void requeue_coroutine(std::coroutine_handle<>, Recheck*) noexcept override {}
  void resume() noexcept override {
    resumed.fetch_add(1);
    if (on_resume != nullptr) on_resume(*this);
  }
  Io& io() const noexcept override { std::abort(); }

  std::atomic<int> resumed{0};
  void (*on_resume)(TestWait&) = nullptr;
};

/// Two threads that do the same round at the same time.
class Pair {
 public:
  template <class Mine, class Theirs>
  static void run(std::uint64_t rounds, Mine mine, Theirs theirs) {
    Pair pair;
    std::thread other([&] {
      for (std::uint64_t r = 1; r <= rounds; ++r) {
        pair.meet(pair.here_, pair.there_, r);
        theirs(r);
        pair.done_.store(r);
      }
    });
    for (std::uint64_t r = 1; r <= rounds; ++r) {
      mine.before(r);
      pair.meet(pair.there_, pair.here_, r);
      mine.during(r);
      spin([&] { return pair.done_.load() == r; });
      mine.after(r);
    }
    other.join();
  }

  template <class Condition>
  static void spin(Condition condition) {
    for (int i = 0; !condition(); ++i) {
      if (i > 1000) std::this_thread::yield();
    }
  }

 private:
  static void meet(std::atomic<std::uint64_t>& arrive, std::atomic<std::uint64_t>& other,
                   std::uint64_t round) {
    arrive.store(round);
    spin([&] { return other.load() >= round; });
  }
  alignas(64) std::atomic<std::uint64_t> here_{0};
  alignas(64) std::atomic<std::uint64_t> there_{0};
  alignas(64) std::atomic<std::uint64_t> done_{0};
};

std::uint64_t hammer_rounds() {
  return test::scaled(3'000, 30'000, 5'000'000);
}

TEST(Word, IsOpenFromOneOpeningToTheNext) {
  TestWait wait;
  Arm arm;
  wait.open(&arm, 1);
  EXPECT_FALSE(wait.claimed());
  EXPECT_EQ(wait.arm_count(), 1U);
  EXPECT_TRUE(wait.claim());
  EXPECT_TRUE(wait.claimed());
  wait.close();
  EXPECT_EQ(wait.arm_count(), 0U);
  wait.open(&arm, 1);
  EXPECT_FALSE(wait.claimed());
}

TEST(Word, C4_OneClaimPerOpening) {
  TestWait wait;
  for (int i = 0; i < 3; ++i) {
    wait.open(nullptr, 0);
    EXPECT_TRUE(wait.claim());
    EXPECT_FALSE(wait.claim());
    EXPECT_TRUE(wait.claimed());
    wait.close();
  }
}

TEST(Word, C1_CommitBeforeParkLetsTheParkerResume) {
  TestWait wait;
  wait.open(nullptr, 0);
  ASSERT_TRUE(wait.claim());
  wait.commit(3);
  EXPECT_EQ(wait.resumed, 0);
  EXPECT_FALSE(wait.park());
  EXPECT_EQ(wait.winner(), 3);
  wait.close();
}

TEST(Word, C1_ParkBeforeCommitLetsTheCommitterResume) {
  TestWait wait;
  wait.open(nullptr, 0);
  EXPECT_TRUE(wait.park());
  EXPECT_EQ(wait.resumed, 0);
  ASSERT_TRUE(wait.claim());
  EXPECT_EQ(wait.resumed, 0) << "a claim alone must not resume";
  wait.commit(5);
  EXPECT_EQ(wait.resumed, 1);
  EXPECT_EQ(wait.winner(), 5);
  wait.close();
}

TEST(Word, AParkedWordCanStillBeClaimedOnlyOnce) {
  TestWait wait;
  wait.open(nullptr, 0);
  ASSERT_TRUE(wait.park());
  EXPECT_TRUE(wait.claim());
  EXPECT_FALSE(wait.claim());
  wait.commit(0);
  EXPECT_FALSE(wait.claim()) << "it is over, and the arms are of the suspension before";
  wait.close();
}

TEST(Word, C1_WhatIsClaimedEarlyIsResumedByTheCommitterIfItIsParkedByThen) {
  TestWait wait;
  wait.open(nullptr, 0);
  ASSERT_TRUE(wait.claim());
  EXPECT_TRUE(wait.park()) << "the result is not there yet";
  EXPECT_FALSE(wait.claim());
  wait.commit(4);
  EXPECT_EQ(wait.resumed, 1);
  EXPECT_FALSE(wait.claim());
  wait.close();
  wait.open(nullptr, 0);
  EXPECT_TRUE(wait.park());
  EXPECT_TRUE(wait.claim());
}

TEST(Word, S6_ACancelEndsTheWaitOfWhoeverIsParked) {
  TestWait wait;
  wait.open(nullptr, 0);
  ASSERT_TRUE(wait.park());
  EXPECT_TRUE(wait.cancel());
  EXPECT_FALSE(wait.claim());
  EXPECT_FALSE(wait.cancel()) << "once is enough";
  EXPECT_EQ(wait.resumed, 0);
  wait.commit(Wait::by_cancel);
  EXPECT_EQ(wait.resumed, 1);
  EXPECT_EQ(wait.winner(), Wait::by_cancel);
  wait.close();
}

TEST(Word, S6_ACancelIsFoundByTheNextPark) {
  TestWait wait;
  CancelFlag flag;
  wait.obey(flag);
  for (const bool open_before : {false, true}) {
    if (open_before) wait.open(nullptr, 0);
    flag.set(CancelReason::killed);
    EXPECT_FALSE(wait.cancel());
    if (!open_before) wait.open(nullptr, 0);
    EXPECT_FALSE(wait.park());
    EXPECT_EQ(wait.winner(), Wait::by_cancel);
    EXPECT_FALSE(wait.claim());
    wait.close();
  }
  // Sticky, until it obeys another scope.
  wait.open(nullptr, 0);
  EXPECT_FALSE(wait.park());
  wait.close();
  CancelFlag other;
  wait.obey(other);
  wait.open(nullptr, 0);
  EXPECT_TRUE(wait.park());
  EXPECT_TRUE(wait.claim());
  wait.commit(1);
  wait.close();
  wait.obey(flag);
  wait.open(nullptr, 0);
  EXPECT_FALSE(wait.park());
}

TEST(Word, S6_WhatHasBeenClaimedIsNotCancelledAnyMore) {
  TestWait wait;
  wait.open(nullptr, 0);
  ASSERT_TRUE(wait.claim());
  EXPECT_FALSE(wait.cancel());
  EXPECT_TRUE(wait.park()) << "a commit is on its way";
  EXPECT_FALSE(wait.cancel());
  wait.commit(7);
  EXPECT_EQ(wait.resumed, 1);
  EXPECT_EQ(wait.winner(), 7);
  wait.close();
  wait.open(nullptr, 0);
  EXPECT_FALSE(wait.park()) << "but the next one is";
  EXPECT_EQ(wait.winner(), Wait::by_cancel);
}

TEST(Word, ArmsSpeakForTheirWait) {
  TestWait wait;
  Arm arm;
  arm.wait = &wait;
  wait.open(&arm, 1);
  EXPECT_FALSE(arm.claimed());
  EXPECT_TRUE(arm.claim());
  EXPECT_TRUE(arm.claimed());
  EXPECT_FALSE(arm.claim());
  wait.close();
}

TEST(Word, ObeysTheFlagItWasGiven) {
  TestWait wait;
  EXPECT_EQ(wait.cancel_reason(), CancelReason::none);
  wait.throw_if_cancelled();
  CancelFlag flag;
  wait.obey(flag);
  EXPECT_EQ(wait.obeyed(), &flag);
  wait.throw_if_cancelled();
  flag.set(CancelReason::shutdown);
  EXPECT_TRUE(wait.cancelled()) << "also before the mark is there";
  EXPECT_EQ(wait.cancel_reason(), CancelReason::shutdown);
  EXPECT_THROW(wait.throw_if_cancelled(), Cancelled);
}

TEST(WakeList, CommitsInOrderOutsideOfTheLock) {
  static std::vector<TestWait*> order;
  order.clear();
  TestWait waits[3];
  for (TestWait& wait : waits) {
    wait.on_resume = [](TestWait& self) { order.push_back(&self); };
    wait.open(nullptr, 0);
    ASSERT_TRUE(wait.park());
  }
  {
    WakeList wakes;
    EXPECT_TRUE(wakes.empty());
    for (const int i : {2, 0, 1}) {
      ASSERT_TRUE(waits[i].claim());
      wakes.add(waits[i], static_cast<std::uint16_t>(i));
    }
    EXPECT_FALSE(wakes.empty());
    EXPECT_TRUE(order.empty()) << "nobody may be resumed before commit()";
  }
  EXPECT_EQ(order, (std::vector<TestWait*>{&waits[2], &waits[0], &waits[1]}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(waits[i].winner(), i);
}

TEST(WakeList, C1_AWokenWaiterMayBeGoneAtOnce) {
  WakeList wakes;
  for (int i = 0; i < 3; ++i) {
    auto* wait = new TestWait;
    wait->on_resume = [](TestWait& self) { delete &self; };
    wait->open(nullptr, 0);
    ASSERT_TRUE(wait->park());
    ASSERT_TRUE(wait->claim());
    wakes.add(*wait, 0);
  }
  wakes.commit();
  EXPECT_TRUE(wakes.empty());
  wakes.commit();
}

// Waiter against one claimant, who writes a plain variable: exactly one resumption, and the result
// is there.
TEST(Word, C1_HammerParkAgainstCommit) {
  TestWait wait;
  std::uint64_t result = 0;
  std::uint64_t bad = 0;
  std::uint64_t resumed_by_waiter = 0;
  struct Mine {
    TestWait& wait;
    std::uint64_t& result;
    std::uint64_t& bad;
    std::uint64_t& by_waiter;
    void before(std::uint64_t) {
      wait.resumed = 0;
      wait.open(nullptr, 0);
    }
    void during(std::uint64_t r) {
      if (!wait.park()) {
        ++by_waiter;
        wait.resume();
      }
      Pair::spin([&] { return wait.resumed.load() != 0; });
      if (result != r || wait.winner() != r % 1000) ++bad;
    }
    void after(std::uint64_t) {
      if (wait.resumed != 1) ++bad;
      wait.close();
    }
  };
  Pair::run(hammer_rounds(), Mine{wait, result, bad, resumed_by_waiter}, [&](std::uint64_t r) {
    if (!wait.claim()) {
      std::abort();
    }
    result = r;
    wait.commit(static_cast<std::uint16_t>(r % 1000));
  });
  EXPECT_EQ(bad, 0U);
  if (hammer_rounds() < 1'000'000) return;
  EXPECT_GT(resumed_by_waiter, 0U) << "one of the two orders was never seen";
  EXPECT_LT(resumed_by_waiter, hammer_rounds()) << "one of the two orders was never seen";
}

// Two claimants: exactly one wins.
TEST(Word, C4_HammerExactlyOneClaimWins) {
  TestWait wait;
  std::uint64_t bad = 0;
  std::uint64_t wins[2] = {0, 0};
  bool won[2] = {false, false};
  struct Mine {
    TestWait& wait;
    std::uint64_t& bad;
    std::uint64_t (&wins)[2];
    bool (&won)[2];
    void before(std::uint64_t) { wait.open(nullptr, 0); }
    void during(std::uint64_t) { won[0] = wait.claim(); }
    void after(std::uint64_t) {
      if (won[0] == won[1]) ++bad;
      ++wins[won[0] ? 0 : 1];
      wait.close();
    }
  };
  Pair::run(hammer_rounds(), Mine{wait, bad, wins, won},
            [&](std::uint64_t) { won[1] = wait.claim(); });
  EXPECT_EQ(bad, 0U);
  EXPECT_EQ(wins[0] + wins[1], hammer_rounds());
}

// A canceller at any time, and a claimant of the object, or none: each round ends, once, and a
// cancel that does not end it ends the next.
void hammer_cancels(bool with_claimant) {
  alignas(64) TestWait wait;
  alignas(64) CancelFlag flag;
  const CancelFlag calm;
  Spinlock object;
  bool linked = false;
  std::uint64_t bad = 0;
  std::uint64_t cancelled = 0;
  struct Mine {
    TestWait& wait;
    CancelFlag& flag;
    const CancelFlag& calm;
    Spinlock& object;
    bool& linked;
    bool with_claimant;
    std::uint64_t& bad;
    std::uint64_t& cancelled;
    void before(std::uint64_t) {
      flag.set(CancelReason::none);
      wait.obey(flag);
      linked = false;
    }
    void during(std::uint64_t r) {
      for (std::uint64_t k = r / 32 % 32; k > 0; --k) static_cast<void>(flag.reason());
      bool cancel_won = false;
      for (int round = 0; !cancel_won; ++round) {
        if (round > 1) ++bad;
        wait.resumed = 0;
        wait.open(nullptr, 0);
        if (with_claimant && round == 0) {
          const std::lock_guard guard(object);
          linked = true;
        }
        if (!wait.park()) wait.resume();
        Pair::spin([&] { return wait.resumed.load() != 0; });
        if (wait.resumed != 1) ++bad;
        cancel_won = wait.winner() == Wait::by_cancel;
        if (!cancel_won && wait.winner() != 1) ++bad;
        if (cancel_won && flag.reason() == CancelReason::none) ++bad;
        {
          const std::lock_guard guard(object);
          linked = false;
        }
        wait.close();
      }
      ++cancelled;
    }
    void after(std::uint64_t) { wait.obey(calm); }
  };
  Pair::run(hammer_rounds(), Mine{wait, flag, calm, object, linked, with_claimant, bad, cancelled},
            [&](std::uint64_t r) {
              for (std::uint64_t k = 1 + r % 32; k > 0; --k) static_cast<void>(wait.claimed());
              if (with_claimant) {
                bool won = false;
                {
                  const std::lock_guard guard(object);
                  won = linked && wait.claim();
                }
                if (won) wait.commit(1);
              }
              flag.set(CancelReason::killed);
              if (wait.cancel()) wait.commit(Wait::by_cancel);
            });
  EXPECT_EQ(bad, 0U);
  EXPECT_EQ(cancelled, hammer_rounds());
}
TEST(Word, S6_HammerACancelIsNeverMissed) {
  hammer_cancels(false);
}
TEST(Word, S6_HammerACancelAgainstAClaimIsNeverMissed) {
  hammer_cancels(true);
}

// A select's own claim (it found a case ready while publishing) against a claimant on another
// thread that commits, and a waiter that parks only if it lost.
TEST(Word, C16_HammerOwnClaimAgainstACommitter) {
  TestWait wait;
  std::uint64_t bad = 0;
  bool theirs = false;
  struct Mine {
    TestWait& wait;
    std::uint64_t& bad;
    bool& theirs;
    bool own = false;
    void before(std::uint64_t) {
      wait.resumed = 0;
      wait.open(nullptr, 0);
    }
    void during(std::uint64_t) {
      own = wait.claim();
      if (own) {
        wait.set_winner(1);
        return;
      }
      if (!wait.park()) wait.resume();
      Pair::spin([&] { return wait.resumed.load() != 0; });
    }
    void after(std::uint64_t) {
      if (own == theirs) ++bad;
      if (wait.winner() != (own ? 1 : 2)) ++bad;
      if (wait.resumed != (own ? 0 : 1)) ++bad;
      wait.close();
    }
  };
  Pair::run(hammer_rounds(), Mine{wait, bad, theirs}, [&](std::uint64_t) {
    theirs = wait.claim();
    if (theirs) wait.commit(2);
  });
  EXPECT_EQ(bad, 0U);
}

TEST(ObjectIds, AreUniqueAndRising) {
  ObjectId last = new_object_id();
  EXPECT_NE(last, ObjectId::none);
  for (int i = 0; i < 100; ++i) {
    const ObjectId next = new_object_id();
    EXPECT_GT(next, last);
    last = next;
  }
}

}  // namespace
}  // namespace weft

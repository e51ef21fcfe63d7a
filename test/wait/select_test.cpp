// select: the protocol between a waiter and the objects it waits on, seen from the objects.
#include "support/everywhere.hpp"

#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace weft::test {
namespace {

/// A queue of ints that writes down what is done to it, and calls hooks in awkward moments.
class Gate {
 public:
  explicit Gate(std::vector<std::string>* log = nullptr, std::string name = {})
      : log_(log), name_(std::move(name)) {}

  /// To the first waiter that can be claimed; otherwise it is kept.
  void give(int value) {
    WakeList wakes;
    std::lock_guard guard(lock_);
    while (Arm* arm = waiters_.pop_front()) {
      if (!arm->claim()) continue;
      *static_cast<int*>(arm->slot) = value;
      wakes.add(*arm);
      return;
    }
    values_.push_back(value);
  }
  [[nodiscard]] std::size_t kept() const {
    std::lock_guard guard(lock_);
    return values_.size();
  }
  void clear() {
    std::lock_guard guard(lock_);
    values_.clear();
  }
  [[nodiscard]] std::size_t linked() const {
    std::lock_guard guard(lock_);
    std::size_t n = 0;
    for (Arm* a = waiters_.front(); a != nullptr; a = waiters_.next(*a)) ++n;
    return n;
  }

  class TakeOp {
   public:
    using Result = int;
    static constexpr Reason reason{"gate"};

    explicit TakeOp(Gate& gate) : gate_(gate) {}
    ObjectId object() const noexcept { return gate_.id_; }
    bool try_now() {
      gate_.note("poll");
      std::lock_guard guard(gate_.lock_);
      return gate_.pop_locked(value_);
    }
    Armed arm(Arm& arm) {
      gate_.note("arm");
      if (gate_.before_arm) std::exchange(gate_.before_arm, nullptr)();
      if (gate_.retries > 0) return vanishing_peer(arm);
      std::lock_guard guard(gate_.lock_);
      if (!gate_.values_.empty()) {
        if (!arm.claim()) return Armed::lost;
        gate_.pop_locked(value_);
        return Armed::won;
      }
      arm.slot = &value_;
      gate_.waiters_.push_back(arm);
      return Armed::waiting;
    }
    void disarm(Arm& arm) noexcept {
      gate_.note("disarm");
      std::lock_guard guard(gate_.lock_);
      arm.unlink();
    }
    int take() {
      gate_.note("take");
      return value_;
    }

   private:
    /// A rendezvous whose peer is gone by the time we have claimed ourselves.
    Armed vanishing_peer(Arm& arm) {
      if (!arm.claim()) return Armed::lost;
      --gate_.retries;
      if (gate_.between_claims) gate_.between_claims();
      return Armed::retry;
    }
    Gate& gate_;
    int value_ = -1;
  };
  [[nodiscard]] TakeOp take_op() { return TakeOp(*this); }

  std::function<void()> before_arm;
  std::function<void()> between_claims;
  int retries = 0;

 private:
  bool pop_locked(int& value) {
    if (values_.empty()) return false;
    value = values_.front();
    values_.pop_front();
    return true;
  }
  void note(const char* what) const {
    if (log_ != nullptr) log_->push_back(name_ + "." + what);
  }

  const ObjectId id_ = new_object_id();
  std::vector<std::string>* log_;
  std::string name_;
  mutable Spinlock lock_;
  std::deque<int> values_;
  List<Arm> waiters_;
};
static_assert(LeafOp<Gate::TakeOp>);

using Log = std::vector<std::string>;

EVERYWHERE(Select, C16_PollsAllThenPublishesInObjectOrderThenWithdraws) {
  Log log;
  Gate a(&log, "a");
  Gate b(&log, "b");
  Gate c(&log, "c");
  const auto r = co_await first_of(c.take_op(), a.take_op(), b.take_op(), sleep_op(1ms));
  EXPECT_EQ(r.index(), 3U);
  EXPECT_EQ(log, (Log{"c.poll", "a.poll", "b.poll",  // in the order written
                      "a.arm", "b.arm", "c.arm",     // in the order of the objects
                      "c.disarm", "a.disarm", "b.disarm"}));
}

EVERYWHERE(Select, C16_ObjectOrderCrossesNesting) {
  Log log;
  Gate a(&log, "a");
  Gate b(&log, "b");
  Gate c(&log, "c");
  Gate d(&log, "d");
  auto same = [](int n) { return n; };
  const auto r = co_await first_of(first_of(d.take_op(), b.take_op()),
                                   first_of(map(c.take_op(), same), a.take_op()), sleep_op(1ms));
  EXPECT_EQ(r.index(), 2U);
  EXPECT_EQ(Log(log.begin() + 4, log.begin() + 8), (Log{"a.arm", "b.arm", "c.arm", "d.arm"}));
}

EVERYWHERE(Select, C16_AReadyCaseIsTakenWithoutPublishing) {
  Log log;
  Gate a(&log, "a");
  Gate b(&log, "b");
  b.give(5);
  const auto r = co_await first_of(a.take_op(), b.take_op());
  EXPECT_EQ(std::get<1>(r), 5);
  EXPECT_EQ(log, (Log{"a.poll", "b.poll", "b.take"}));
}

CONCURRENT(Select, C16_LosersAreGoneBeforeSelectReturns) {
  Gate gates[3];
  for (int winner = 0; winner < 3; ++winner) {
    Scope scope;
    std::atomic<bool> returned{false};
    here.spawn(scope, [&]() -> Coro<> {
      const auto r = co_await race(gates[0].take_op(), gates[1].take_op(), gates[2].take_op());
      EXPECT_EQ(r.index(), static_cast<std::size_t>(winner));
      for (const Gate& gate : gates) EXPECT_EQ(gate.linked(), 0U);
      returned = true;
    });
    co_await all_others_wait();
    for (const Gate& gate : gates) EXPECT_EQ(gate.linked(), 1U);
    gates[winner].give(1);
    EXPECT_TRUE(here.parallel() || !returned) << "give() must not run the waiter";
    // The winner is decided by the claim: what comes later stays where it is.
    gates[(winner + 1) % 3].give(2);
    co_await scope.joined();
    EXPECT_TRUE(returned);
    EXPECT_EQ(gates[(winner + 1) % 3].kept(), 1U) << "a value was given to a wait that had lost";
    gates[(winner + 1) % 3].clear();
  }
}

CONCURRENT(Select, C16_CancelWithdrawsEverything) {
  Gate gates[3];
  Scope scope;
  bool after = false;
  auto h = here.spawn(scope, [&]() -> Coro<> {
    try {
      co_await race(gates[0].take_op(), gates[1].take_op(), gates[2].take_op(), sleep_op(1h));
      after = true;
    } catch (const Cancelled& c) {
      EXPECT_EQ(c.reason(), CancelReason::killed);
      for (const Gate& gate : gates) EXPECT_EQ(gate.linked(), 0U);
      throw;
    }
  });
  co_await all_others_wait();
  const Instant start = now();
  h.cancel();
  gates[1].give(7);  // too late: the wait belongs to the canceller
  EXPECT_TRUE((co_await h.join_op()).cancelled());
  EXPECT_FALSE(after);
  EXPECT_EQ(gates[1].kept(), 1U) << "a value was lost in a cancelled wait";
  EXPECT_EQ(now(), start);
}

// The value comes first, then the cancellation: the value wins, and the next wait is cancelled.
CONCURRENT(Select, S6_AValueThatHasWonIsDeliveredAlthoughCancelled) {
  Gate gate;
  Scope scope;
  int got = 0;
  bool later = false;
  auto h = here.spawn(scope, [&]() -> Coro<> {
    got = co_await gate.take_op();
    co_await sleep_op(1ms);
    later = true;
  });
  co_await all_others_wait();
  gate.give(9);
  h.cancel();
  EXPECT_TRUE((co_await h.join_op()).cancelled());
  EXPECT_EQ(got, 9);
  EXPECT_FALSE(later);
}

EVERYWHERE(Select, ACaseThatBecomesReadyWhilePublishingWins) {
  Log log;
  Gate a(&log, "a");
  Gate b(&log, "b");
  Gate c(&log, "c");
  b.before_arm = [&] { b.give(3); };
  const auto r = co_await first_of(a.take_op(), b.take_op(), c.take_op());
  EXPECT_EQ(std::get<1>(r), 3);
  EXPECT_EQ(Log(log.begin() + 3, log.end()), (Log{"a.arm", "b.arm", "a.disarm", "b.take"}))
      << "c must not be published, a must be withdrawn";
  EXPECT_EQ(a.linked() + b.linked() + c.linked(), 0U);
}

// While b is being published, a's value arrives and claims us; b is ready as well but has lost.
EVERYWHERE(Select, AnEarlierCaseMayWinWhilePublishing) {
  Gate a;
  Gate b;
  b.before_arm = [&] {
    a.give(1);
    b.give(2);
  };
  const auto r = co_await first_of(a.take_op(), b.take_op());
  EXPECT_EQ(std::get<0>(r), 1);
  EXPECT_EQ(b.kept(), 1U) << "the loser's value must stay";
  EXPECT_EQ(a.linked() + b.linked(), 0U);
}

EVERYWHERE(Select, RetryWithdrawsAndPublishesAgain) {
  Log log;
  Gate a(&log, "a");
  Gate b(&log, "b");
  b.retries = 2;
  const auto r = co_await first_of(b.take_op(), a.take_op(), sleep_op(1ms));
  EXPECT_EQ(r.index(), 2U);
  EXPECT_EQ(now(), Instant(1ms)) << "a retry must not start the sleep over";
  EXPECT_EQ(Log(log.begin() + 2, log.end()),
            (Log{"a.arm", "b.arm", "a.disarm", "a.arm", "b.arm", "a.disarm", "a.arm", "b.arm",
                 "b.disarm", "a.disarm"}));
}

// In the middle of a retry our wait is claimed by ourselves: what comes then is not for us yet, but
// must be found by the next attempt.
EVERYWHERE(Select, AValueThatComesDuringARetryIsFoundAfterwards) {
  Gate a;
  Gate b;
  b.retries = 1;
  b.between_claims = [&] { a.give(4); };
  const auto r = co_await first_of(a.take_op(), b.take_op());
  EXPECT_EQ(std::get<0>(r), 4);
  EXPECT_EQ(a.kept(), 0U);
}

EVERYWHERE(Select, S6_ACancelThatComesDuringARetryIsSeen) {
  Gate a;
  Gate b;
  b.retries = 1;
  Scope scope;
  bool after = false;
  auto h = here.spawn(scope, [&]() -> Coro<> {
    Task* self = this_task();
    b.between_claims = [self] { self->cancel_tree(CancelReason::killed); };
    co_await first_of(a.take_op(), b.take_op());
    after = true;
  });
  const auto o = co_await h.join_op();
  EXPECT_TRUE(o.cancelled());
  EXPECT_EQ(o.reason(), CancelReason::killed);
  EXPECT_FALSE(after);
  EXPECT_EQ(a.linked() + b.linked(), 0U);
  co_await scope.joined();
}

EVERYWHERE(Select, S6_ACancelWhilePublishingIsSeen) {
  Gate a;
  Gate b;
  Scope scope;
  bool after = false;
  auto h = here.spawn(scope, [&]() -> Coro<> {
    Task* self = this_task();
    b.before_arm = [self] { self->cancel_tree(CancelReason::killed); };
    co_await first_of(a.take_op(), b.take_op());
    after = true;
  });
  EXPECT_TRUE((co_await h.join_op()).cancelled());
  EXPECT_FALSE(after);
  EXPECT_EQ(a.linked() + b.linked(), 0U);
  co_await scope.joined();
}

EVERYWHERE(Select, S6_ACancelledTaskTakesNothing) {
  Gate a;
  a.give(1);
  Scope scope;
  auto h = here.spawn(scope, [&]() -> Coro<> {
    this_task()->cancel_tree(CancelReason::killed);
    co_await a.take_op();
  });
  EXPECT_TRUE((co_await h.join_op()).cancelled());
  EXPECT_EQ(a.kept(), 1U);
  co_await scope.joined();
}

// A give and a cancel from two other threads meet one wait. Whoever loses must leave no trace.
TEST(Select, S6_CancelRacesWithCompletionAcrossThreads) {
  const std::uint64_t rounds = scaled(300, 20'000, 200'000);
  Loop loop({.on_deadlock = OnDeadlock::wait});
  Gate gate;
  std::atomic<std::uint64_t> round{0};
  std::atomic<std::uint64_t> finished{0};
  JoinHandle<int>* target = nullptr;
  auto helper = [&](auto act) {
    return std::thread([&, act] {
      for (std::uint64_t r = 1; r <= rounds; ++r) {
        while (round.load() != r) std::this_thread::yield();
        act(r);
        finished.fetch_add(1);
      }
    });
  };
  std::thread giver = helper([&](std::uint64_t r) { gate.give(static_cast<int>(r)); });
  std::thread canceller = helper([&](std::uint64_t) { target->cancel(); });
  std::uint64_t values = 0;
  loop.run([&] {
    Scope scope;
    for (std::uint64_t r = 1; r <= rounds; ++r) {
      auto h = r % 2 == 0 ? scope.spawn([&] { return perform(gate.take_op()); })
                          : scope.spawn([&]() -> Coro<int> { co_return co_await gate.take_op(); });
      if (r % 3 == 0) yield();
      target = &h;
      round.store(r);
      h.wait();
      while (finished.load() != 2 * r) std::this_thread::yield();
      const Outcome<int> o = h.join();
      ASSERT_FALSE(o.failed());
      if (o.ok()) {
        ++values;
        ASSERT_EQ(o.value(), static_cast<int>(r));
      }
      ASSERT_EQ(gate.kept(), o.ok() ? 0U : 1U) << "round " << r;
      ASSERT_EQ(gate.linked(), 0U);
      gate.clear();
    }
  });
  giver.join();
  canceller.join();
  RecordProperty("values", std::to_string(values));
}

// Three threads, each offering and asking on the same two rendezvous in opposite orders: real
// retries. Everybody must finish, and everything sent must be received.
TEST(Select, C16_CrossedSelectsOnPlainThreadsTerminateAndConserve) {
  const int rounds = static_cast<int>(scaled(100, 3'000, 30'000));
  Channel<int> left;
  Channel<int> right;
  std::atomic<std::int64_t> balance{0};
  std::atomic<int> moves{0};
  auto partner = [&](bool flipped) {
    Channel<int>& a = flipped ? right : left;
    Channel<int>& b = flipped ? left : right;
    for (int i = 1;; ++i) {
      const auto r = select(a.send_op(i), b.recv_op());
      if (r.index() == 0) {
        if (!std::get<0>(r)) return;
        balance.fetch_add(i);
      } else {
        if (!std::get<1>(r)) return;
        balance.fetch_sub(*std::get<1>(r));
      }
      if (moves.fetch_add(1) + 1 == rounds) {
        left.close();
        right.close();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) threads.emplace_back(partner, t % 2 == 1);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(balance.load(), 0) << "a value was lost or received twice";
}

}  // namespace
}  // namespace weft::test

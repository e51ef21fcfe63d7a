// Operations whose wakers can only hint: woken, they look themselves, and wait again if there is
// nothing.
#include <weft/wait/await.hpp>

#include "support/everywhere.hpp"

#include <atomic>
#include <mutex>

using namespace weft;
using namespace weft::test;

namespace {

/// A heap of goods. Wakers announce more than there is.
class Counter {
 public:
  class TakeOp {
   public:
    using Result = int;
    static constexpr Reason reason{"goods"};
    static constexpr bool outside = true;
    TakeOp(Counter& counter, int wanted) : counter_(counter), wanted_(wanted) {}
    ObjectId object() const { return counter_.id_; }
    bool try_now() noexcept { return collect(); }
    Armed arm(Arm& arm) {
      if (counter_.fail_arming) throw std::runtime_error("no");
      ++counter_.armed;
      std::lock_guard guard(counter_.lock_);
      counter_.waiting_.push_back(arm);
      return Armed::waiting;
    }
    void disarm(Arm& arm) noexcept {
      std::lock_guard guard(counter_.lock_);
      arm.unlink();
    }
    bool confirm() noexcept {
      ++counter_.confirmed;
      return collect();
    }
    int take() { return got_; }

   private:
    bool collect() noexcept {
      std::lock_guard guard(counter_.lock_);
      const int step = std::min(wanted_ - got_, counter_.goods_);
      counter_.goods_ -= step;
      got_ += step;
      return got_ == wanted_;
    }
    Counter& counter_;
    int wanted_;
    int got_ = 0;
  };

  TakeOp take_op(int wanted) { return {*this, wanted}; }
  void add(int goods) {
    std::lock_guard guard(lock_);
    goods_ += goods;
  }
  void announce() {
    WakeList wakes;
    std::lock_guard guard(lock_);
    while (Arm* arm = waiting_.pop_front()) {
      if (arm->claim()) wakes.add(*arm);
    }
  }

  std::atomic<int> armed{0};
  std::atomic<int> confirmed{0};
  std::atomic<bool> fail_arming{false};

 private:
  const ObjectId id_ = new_object_id();
  Spinlock lock_;
  int goods_ = 0;
  List<Arm> waiting_;
};

CONCURRENT(Confirm, S4_FalseAlarmsAreSleptThrough) {
  Counter counter;
  Scope scope;
  auto taker = here.spawn(scope, [&]() -> Coro<int> { co_return co_await counter.take_op(3); });
  for (int i = 0; i < 5; ++i) {
    co_await sleep_op(1ms);
    counter.announce();
  }
  co_await sleep_op(1ms);
  EXPECT_FALSE(taker.done());
  EXPECT_EQ(counter.confirmed, 5);
  EXPECT_EQ(counter.armed, 6);
  for (int i = 0; i < 3; ++i) {  // in parts: each alarm brings one
    counter.add(1);
    counter.announce();
    co_await sleep_op(1ms);
  }
  EXPECT_EQ((co_await taker.join_op()).value(), 3);
}

CONCURRENT(Confirm, C16_ASelectSurvivesTheFalseAlarmOfOneCase) {
  Counter counter;
  Channel<int> channel;
  Scope scope;
  auto chooser = here.spawn(scope, [&]() -> Coro<std::size_t> {
    auto won = co_await race(map(counter.take_op(1), [](int n) { return n * 10; }),
                             channel.recv_op(), sleep_op(1h));
    co_return won.index();
  });
  co_await sleep_op(1ms);
  counter.announce();
  co_await sleep_op(1ms);
  counter.announce();
  co_await sleep_op(1ms);
  EXPECT_FALSE(chooser.done());
  co_await channel.send_op(7);
  EXPECT_EQ((co_await chooser.join_op()).value(), 1U);
}

CONCURRENT(Confirm, F9_CancelledBetweenAlarms) {
  Counter counter;
  Scope scope;
  auto taker = here.spawn(scope, [&]() -> Coro<int> { co_return co_await counter.take_op(2); });
  co_await sleep_op(1ms);
  counter.add(1);
  counter.announce();
  co_await sleep_op(1ms);
  taker.cancel();
  EXPECT_TRUE((co_await taker.join_op()).cancelled());
}

CONCURRENT(Confirm, TimeoutsDoNotStartOver) {
  Counter counter;
  Scope scope;
  const Instant start = now();
  auto taker = here.spawn(scope, [&]() -> Coro<bool> {
    co_return (co_await timeout(counter.take_op(1), 10ms)).has_value();
  });
  for (int i = 0; i < 8; ++i) {
    co_await sleep_op(2ms);
    counter.announce();
  }
  EXPECT_FALSE((co_await taker.join_op()).value());
  EXPECT_EQ(now() - start, 16ms);  // it ended in between: at 10 ms
}

CONCURRENT(Confirm, AnErrorWhilePublishingAgainReachesTheWaiter) {
  Counter counter;
  Scope scope({.on_failure = OnFailure::isolate});
  auto taker = here.spawn(scope, [&]() -> Coro<int> { co_return co_await counter.take_op(1); });
  co_await sleep_op(1ms);
  counter.fail_arming = true;
  counter.announce();
  const auto outcome = co_await taker.join_op();
  EXPECT_TRUE(outcome.failed());
  EXPECT_EQ(describe(outcome.error()), "no");
}

EVERYWHERE(Confirm, ReadyAtOnceNeedsNoSuspension) {
  Counter counter;
  counter.add(2);
  EXPECT_EQ(co_await counter.take_op(2), 2);
  EXPECT_EQ(counter.armed, 0);
}

// How often the other one gets its turn: that says something only if there is one thread for both.
ONE_AFTER_ANOTHER(Confirm, C25_AlwaysReadyStillGivesWay) {
  Counter counter;
  counter.add(1'000'000);
  Scope scope;
  int others = 0;
  auto other = here.spawn(scope, [&]() -> Coro<> {
    for (;;) {
      co_await next_turn();
      ++others;
    }
  });
  for (int i = 0; i < 6'400; ++i) co_await counter.take_op(1);
  EXPECT_EQ(counter.armed, 0);
  EXPECT_GE(others, 90);
  EXPECT_LE(others, 110);
  other.cancel();
  co_await other.join_op();
}

}  // namespace

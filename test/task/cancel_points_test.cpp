// Cancellation at every suspension point. Each scenario is run again and again, and its task is
// cancelled at the n-th suspension of anything in it, for n = 0, 1, 2, ... until it gets through.
// After each run nothing may be left, nothing may be lost, and no code may have run that should
// not have.
#include "task/cancel_scenarios.hpp"

#include <atomic>
#include <functional>
#include <thread>

namespace weft::test {
namespace {

enum class Moment {
  leaving,  // between leaving the stack and parking, as another thread might
  parked,   // later, by a task
};

/// Counts the suspensions of everybody but the first two tasks, who belong to the harness.
class Counter final : public Observer {
 public:
  Counter(int at, std::function<void()> act) : at_(at), act_(std::move(act)) {}
  void on_edge(const Task& task, TaskState from, TaskState to) noexcept override {
    if (task.tid() <= 2 || from != TaskState::running || to == TaskState::complete) return;
    if (++count_ == at_) act_();
  }
  [[nodiscard]] bool reached() const { return count_ >= at_; }

 private:
  const int at_;
  int count_ = 0;
  std::function<void()> act_;
};

/// Runs a scenario and cancels it at its n-th suspension. False: it had fewer.
bool run_once(const Scenario& scenario, Kind kind, Moment moment, int n, std::uint64_t seed) {
  SCOPED_TRACE(std::string(scenario.name) + (kind == Kind::fiber ? " fiber" : " coroutine") +
               (moment == Moment::leaving ? " leaving" : " parked") + " n=" + std::to_string(n) +
               " seed=" + std::to_string(seed));
  const auto before = live_allocations();
  bool reached = false;
  {
    Loop loop({.kernel = make_virtual_kernel(), .on_deadlock = OnDeadlock::fail});
    Here here(Engine::loop, kind, loop);
    Env env(here, seed, 1ms);
    Parker bell;
    std::function<void()> kill;
    Counter counter(n, [&] { moment == Moment::leaving ? kill() : bell.unpark(); });
    bool over = false;
    loop.observe(&counter);
    loop.run([&]() -> Coro<> {
      Scope scope({.on_failure = OnFailure::isolate});
      scope.spawn([&] {
        bell.park_if([] { return true; });
        if (!over) kill();
      });
      auto victim = here.spawn(scope, [&]() -> Coro<> { return scenario.body(env); });
      kill = [&] {
        env.cancelled = true;
        victim.cancel(CancelReason::killed);
      };
      if (n == 0) kill();
      const auto o = co_await victim.join_op();
      over = true;
      bell.unpark();
      EXPECT_TRUE(o.ok() || o.reason() == CancelReason::killed) << describe(o.error());
      EXPECT_TRUE(env.cancelled || o.ok());
      co_await scope.joined();
    });
    reached = counter.reached();
    for (const auto& [tid, count] : env.passes) {
      EXPECT_LE(count, 1) << "tid " << tid << " went on after it was cancelled";
    }
    EXPECT_EQ(env.alive, 0) << "a destructor did not run";
    EXPECT_EQ(env.sent, env.received) << "a value was lost or invented";
    EXPECT_EQ(env.entered, env.cleaned) << "shielded clean-up was cut short";
    EXPECT_EQ(loop.live(), 0U);
    EXPECT_EQ(loop.stacks().stats().in_use, 0U);
  }
  EXPECT_EQ(live_allocations(), before) << "something was allocated and not freed";
  return reached;
}

// Without a rest for the machine this is some 2000 runs for each repetition.
TEST(CancelPoints, S6_CancelAtEverySuspension) {
  const std::uint64_t repetitions = scaled(10, 100, 1000);
  std::size_t runs = 0;
  for (std::uint64_t seed = 1; seed <= repetitions; ++seed) {
    for (const Scenario& scenario : scenarios) {
      for (const Kind kind : {Kind::fiber, Kind::coroutine}) {
        for (const Moment moment : {Moment::leaving, Moment::parked}) {
          int n = 0;
          while (run_once(scenario, kind, moment, n, seed)) {
            ++n;
            ++runs;
            if (HasFailure()) return;
            ASSERT_LT(n, 1000) << scenario.name << " does not end";
          }
          EXPECT_GE(n, 3) << scenario.name << " hardly suspends: what does it test?";
        }
      }
    }
  }
  RecordProperty("runs", std::to_string(runs));
}

// The victim itself is on its way to park when it is cancelled, and nobody has claimed it: then not
// one more line of it may run.
TEST(CancelPoints, S10_TheLineAfterTheSuspensionNeverRuns) {
  for (const Kind kind : {Kind::fiber, Kind::coroutine}) {
    for (int which = 0; which < 4; ++which) {
      SCOPED_TRACE(which);
      Loop loop({.kernel = make_virtual_kernel(), .on_deadlock = OnDeadlock::fail});
      Here here(Engine::loop, kind, loop);
      bool before = false;
      bool after = false;
      loop.run([&]() -> Coro<> {
        Scope scope;
        Channel<int> ch;
        Parker bell;
        auto h = here.spawn(scope, [&]() -> Coro<> {
          before = true;
          if (which == 0) co_await sleep_op(1h);
          if (which == 1) co_await ch.recv_op();
          if (which == 2) co_await bell.park_op([] { return true; });
          if (which == 3) co_await next_turn();
          after = true;
        });
        if (which == 3) {  // it yields and is ready, not blocked, when it is cancelled
          here.spawn(scope, [&]() -> Coro<> {
            h.cancel();
            co_return;
          });
        } else {
          co_await next_turn();
          h.cancel();
        }
        EXPECT_TRUE((co_await h.join_op()).cancelled());
        co_await scope.joined();
      });
      EXPECT_TRUE(before);
      EXPECT_FALSE(after);
    }
  }
}

// Clean-up under a shield is bounded by its own deadlines: those outside cannot reach it.
CONCURRENT(CancelPoints, C24_ADeadlineUnderAShieldCounts) {
  const auto o = co_await timeout(10ms, []() -> Coro<int> {
    Shield shield;
    const auto cleanup = co_await timeout(20ms, []() -> Coro<int> {
      co_await sleep_op(1h);
      co_return 1;
    });
    EXPECT_EQ(cleanup.reason(), CancelReason::timeout);
    EXPECT_EQ(now(), Instant(20ms));
    co_return 2;
  });
  EXPECT_TRUE(o.ok());
  EXPECT_EQ(now(), Instant(20ms));
}

// From a plain thread, at random moments, against a loop on the real clock.
TEST(CancelPoints, S6_CancelFromAThreadAtRandomMoments) {
  const std::uint64_t rounds = scaled(100, 2'000, 100'000);
  Loop loop({.on_deadlock = OnDeadlock::wait});
  std::atomic<JoinHandle<void>*> target{nullptr};
  std::atomic<bool> stop{false};
  std::thread killer([&] {
    Rng rng(11);
    std::uint32_t longest = 1000;  // follows the victims: about half of them are hit while alive
    while (!stop.load()) {
      JoinHandle<void>* victim = target.load();
      if (victim == nullptr) {
        std::this_thread::yield();
        continue;
      }
      const std::uint32_t pause = rng.below(1 + rng.below(longest));
      for (std::uint32_t i = 0; i < pause && !victim->done(); ++i) {
      }
      longest = victim->done() ? longest / 2 + 1 : std::min(longest * 2, 100'000U);
      victim->cancel();
      target.store(nullptr);
    }
  });
  std::size_t cancelled = 0;
  loop.run([&] {
    // On a machine with better things to do the killer may sleep through all of them: then more, so
    // slow that they wait for the clock and leave it a processor.
    for (std::uint64_t r = 0; r < rounds || (cancelled == 0 && r < 100 * rounds); ++r) {
      const Scenario& scenario = scenarios[r % std::size(scenarios)];
      SCOPED_TRACE(scenario.name);
      Here here(Engine::loop, r / std::size(scenarios) % 2 == 0 ? Kind::fiber : Kind::coroutine,
                loop);
      Env env(here, r, r < rounds ? 2us : 1ms);
      Scope scope({.on_failure = OnFailure::isolate});
      env.cancelled = true;  // it may be, at any time
      env.exact = false;
      auto h = here.spawn(scope, [&]() -> Coro<> { return scenario.body(env); });
      target.store(&h);
      const auto o = h.join();
      while (target.load() != nullptr) std::this_thread::yield();
      if (o.cancelled()) ++cancelled;
      EXPECT_EQ(env.alive, 0);
      EXPECT_EQ(env.sent, env.received);
      EXPECT_EQ(env.entered, env.cleaned);
      EXPECT_EQ(loop.live(), 1U);
    }
  });
  stop.store(true);
  killer.join();
  EXPECT_EQ(loop.stacks().stats().in_use, 0U);
  EXPECT_GT(cancelled, 0U);
  RecordProperty("cancelled", std::to_string(cancelled));
}

}  // namespace
}  // namespace weft::test

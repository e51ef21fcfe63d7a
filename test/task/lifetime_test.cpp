// Who dies when, and in whose task: what a hostile review found, and its neighbourhood.
#include "support/everywhere.hpp"

#include <cfenv>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

namespace weft::test {
namespace {

/// Notes in which task it dies.
struct Witness {
  explicit Witness(std::string& into) : where(&into) {}
  Witness(Witness&& other) noexcept : where(std::exchange(other.where, nullptr)) {}
  Witness& operator=(Witness&&) = delete;
  ~Witness() {
    if (where == nullptr) return;
    const Task* task = this_task();
    *where = task == nullptr ? "nobody" : std::string(task->name());
  }
  std::string* where;
};

TEST(Lifetime, AnUnclaimedResultDiesInItsOwnTask) {
  for (const bool as_coroutine : {false, true}) {
    std::string where;
    Loop loop;
    loop.run([&] {
      Scope scope;
      if (as_coroutine) {
        scope.spawn([&]() -> Coro<Witness> { co_return Witness(where); }, {.name = "maker"});
      } else {
        scope.spawn([&] { return Witness(where); }, {.name = "maker"});
      }
      scope.spawn([] {}, {.name = "next"});
    });
    EXPECT_EQ(where, "maker");
  }
}

TEST(Lifetime, CapturesDieInTheirOwnTask) {
  for (const bool as_coroutine : {false, true}) {
    std::string where;
    Loop loop;
    loop.run([&] {
      Scope scope;
      auto witness = std::make_shared<Witness>(where);
      if (as_coroutine) {
        scope.spawn([w = std::move(witness)]() -> Coro<> { co_await next_turn(); },
                    {.name = "holder"});
      } else {
        scope.spawn([w = std::move(witness)] { yield(); }, {.name = "holder"});
      }
    });
    EXPECT_EQ(where, "holder");
  }
}

TEST(Lifetime, OverAlignedCapturesAndResults) {
  struct alignas(128) Wide {
    int value = 3;
  };
  Loop loop;
  loop.run([] {
    Scope scope;
    for (int i = 0; i < 8; ++i) {
      Wide wide;
      auto handle = scope.spawn([wide] {
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&wide) % 128, 0U);
        return wide;
      });
      EXPECT_EQ(handle.get().value, 3);
    }
  });
}

TEST(Lifetime, EnginesMayNestInAnyOrder) {
  Inline a;
  Inline b;
  int runs = 0;
  a.run([&] { b.run([&] { a.run([&] { ++runs; }); }); });
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(current(), nullptr);
  EXPECT_EQ(block_on([] {
              Inline inner;
              return inner.run([] { return 4; });
            }),
            4);
}

TEST(LifetimeDeathTest, TwoThreadsOnOneInlineAreReported) {
  EXPECT_DEATH(
      {
        Inline io;
        Channel<int> started;
        std::thread other([&] {
          io.run([&] {
            started.send(1);
            perform(never());
          });
        });
        started.recv();
        io.run([] {});
      },
      "two threads use one engine");
}

TEST(Lifetime, AHandleMayOutliveTheIoWhileItIsBeingJoined) {
  for (int i = 0; i < 50; ++i) {
    auto loop = std::make_unique<Loop>(LoopOptions{.on_deadlock = OnDeadlock::wait});
    auto handle = loop->spawn([] { return 5; });
    std::thread joiner([&] { EXPECT_EQ(handle.join().value(), 5); });
    loop->run();
    loop.reset();
    joiner.join();
  }
}

TEST(Lifetime, ACancelledCoroutineMayLeaveAScopeWithChildren) {
  Loop loop({.kernel = make_virtual_kernel()});
  std::string trace;
  loop.run([&] {
    Scope outer;
    auto owner = outer.spawn([&]() -> Coro<> {
      Scope scope;  // not joined: the cancellation passes it
      scope.spawn([&]() -> Coro<> {
        try {
          co_await sleep_op(1h);
        } catch (const Cancelled&) {
          trace += "coroutine ";
          throw;
        }
      });
      scope.spawn([&] {
        try {
          sleep(1h);
        } catch (const Cancelled&) {
          Shield shield;
          sleep(1ms);  // even clean-up that waits
          trace += "fiber ";
          throw;
        }
      });
      co_await sleep_op(2h);
    });
    outer.spawn([&] {
      sleep(1ms);
      yield();
      trace += "bystander ";
    });
    sleep(1ms);
    owner.cancel();
    EXPECT_TRUE(owner.join().cancelled());
    trace += "joined";
  });
  EXPECT_EQ(trace.substr(trace.size() - 6), "joined") << trace;
  EXPECT_NE(trace.find("coroutine"), std::string::npos) << trace;
  EXPECT_NE(trace.find("fiber"), std::string::npos) << trace;
}

TEST(Lifetime, ManyCoroutinesMayLeaveTheirScopesAtOnce) {
  const auto count = static_cast<int>(scaled(500, 5'000, 5'000));
  int unwound = 0;
  {
    Loop loop({.kernel = make_virtual_kernel()});
    for (int i = 0; i < count; ++i) {
      loop.spawn([&]() -> Coro<> {
        Scope scope;
        scope.spawn([&]() -> Coro<> {
          struct Count {
            int& n;
            ~Count() { ++n; }
          } counted{unwound};
          co_await never();
        });
        co_await never();
      });
    }
    EXPECT_TRUE(loop.run_until_idle());
  }  // shuts down: all of them unwind, one inside the other's destructor if it had to be
  EXPECT_EQ(unwound, count);
}

TEST(Lifetime, ALoopMayBeRunByADestructorDuringUnwinding) {
  struct RunsALoop {
    ~RunsALoop() {
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      EXPECT_THROW(block_on([]() -> Coro<> {
                     EXPECT_EQ(std::uncaught_exceptions(), 0);
                     Scope scope;
                     scope.spawn([] { throw std::runtime_error("child"); });
                     co_await scope.joined();
                   }),
                   std::runtime_error);
      EXPECT_EQ(std::uncaught_exceptions(), 1);
    }
  };
  EXPECT_THROW(
      {
        RunsALoop runs;
        throw std::logic_error("outer");
      },
      std::logic_error);
}

EVERYWHERE(Lifetime, ACallableThatIsCancelledBeforeItsCoroutineExists) {
  Scope scope;
  auto handle = scope.spawn([]() -> Coro<int> { throw Cancelled(CancelReason::requested); });
  EXPECT_EQ((co_await handle.join_op()).reason(), CancelReason::requested);
  co_await scope.joined();
}

TEST(Lifetime, FloatingPointControlEndsWithTheTask) {
  Loop loop;
  loop.run([] {
    Scope scope;
    scope.spawn([] { std::fesetround(FE_UPWARD); });
    scope.spawn([] { EXPECT_EQ(std::fegetround(), FE_TONEAREST); });
    scope.spawn([]() -> Coro<> {
      std::fesetround(FE_DOWNWARD);
      co_return;
    });
    scope.spawn([]() -> Coro<> {
      EXPECT_EQ(std::fegetround(), FE_TONEAREST);
      co_return;
    });
  });
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
}

TEST(Lifetime, HighWaterIsTheTasksOwnWhenMeasured) {
  Loop loop({.io = {.measure_stacks = true}});
  auto used = [&] { return loop.stacks().high_water(this_task()->fiber()->stack()); };
  loop.run([&] {
    Scope scope;
    scope
        .spawn([&] {
          volatile char deep[100'000];
          deep[0] = 1;
          EXPECT_EQ(deep[0], 1);
          EXPECT_GE(used(), 100'000U);
        })
        .get();
    EXPECT_LT(scope.spawn([&] { return used(); }).get(), 32'000U);
  });
}

TEST(Lifetime, AnInlineForgetsAnOldDeadlock) {
  Inline io({.kernel = make_virtual_kernel()});
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i) {
    auto handle = io.spawn([] { perform(never()); });
    EXPECT_EQ(handle.join().reason(), CancelReason::deadlock);
  }
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(io.run([] { return 1; }), 1);
}

}  // namespace
}  // namespace weft::test

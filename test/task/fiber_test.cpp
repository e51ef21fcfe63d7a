#include "support/everywhere.hpp"

#include <cfenv>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace weft::test {
namespace {

/// Runs bodies as fibers on one loop, all concurrently.
template <class... Bodies>
void on_loop(Bodies... bodies) {
  Loop loop({.kernel = make_virtual_kernel()});
  loop.run([&] {
    Scope scope;
    (scope.spawn(bodies), ...);
  });
}

void throw_text(const std::string& text) {
  throw std::runtime_error(text);
}

TEST(Fiber, SwitchInsideACatchBlock) {
  std::vector<std::string> seen;
  auto body = [&](std::string mine) {
    return [&seen, mine] {
      for (int i = 0; i < 3; ++i) {
        try {
          throw_text(mine);
        } catch (const std::runtime_error& error) {
          yield();  // the other fiber throws, catches and leaves its own handler meanwhile
          seen.push_back(error.what());
          EXPECT_EQ(error.what(), mine);
        }
        yield();
      }
    };
  };
  on_loop(body("a"), body("b"), body("c"));
  EXPECT_EQ(seen.size(), 9U);
}

TEST(Fiber, RethrowAfterASwitchGivesTheOwnException) {
  int rethrown = 0;
  auto body = [&](std::string mine) {
    return [&rethrown, mine] {
      try {
        try {
          throw_text(mine);
        } catch (...) {
          yield();
          throw;  // finds the exception through the per-fiber list
        }
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(error.what(), mine);
        ++rethrown;
      }
    };
  };
  on_loop(body("left"), body("right"));
  EXPECT_EQ(rethrown, 2);
}

TEST(Fiber, UncaughtExceptionsCountIsPerFiber) {
  struct YieldsWhileUnwinding {
    ~YieldsWhileUnwinding() {
      EXPECT_EQ(std::uncaught_exceptions(), 1);
      yield();
      EXPECT_EQ(std::uncaught_exceptions(), 1);
    }
  };
  int checks = 0;
  on_loop(
      [&] {
        try {
          YieldsWhileUnwinding unwinding;
          throw_text("x");
        } catch (const std::runtime_error&) {
          ++checks;
        }
      },
      [&] {
        for (int i = 0; i < 4; ++i) {
          EXPECT_EQ(std::uncaught_exceptions(), 0);
          EXPECT_EQ(std::current_exception(), nullptr);
          ++checks;
          yield();
        }
      });
  EXPECT_EQ(checks, 5);
}

TEST(Fiber, ATaskThatAdoptsAStackStartsWithoutExceptions) {
  // Finished tasks hand their stack to the next unstarted one without a switch.
  Loop loop;
  int clean = 0;
  loop.run([&] {
    Scope scope({.on_failure = OnFailure::isolate});
    std::vector<JoinHandle<void>> handles;
    for (int i = 0; i < 20; ++i) {
      handles.push_back(scope.spawn([&] {
        EXPECT_EQ(std::uncaught_exceptions(), 0);
        EXPECT_EQ(std::current_exception(), nullptr);
        ++clean;
        throw_text("each one fails");
      }));
    }
    scope.join();
  });
  EXPECT_EQ(clean, 20);
}

TEST(Fiber, RoundingModeStaysWithItsFiber) {
  auto body = [](int mode) {
    return [mode] {
      std::fesetround(mode);
      for (int i = 0; i < 5; ++i) {
        yield();
        EXPECT_EQ(std::fegetround(), mode);
      }
    };
  };
  on_loop(body(FE_UPWARD), body(FE_TONEAREST), body(FE_DOWNWARD));
  EXPECT_EQ(std::fegetround(), FE_TONEAREST) << "leaked to the thread";
}

#if defined(__x86_64__)
TEST(Fiber, MxcsrAloneIsKeptOnRequest) {
  Loop loop;
  loop.run([] {
    Scope scope;
    scope.spawn(
        [] {
          _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_ON);
          for (int i = 0; i < 3; ++i) {
            yield();
            EXPECT_EQ(_MM_GET_FLUSH_ZERO_MODE(), static_cast<unsigned>(_MM_FLUSH_ZERO_ON));
          }
        },
        {.keep_float_control = true});
    scope.spawn([] {
      for (int i = 0; i < 3; ++i) {
        EXPECT_EQ(_MM_GET_FLUSH_ZERO_MODE(), static_cast<unsigned>(_MM_FLUSH_ZERO_OFF));
        yield();
      }
    });
  });
}
#endif

TEST(Fiber, C2_StacksAreBoundAtFirstRunAndReused) {
  Loop loop;
  loop.run([&] {
    Scope scope;
    for (int i = 0; i < 10'000; ++i) scope.spawn([] {});
    EXPECT_LE(loop.stacks().stats().in_use, 1U) << "spawning must not take a stack";
    scope.join();
  });
  EXPECT_LE(loop.stacks().stats().reserved, 64U) << "10,000 tasks that do not wait need few stacks";
}

TEST(Fiber, C3_SizePerSpawnAndHighWater) {
  Loop loop({.io = {.stack_size = 64 << 10}});
  loop.run([&] {
    Scope scope;
    auto used = [&](std::size_t bytes) {
      return [&, bytes] {
        volatile char* block = static_cast<char*>(__builtin_alloca(bytes));
        for (std::size_t i = 0; i < bytes; i += 512) block[i] = 1;
        const stack::Stack mine = this_task()->fiber()->stack();
        EXPECT_GE(loop.stacks().high_water(mine), bytes);
        return mine.size();
      };
    };
    EXPECT_EQ(scope.spawn(used(8 << 10)).get(), std::size_t{64} << 10);
    EXPECT_EQ(scope.spawn(used(700 << 10), {.stack_size = 1 << 20}).get(), std::size_t{1} << 20);
  });
}

TEST(Fiber, B5_ManyParkedFibersWithGuardedStacks) {
  const std::size_t count = fibers_at_once(scaled(2'000, 20'000, 1'000'000));
  Loop loop({.io = {.stack_size = 64 << 10}});
  std::size_t woken = 0;
  loop.run([&] {
    Channel<int> gate;
    Scope scope;
    for (std::size_t i = 0; i < count; ++i) {
      scope.spawn([&] {
        gate.recv();
        ++woken;
      });
    }
    yield();
    EXPECT_EQ(loop.stacks().stats().in_use, count + 1);
    gate.close();
  });
  EXPECT_EQ(woken, count);
}

TEST(Fiber, C11_NoStackFailsTheTaskNotTheWorker) {
  Loop loop;
  loop.run([] {
    Scope scope({.on_failure = OnFailure::isolate});
    // At normal scale, more address space than a process has: some get their stack, the others the
    // error.
    const auto count = static_cast<int>(scaled(2'000, 140'000, 200'000));
    std::vector<JoinHandle<int>> handles;
    for (int i = 0; i < count; ++i) {
      handles.push_back(scope.spawn(
          [] {
            yield();
            return 1;
          },
          {.stack_size = std::size_t{1} << 30}));
    }
    int failed = 0;
    int ran = 0;
    for (auto& handle : handles) {
      const auto outcome = handle.join();
      outcome.ok() ? ++ran : ++failed;
      if (outcome.failed()) {
        EXPECT_NE(describe(outcome.error()).find("stack"), std::string::npos);
      }
    }
    EXPECT_GT(ran, 0);
    EXPECT_EQ(ran + failed, count);
    if (count > 131'072) {
      EXPECT_GT(failed, 0);
    }
  });
}

}  // namespace
}  // namespace weft::test

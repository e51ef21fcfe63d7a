/// One test body, every way of running it.
///
///     EVERYWHERE(Sleep, F9_CancelledWhileWaiting) {
///       Scope scope;
///       auto h = here.spawn(scope, [&]() -> Coro<> { co_await sleep_op(1h); });
///       h.cancel();
///       EXPECT_TRUE((co_await h.join_op()).cancelled());
///     }
///
/// The body is a coroutine. It runs on each Io, as a coroutine task and, driven by weft::await, as
/// a fiber; its children are spawned the same way. EVERYWHERE bodies must not need two tasks to
/// wait for each other, because on an inline Io a child runs to its end inside spawn(); CONCURRENT
/// leaves inline out. ONE_AFTER_ANOTHER is for bodies whose tasks rely on running one at a time, in
/// the order in which they became ready: on a loop, and in a simulation that decides nothing. At
/// the end nothing may be left: no task, no stack, no allocation.
///
/// On a pool tasks run at the same time and in any order, also on a pool of one worker (which may
/// get spare ones). So what tasks share is atomic or locked, except what a parent and its child
/// hand over by spawn and join. All clocks are virtual: time stands still while anything runs.
/// Therefore `co_await all_others_wait()`, or any other sleep, goes on when the rest of the body
/// can do nothing more without it, and sees all that it has done.
///
/// In these bodies use EXPECT_*, not ASSERT_* (which returns).
#pragma once

#include <weft/stack/sanitizer.hpp>
#include <weft/weft.hpp>

#include "support/allocations.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string_view>

#include <gtest/gtest.h>

namespace weft::test {

using namespace std::chrono_literals;

enum class Engine { inline_io, loop, pool, sim };
enum class Kind { fiber, coroutine };

class Here {
 public:
  Here(Engine engine, Kind kind, Io& io) : engine_(engine), kind_(kind), io_(io) {}

  /// Spawns a callable that returns a Coro, as the kind of task this run is about.
  template <class F>
  auto spawn(Scope& scope, F f, SpawnOptions options = {}) {
    using T = typename std::invoke_result_t<F&>::Value;
    if (kind_ == Kind::fiber) {
      return scope.spawn([f = std::move(f)]() mutable -> T { return await(f()); }, options);
    }
    return scope.spawn(std::move(f), options);
  }
  [[nodiscard]] bool concurrent() const { return engine_ != Engine::inline_io; }
  /// Tasks run at the same time.
  [[nodiscard]] bool parallel() const { return engine_ == Engine::pool || engine_ == Engine::sim; }
  [[nodiscard]] Engine engine() const { return engine_; }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] Io& io() const { return io_; }

 private:
  Engine engine_;
  Kind kind_;
  Io& io_;
};

/// Until every other task waits for longer than a nanosecond, for another task, or has ended.
inline SleepOp all_others_wait() {
  return sleep_op(1ns);
}

/// The body of one of the macros below.
using Body = std::function<Coro<>(Here&)>;

/// No reports of tasks that take long: they say that the machine is slow, and names of functions,
/// once read, stay in memory.
inline PoolOptions virtual_pool(std::size_t workers) {
  return {.workers = workers,
          .kernel = make_virtual_kernel(),
          .on_deadlock = OnDeadlock::fail,
          .report_stuck_after = Duration::zero(),
          .most_spares = 4};
}

/// On inline (unless `concurrent_only`) and loop, and in a simulation that decides nothing.
void run_on_one_thread(bool concurrent_only, const Body& body);
/// There, on pools, and in simulations, by seeds.
void run_everywhere(bool concurrent_only, const Body& body);

/// WEFT_TEST_SCALE: small (sanitizers in CI), normal, large (soak).
inline std::size_t scaled(std::size_t small, std::size_t normal, std::size_t large) {
  const char* scale = std::getenv("WEFT_TEST_SCALE");
  const std::string_view name = scale == nullptr ? "normal" : scale;
  return name == "small" ? small : name == "large" ? large : normal;
}

/// An emulator may keep threads of its own in the process. Then no wait can be called a deadlock.
inline bool process_has_other_threads() {
  return make_thread_kernel()->outside_may_wake();
}

/// ThreadSanitizer knows at most some 8,000 threads, and takes each fiber for one.
inline std::size_t fibers_at_once(std::size_t wanted) {
#if defined(WEFT_TSAN)
  return std::min<std::size_t>(wanted, 7'000);
#else
  return wanted;
#endif
}

}  // namespace weft::test

#define WEFT_TEST_BODY(suite, name, run, concurrent_only)         \
  static ::weft::Coro<> suite##_##name(::weft::test::Here& here); \
  TEST(suite, name) {                                             \
    ::weft::test::run(concurrent_only, &suite##_##name);          \
  }                                                               \
  static ::weft::Coro<> suite##_##name([[maybe_unused]] ::weft::test::Here& here)

#define EVERYWHERE(suite, name) WEFT_TEST_BODY(suite, name, run_everywhere, false)
#define CONCURRENT(suite, name) WEFT_TEST_BODY(suite, name, run_everywhere, true)
#define ONE_AFTER_ANOTHER(suite, name) WEFT_TEST_BODY(suite, name, run_on_one_thread, true)

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

#include <weft/sim/explore.hpp>
#include <weft/stack/sanitizer.hpp>
#include <weft/weft.hpp>

#include "support/allocations.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
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

inline std::string name_of(Engine engine, std::size_t workers) {
  switch (engine) {
    case Engine::inline_io:
      return "inline";
    case Engine::loop:
      return "loop";
    case Engine::pool:
      return "pool of " + std::to_string(workers);
    case Engine::sim:
      return "simulation";
  }
  return "?";
}

/// No reports of tasks that take long: they say that the machine is slow, and names of functions,
/// once read, stay in memory.
inline PoolOptions virtual_pool(std::size_t workers) {
  return {.workers = workers,
          .kernel = make_virtual_kernel(),
          .on_deadlock = OnDeadlock::fail,
          .report_stuck_after = Duration::zero(),
          .most_spares = 4};
}

/// What a pool allocates once and keeps, such as the list of processors.
inline void warm_up() {
  static const bool warm = [] {
    Pool pool(virtual_pool(1));
    return true;
  }();
  static_cast<void>(warm);
}

/// Checks so far that failed.
inline int failures() {
  return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
}

/// `workers`: of a pool.
template <class Body>
void run_on(Engine engine, Kind kind, Body body, std::size_t workers = 0) {
  SCOPED_TRACE(name_of(engine, workers) + (kind == Kind::fiber ? " as fiber" : " as coroutine"));
  if (engine == Engine::pool) warm_up();
  const int failures_before = failures();
  const auto before = live_allocations();
  auto run_in = [&](auto& io) {
    Here here(engine, kind, io);
    if (kind == Kind::fiber) {
      io.run([&] { await(body(here)); });
    } else {
      io.run([&] { return body(here); });
    }
    EXPECT_EQ(io.live(), 0U);
    // The workers of a pool keep some in hand, until its end.
    if (engine != Engine::pool) {
      EXPECT_EQ(io.stacks().stats().in_use, 0U);
    }
  };
  try {
    if (engine == Engine::pool) {
      Pool pool(virtual_pool(workers));
      run_in(pool);
    } else if (engine == Engine::loop) {
      Loop loop({.kernel = make_virtual_kernel(), .on_deadlock = OnDeadlock::fail});
      run_in(loop);
    } else {
      Inline io({.kernel = make_virtual_kernel(), .on_deadlock = OnDeadlock::fail});
      run_in(io);
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "the body threw: " << error.what();
  }
  if (failures() == failures_before) {
    EXPECT_EQ(live_allocations(), before) << "something was allocated and not freed";
  } else {  // failures are kept in memory; and those on other threads do not know our trace
    ADD_FAILURE() << "the failures above are of this run";
  }
}

/// WEFT_TEST_SCALE: small (sanitizers in CI), normal, large (soak).
inline std::size_t scaled(std::size_t small, std::size_t normal, std::size_t large) {
  const char* scale = std::getenv("WEFT_TEST_SCALE");
  const std::string_view name = scale == nullptr ? "normal" : scale;
  return name == "small" ? small : name == "large" ? large : normal;
}

/// In turn, as on a loop; and, if `orders`, in other orders, by seed.
template <class Body>
void run_in_sim(Kind kind, Body body, bool orders) {
  SCOPED_TRACE(kind == Kind::fiber ? "simulation, as fiber" : "simulation, as coroutine");
  // Large bodies are not run as often as small ones.
  constexpr std::uint64_t enough_steps = 200'000;
  const int failures_before = failures();
  const auto before = live_allocations();
  {
    const auto strategy = sim::make_strategy("portfolio");
    sim::Engine engine({.most_steps = 100'000'000, .stack_size = 256 * 1024});
    Here here(Engine::sim, kind, engine);
    std::uint64_t steps = 0;
    sim::Profile profile;
    const std::uint64_t runs = orders ? 1 + scaled(4, 12, 400) : 1;
    for (std::uint64_t seed = 0; seed < runs && steps < enough_steps; ++seed) {
      sim::Run run = engine.run({.strategy = seed == 0 ? nullptr : strategy.get(),
                                 .seed = seed,
                                 .profile = &profile,
                                 .trace = seed == 0},
                                [&] { await(body(here)); });
      steps += run.steps;
      if (seed == 0) profile = std::move(run.profile);
      if (run.failure) ADD_FAILURE() << "seed " << seed << ": " << run.failure->what;
      if (run.failure || failures() != failures_before) {
        ADD_FAILURE() << "the failures above are of seed " << seed;
        break;
      }
    }
    if (engine.broken()) std::abort();  // a task could not be stopped
  }
  if (failures() == failures_before) {
    EXPECT_EQ(live_allocations(), before) << "something was allocated and not freed";
  }
}

template <class Body>
void run_on_one_thread(bool concurrent_only, Body body) {
  for (const Engine engine : {Engine::inline_io, Engine::loop}) {
    if (concurrent_only && engine == Engine::inline_io) continue;
    for (const Kind kind : {Kind::fiber, Kind::coroutine}) run_on(engine, kind, body);
  }
  for (const Kind kind : {Kind::fiber, Kind::coroutine}) run_in_sim(kind, body, false);
}

template <class Body>
void run_everywhere(bool concurrent_only, Body body) {
  run_on_one_thread(concurrent_only, body);
  for (const std::size_t workers : {1U, 2U, 4U, 64U}) {
    for (const Kind kind : {Kind::fiber, Kind::coroutine}) {
      run_on(Engine::pool, kind, body, workers);
    }
  }
  for (const Kind kind : {Kind::fiber, Kind::coroutine}) run_in_sim(kind, body, true);
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

#include "support/everywhere.hpp"

#include <weft/sim/engine.hpp>

namespace weft::test {

namespace {

std::string name_of(Engine engine, std::size_t workers) {
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

/// What a pool allocates once and keeps, such as the list of processors.
void warm_up() {
  static const bool warm = [] {
    Pool pool(virtual_pool(1));
    return true;
  }();
  static_cast<void>(warm);
}

/// Checks so far that failed.
int failures() {
  return testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
}

/// `workers`: of a pool.
void run_on(Engine engine, Kind kind, const Body& body, std::size_t workers = 0) {
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

/// In turn, as on a loop; and, if `orders`, in other orders, by seed.
void run_in_sim(Kind kind, const Body& body, bool orders) {
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

}  // namespace

void run_on_one_thread(bool concurrent_only, const Body& body) {
  for (const Engine engine : {Engine::inline_io, Engine::loop}) {
    if (concurrent_only && engine == Engine::inline_io) continue;
    for (const Kind kind : {Kind::fiber, Kind::coroutine}) run_on(engine, kind, body);
  }
  for (const Kind kind : {Kind::fiber, Kind::coroutine}) run_in_sim(kind, body, false);
}

void run_everywhere(bool concurrent_only, const Body& body) {
  run_on_one_thread(concurrent_only, body);
  for (const std::size_t workers : {1U, 2U, 4U, 64U}) {
    for (const Kind kind : {Kind::fiber, Kind::coroutine}) {
      run_on(Engine::pool, kind, body, workers);
    }
  }
  for (const Kind kind : {Kind::fiber, Kind::coroutine}) run_in_sim(kind, body, true);
}

}  // namespace weft::test

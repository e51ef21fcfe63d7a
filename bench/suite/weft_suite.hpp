/// weft's part of the suite. Plain names are fibers, names that end in _coro are coroutines, and
/// _tasks is what fork and join costs with a task for every call instead of forks.
#pragma once

#include <weft/weft.hpp>

#include "suite/protocol.hpp"

namespace weft::bench {

using suite::Benchmark;
using suite::Run;

std::span<const Benchmark> task_benchmarks();
std::span<const Benchmark> tree_benchmarks();
std::span<const Benchmark> sync_benchmarks();
std::span<const Benchmark> world_benchmarks();
std::span<const Benchmark> path_benchmarks();
std::span<const Benchmark> servers();

/// Runs `body` as a task on a Pool. The monitor's reports are off: some of these compute for longer
/// than a task should.
template <class F>
auto on_pool(const Run& run, F body, std::size_t stack_size = 0, bool pin = false) {
  Pool pool({.io = {.stack_size = stack_size},
             .workers = run.workers,
             .pin = pin,
             .report_stuck_after = Duration::zero()});
  return pool.run(std::move(body));
}

/// The same, but one worker is a Loop, which is made for that. (Trees of tasks are for the pool,
/// which walks them depth first; a loop is first in, first out.)
template <class F>
auto on_workers(const Run& run, F body, std::size_t stack_size = 0) {
  if (run.workers > 1) return on_pool(run, std::move(body), stack_size);
  Loop loop({.io = {.stack_size = stack_size}});
  return loop.run(std::move(body));
}

}  // namespace weft::bench

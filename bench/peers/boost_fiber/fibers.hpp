/// Workers for Boost.Fiber: threads that take part in one scheduler.
#pragma once

#include "suite/protocol.hpp"

#include <span>
#include <thread>
#include <vector>

#include <boost/fiber/all.hpp>
#include <malloc.h>

namespace fibers {

namespace bf = boost::fibers;

std::span<const suite::Benchmark> task_benchmarks();
std::span<const suite::Benchmark> sync_benchmarks();

/// A fiber with a stack of 16 KiB from malloc, which keeps these at hand (see on_workers); stacks
/// of the library's default of 128 KiB would be mapped and unmapped every time. The library's pool
/// of stacks must not be used from several threads.
template <class F>
bf::fiber start(F body, bf::launch launch = bf::launch::post) {
  return bf::fiber(launch, std::allocator_arg, bf::fixedsize_stack(16 << 10), std::move(body));
}

/// Runs `body` in the main fiber of this thread, with as many workers as asked for.
template <class F>
auto on_workers(const suite::Run& run, F body) {
  // Or malloc gives the top of the heap back to the system whenever a few stacks are free.
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 16 << 20);
  if (run.workers == 1) return body();
  const auto count = static_cast<std::uint32_t>(run.workers);
  // A worker that found nothing sleeps until it is woken, rather than to spin beside the others.
  constexpr bool suspend = true;
  bool over = false;
  bf::mutex mutex;
  bf::condition_variable_any ended;
  std::vector<std::thread> others;
  for (std::uint32_t i = 1; i < count; ++i) {
    others.emplace_back([&] {
      bf::use_scheduling_algorithm<bf::algo::work_stealing>(count, suspend);
      std::unique_lock lock(mutex);
      ended.wait(lock, [&] { return over; });
    });
  }
  bf::use_scheduling_algorithm<bf::algo::work_stealing>(count, suspend);
  auto result = body();
  {
    const std::lock_guard lock(mutex);
    over = true;
  }
  ended.notify_all();
  for (auto& thread : others) thread.join();
  return result;
}

}  // namespace fibers

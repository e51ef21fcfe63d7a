// weft::races: makes a data race between tasks of a simulation a failure of its run. For programs
// that are compiled with ThreadSanitizer: it sees the race, whatever the schedule; the run's seed
// says when. See docs/simulation.md, "Data races".
#include <weft/sim/engine.hpp>
#include <weft/stack/sanitizer.hpp>
#include <weft/task/blocks.hpp>

#include <atomic>
#include <thread>

#if defined(WEFT_TSAN)

namespace {

std::atomic<std::uint64_t> reports{0};

std::uint64_t seen() noexcept {
  return reports.load(std::memory_order_relaxed);  // relaxed: a count
}

// Before anything else is: memory that was given by one rule must not be taken back by another.
[[gnu::constructor(101)]] void begin() noexcept {
  weft::sim::Engine::races_seen = &seen;
  weft::BlockCache::keep_none();
  // In a process that has always had one thread, libstdc++ counts references without atomics. Tasks
  // are as good as threads here.
  std::thread([] {}).join();
}

}  // namespace

extern "C" {

// Called by ThreadSanitizer, which holds locks of its own: no more than this.
void __tsan_on_report(void* /*report*/) {
  reports.fetch_add(1, std::memory_order_relaxed);  // relaxed: a count
}
// A run that is made again shows its race again.
const char* __tsan_default_options() {
  return "suppress_equal_stacks=0:suppress_equal_addresses=0";
}
}

#endif

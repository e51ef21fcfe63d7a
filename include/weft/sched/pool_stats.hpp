/// What a pool has done. Counters are read one after the other while workers go on: each is right
/// for some moment, sums only nearly. Nothing is decided by them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

/// Durations in powers of two: bucket i counts those below 2^i nanoseconds, and not below 2^(i-1).
struct DurationHistogram {
  static constexpr std::size_t buckets = 40;
  std::array<std::uint64_t, buckets> counts{};

  void add(const DurationHistogram& other) noexcept {
    for (std::size_t i = 0; i < buckets; ++i) counts[i] += other.counts[i];
  }
  [[nodiscard]] std::uint64_t total() const noexcept;
  /// The upper bound, in nanoseconds, of the bucket in which this share (0 to 1) is reached.
  [[nodiscard]] std::uint64_t quantile(double share) const noexcept;
};

struct WorkerStats {
  std::uint64_t spawned = 0;   // tasks, by tasks on this worker
  std::uint64_t ended = 0;     // tasks
  std::uint64_t turns = 0;     // times a task began or went on
  std::uint64_t woken = 0;     // tasks that were woken here
  std::uint64_t stolen = 0;    // tasks taken from other workers
  std::uint64_t searches = 0;  // for something to steal
  std::uint64_t sleeps = 0;
  std::uint64_t polls = 0;  // looks at the outside
  std::size_t queued = 0;   // at the moment
  bool asleep = false;
  bool stuck = false;
  DurationHistogram delay;   // from being woken to running; samples
  DurationHistogram length;  // of turns; samples

  void add(const WorkerStats& other) noexcept;
};

struct PoolStats {
  std::vector<WorkerStats> workers;  // spare ones last
  WorkerStats total;
  std::uint64_t spawned_outside = 0;  // by other threads
  std::size_t injected = 0;           // in the injector at the moment
  std::size_t timers = 0;             // armed at the moment
  std::size_t live = 0;               // tasks
  std::size_t spares = 0;             // spare workers at the moment
  std::uint64_t spares_started = 0;
  std::uint64_t stuck_reports = 0;

  /// A table, for people.
  [[nodiscard]] std::string to_string() const;
};

}  // namespace weft

// The monitor of a pool: a thread that looks, a few hundred times a second while the pool is at
// work and not at all while it sleeps, whether every worker gets on.
//
// A worker that has begun nothing since the last look, and does not sleep, is stuck in a task that
// computes for long or blocks its thread; unless the machine has kept it from running, which its
// use of the processor tells. Then
//   - its inbox is open to others, and somebody is woken for what it has queued
//   - timers and descriptors are attended to from here if no worker does it
//   - if no worker is free, a spare one is started: one per look, up to a bound. It works like any
//     other, and ends when it has nothing to do and there are fewer stuck workers than spare ones
//   - after a while the task is reported, with its stack, at most once a second
//
// The stack is taken by the stuck thread itself, in a handler of SIGURG (which means nothing to
// most programs, and is ignored by default). If the program has a handler of its own for it, the
// report has to do without. A system call in which the thread blocks may fail with EINTR by it.
#pragma once

#include <weft/base/atomic.hpp>

#include "sched/pool_worker.hpp"

#include <optional>

namespace weft {

class Monitor {
 public:
  Monitor(Pool& pool, const PoolOptions& options);
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;
  ~Monitor() { stop(); }

  /// Starts the regular workers' threads, and its own. Throws std::system_error.
  void start();
  /// Ends all threads. The workers have been told. Idempotent.
  void stop() noexcept;

  /// A worker has slept, and does so no more.
  void awake() noexcept {
    if (dozing_.load()) rouse();
  }
  /// A spare worker has nothing to do. True: it ends, and counts as none from now on.
  [[nodiscard]] bool may_retire(PoolWorker& worker) noexcept;

  /// Threads besides the workers'.
  [[nodiscard]] std::size_t threads() const noexcept { return running_.load() ? 1 : 0; }
  [[nodiscard]] std::size_t spares() const noexcept { return spares_.load(); }
  [[nodiscard]] std::uint64_t spares_started() const noexcept { return spares_started_.load(); }
  [[nodiscard]] std::uint64_t reports() const noexcept { return reports_.load(); }

 private:
  /// What is known of a worker.
  struct Seen {
    std::uint64_t turns = 0;
    Instant since{};
    Duration cpu{};         // what the thread had used by then
    bool reported = false;  // this turn
  };

  void watch();
  void doze();
  void rouse() noexcept;
  void look(Instant now);
  void look_at(std::size_t index, Instant now);
  void attend_outside();
  void help_out(Instant now);
  void start_thread(PoolWorker& worker);
  void start_spare();
  void report(const PoolWorker& worker, Duration stuck_for);

  Pool& pool_;
  const bool pin_;
  const Duration report_after_;
  const std::unique_ptr<Kernel> clock_;
  std::vector<Seen> seen_;  // by worker
  std::thread thread_;
  Atomic<bool> running_{false};
  Atomic<bool> stopping_{false};
  Atomic<bool> dozing_{false};       // until somebody wakes up
  std::size_t stuck_ = 0;            // workers, at the last look
  Atomic<std::size_t> unneeded_{0};  // spare workers that may go
  Atomic<std::size_t> spares_{0};
  Atomic<std::uint64_t> spares_started_{0};
  Atomic<std::uint64_t> reports_{0};
  std::uint64_t polls_ = 0;  // of all workers, at the last look
  Instant next_report_{};
  std::optional<Instant> too_many_since_;  // spare workers
};

}  // namespace weft

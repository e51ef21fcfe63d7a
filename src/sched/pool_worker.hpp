// A worker of a pool: its queues, and what it does with them between tasks. See sched/pool.hpp.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/rng.hpp>
#include <weft/sched/pool.hpp>
#include <weft/sched/steal_queue.hpp>

#include "sched/hot_slot.hpp"

#include <thread>

namespace weft {

/// A number that one thread changes and others read.
class Counter {
 public:
  // No read-modify-write: there is one writer. release: partner is get(). Who sees that something
  // was counted, sees what was counted before it (see Pool::live()).
  void add(std::uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_release);
  }
  [[nodiscard]] std::uint64_t get() const noexcept {
    return value_.load();  // seq_cst: also the waiter's half of Pool::tell_if_quiet()
  }

 private:
  Atomic<std::uint64_t> value_{0};
};

class PoolWorker final : public Worker {
 public:
  PoolWorker(Pool& pool, std::size_t index) noexcept;

  // Its own thread

  /// A task of this worker's was woken by the running one, or by the outside.
  void wake(Task& task) noexcept;
  /// A task was spawned by the running one.
  void spawn(Task& task) noexcept;
  /// The next one to run; at home, nothing fetched may be left.
  [[nodiscard]] Task* take(std::uint8_t at_least = 0) noexcept;
  /// It has been taken from elsewhere: runs next. Only one can, as nobody else would find others.
  void put_first(Task& task) noexcept {
    if (ready_.empty()) {
      ready_.push(task);
    } else {
      push(queue_, task);
    }
  }
  /// Runs tasks until there are none, or the budget of a visit is used up. True: some were run.
  bool run_tasks();
  /// What others have sent becomes its own.
  void empty_inbox() noexcept;
  [[nodiscard]] bool has_tasks() const noexcept {
    return !ready_.empty() || !queue_.empty() || !fresh_.empty() ||
           hot_.full();  // a thief may be faster
  }
  [[nodiscard]] Task* take_injected(std::size_t sharers) noexcept;
  [[nodiscard]] Task* steal_from(PoolWorker& victim) noexcept;
  /// Its hot task, if the worker has begun nothing since `seen`, that is, for a while.
  [[nodiscard]] Task* steal_hot(PoolWorker& victim, std::uint64_t seen) noexcept;

  // Any thread

  [[nodiscard]] bool anything_to_steal() const noexcept {
    return !queue_.empty() || !fresh_.empty() || (stuck.load() && !inbox.empty());
  }
  [[nodiscard]] bool hot() const noexcept { return hot_.full(); }
  [[nodiscard]] std::size_t queued() const noexcept;
  [[nodiscard]] WorkerStats stats() const noexcept;
  using Worker::turns_begun;

  static constexpr std::uint32_t turns_per_visit = 64;
  static constexpr std::size_t longest_inbox = 256;  // then others must help

  const std::size_t index;
  Idler idler;
  Inbox inbox;
  Atomic<std::size_t> inbox_size{0};  // about
  Atomic<bool> stuck{false};          // the monitor's: it is in one task for long
  Atomic<bool> held{false};           // it stands still for a dump
  Atomic<bool> retired{true};         // it has no thread, or one that is about to end
  Atomic<int> tid{0};                 // of its thread, to the machine
  std::thread thread;                 // the monitor's, which starts and joins it
  Rng rng;
  bool looking_outside = false;  // what is woken now comes from there
  std::uint64_t tids = 0;        // the next of those it may give out
  std::uint64_t tids_end = 0;
  // By worker: what turns_begun() was when this one began to search.
  std::vector<std::uint64_t> turns_seen;
  Counter spawned;  // tasks, by those that ran here; with `ended`: see Pool::live()
  Counter ended;
  Counter stolen;
  Counter searches;
  Counter sleeps;
  Counter polls;

 private:
  using Queue = StealQueue<Task>;

  Task* take_next(std::uint8_t at_least) noexcept override { return take(at_least); }
  void put_back(Task& task) noexcept override;
  bool put_woken(Task& task) noexcept override {
    wake(task);
    return true;
  }
  bool take_fresh(Task& task) noexcept override;
  void put_next(Task& task) noexcept override;
  bool wants_forks() const noexcept override;
  void forked() noexcept override;
  void push(Queue& queue, Task& task) noexcept;
  [[nodiscard]] inline Task* choose_next(std::uint8_t at_least) noexcept;
  [[nodiscard]] inline Task* take_normal() noexcept;
  void let_others_have_lone() noexcept;
  void sample_wake(const Task& task) noexcept;
  void sample_turn(const Task& next) noexcept;

  Pool& pool_;
  std::uint32_t takes_ = 0;
  std::uint32_t hot_in_a_row_ = 0;
  // Tasks that go on computing after they have woken somebody, or spawned, are better served by
  // other workers: for so many tasks, hot_ is not used.
  std::uint32_t keep_cold_ = 0;
  const Task* lone_ = nullptr;  // what is in hot_, if it is still there and has not begun
  // Samples for the histograms.
  const Task* watched_ = nullptr;  // woken or spawned then; only compared with others
  Instant watched_since_{};
  Instant turn_since_{};  // zero: this turn is not measured
  std::uint32_t wakes_ = 0;
  Counter woken_;
  alignas(64) HotSlot<Task> hot_;
  Queue queue_;
  Queue fresh_;
  std::array<Counter, DurationHistogram::buckets> delay_;
  std::array<Counter, DurationHistogram::buckets> length_;
};

}  // namespace weft

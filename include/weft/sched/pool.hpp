/// Pool: tasks on every core. The engine for production.
///
///     weft::Pool pool;                                    // as many workers as there are cores
///     int answer = pool.run([] { ...; return 42; });      // returns when no task is left
///
/// Each worker is a thread with queues of its own, from which the others steal when they have
/// nothing to do:
///
///     hot     the task woken last by the running one: its data is in the cache. Runs next, but
///             not for ever; others take it if it has to wait for long
///     fresh   tasks spawned here. The worker takes the newest (so that a tree of tasks is walked
///             depth first, in little memory), thieves take the oldest (the largest branches)
///     queue   tasks that yielded, or were woken by timers and descriptors: first in, first out
///     inbox   tasks that want this worker (SpawnOptions::worker); others empty it when the worker
///             is stuck
///
/// Tasks whose priority is not the normal one stand in one queue for all (sched/ranked_queue).
///
/// All share an injector, for what comes from other threads and for what a full worker cannot hold.
/// It is looked at after bounded local work, so nothing starves. Idle workers sleep (sched/idle);
/// one of them waits for timers and descriptors for all. A monitor notices workers that are stuck
/// in one task: it attends to the outside for them, reports the task, and has spare workers run
/// what they have queued.
///
/// Tasks move between threads whenever they wait: thread-local variables, and addresses of them,
/// are not theirs. Everything tasks share must be synchronised.
///
/// Deadlocks are found as in Loop. With a virtual clock the time jumps when all workers sleep.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/io/kernel.hpp>
#include <weft/sched/deadlock.hpp>
#include <weft/sched/idle.hpp>
#include <weft/sched/injector.hpp>
#include <weft/sched/pool_stats.hpp>
#include <weft/sched/ranked_queue.hpp>
#include <weft/task/io.hpp>
#include <weft/task/worker.hpp>
#include <weft/time/timeline.hpp>

#include <chrono>
#include <memory>
#include <vector>

namespace weft {

class Monitor;
class PoolWorker;

struct PoolOptions {
  IoOptions io{};
  /// 0: WEFT_WORKERS, or else one for each core this process may use (affinity, cgroup quota).
  std::size_t workers = 0;
  /// Worker i stays on the i-th of the cores this process may use.
  bool pin = false;
  /// The outside world; empty: the real one. make_virtual_kernel() gives virtual time.
  std::unique_ptr<Kernel> kernel{};
  OnDeadlock on_deadlock = OnDeadlock::automatic;
  /// A worker that is in one task for so long is reported, with the task's stack; zero: never.
  Duration report_stuck_after = std::chrono::milliseconds(25);
  /// So many threads at most stand in for workers that are stuck.
  std::size_t most_spares = 64;
};

/// What `PoolOptions::workers == 0` means here.
[[nodiscard]] std::size_t default_workers();

class Pool final : public Io {
 public:
  /// Throws std::system_error if threads cannot be had, std::invalid_argument for a bad option or
  /// WEFT_WORKERS.
  explicit Pool(PoolOptions options = {});
  /// Cancels what is left (reason: shutdown) and waits for its end.
  ~Pool() noexcept override;

  /// From plain threads: waits until no task is left.
  void run();
  /// Runs `f` as a task, waits until no task is left; gives f's result or throws its error.
  template <class F>
  auto run(F f) {
    refuse_in_task();
    auto handle = spawn(std::move(f), {.name = "main"});
    run();
    return handle.get();
  }
  /// Runs `f` as a task and waits for it; other tasks go on.
  template <class F>
  auto block_on(F f) {
    refuse_in_task();
    const Waiting waiting(*this);
    auto handle = spawn(std::move(f), {.name = "block_on"});
    auto outcome = handle.join();
    deadlock_.throw_if_any();
    return std::move(outcome).value();
  }

  /// Cancels everything (reason: shutdown; what is spawned from now on is born cancelled) and waits
  /// for its end. If that takes longer than `limit`: reports what is left on stderr, and returns
  /// false.
  bool shutdown(Duration limit);

  [[nodiscard]] std::size_t workers() const noexcept { return regular_; }
  [[nodiscard]] PoolStats stats() const;

  [[nodiscard]] std::size_t live() const noexcept override;
  [[nodiscard]] Instant now() noexcept override { return kernel_->now(); }
  [[nodiscard]] Kernel& kernel() noexcept override { return *kernel_; }
  void arm_timer(TimerNode& timer) noexcept override;
  void disarm_timer(TimerNode& timer) noexcept override { timeline_.disarm(timer); }
  [[nodiscard]] std::uint32_t choose(std::uint32_t n) noexcept override;
  [[nodiscard]] const char* kind() const noexcept override { return "pool"; }
  [[nodiscard]] Wait::Flow flow_of_closures() const noexcept override { return Wait::Flow::fiber; }
  [[nodiscard]] Wait::Flow flow_of_coroutines() const noexcept override {
    return Wait::Flow::coroutine;
  }
  [[nodiscard]] std::uint64_t next_tid() noexcept override;
  void admit() noexcept override;
  void launch(Task& task) noexcept override;
  void ready(Task& task) noexcept override;
  void block(Task& task) override;
  void retire() noexcept override;
  void interrupt() noexcept override { kernel_->interrupt(); }
  void hold() noexcept override;
  void let_go() noexcept override;

 private:
  friend class PoolWorker;
  friend class Monitor;
  struct NextReady {
    static Task* get(Task& task) noexcept { return task.next_ready(); }
    static void set(Task& task, Task* next) noexcept { task.next_ready() = next; }
  };

  /// A thread that waits for tasks of this pool, and does nothing else.
  struct Waiting {
    explicit Waiting(Pool& p) noexcept : pool(p) { pool.waiting_.fetch_add(1); }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting() { pool.waiting_.fetch_sub(1); }
    Pool& pool;
  };

  static void refuse_in_task();
  void cancel_all() noexcept;
  void wait_until_quiet() noexcept;
  [[nodiscard]] PoolWorker* own_worker() const noexcept;
  [[nodiscard]] bool deliver(Task& task) noexcept;
  void inject(Task& task) noexcept;
  void rank(Task& task) noexcept;

  // A worker's day
  [[nodiscard]] std::size_t worker_count() const noexcept { return started_.load(); }
  void work(PoolWorker& worker);
  void look_outside(PoolWorker& worker);
  [[nodiscard]] Task* search(PoolWorker& worker) noexcept;
  [[nodiscard]] Task* look_around(PoolWorker& worker) noexcept;
  [[nodiscard]] Task* look_for_hot(PoolWorker& worker) noexcept;
  void stop_searching(PoolWorker& worker) noexcept;
  void stand_still(PoolWorker& worker) noexcept;
  void sleep(PoolWorker& worker);
  void tell_poller() noexcept;
  void poll(PoolWorker& worker);
  void wait_outside(PoolWorker& worker);
  void wait_without_deadline(PoolWorker& worker);
  [[nodiscard]] std::uint64_t tasks_ended() const noexcept;
  [[nodiscard]] std::uint64_t steps_taken() const noexcept;
  [[nodiscard]] bool nobody_is_up() const noexcept;
  [[nodiscard]] bool all_asleep() const noexcept;
  [[nodiscard]] bool work_anywhere() const noexcept;
  [[nodiscard]] bool work_waits() const noexcept;
  void tell_if_quiet() noexcept;
  [[nodiscard]] std::size_t own_threads() const noexcept;
  void stop_threads() noexcept;

  std::unique_ptr<Kernel> kernel_;
  const OnDeadlock on_deadlock_;
  const bool virtual_time_;
  const std::size_t regular_;  // workers that are always there
  Timeline timeline_;
  Injector<Task, NextReady> injector_;
  SharedRanks ranks_;
  Idlers idlers_;
  // Held by whoever is in the kernel's wait(), the poller for as long as it sleeps there. Others
  // only try it.
  Spinlock outside_;

  std::vector<std::unique_ptr<PoolWorker>> workers_;  // regular ones first; fixed
  Atomic<std::size_t> started_{0};                    // so many of them have a thread, or had one
  Atomic<bool> stopping_{false};
  Atomic<std::uint32_t> holds_{0};  // dumps that want the workers to stand still

  Atomic<std::uint32_t> quiet_{0};    // changes when no task is left
  Atomic<std::uint32_t> waiting_{0};  // threads in run() and block_on()
  DeadlockWatch deadlock_;
  std::unique_ptr<Monitor> monitor_;
  // Tasks from other threads. On a line of its own: the workers always look at the others.
  alignas(64) Atomic<std::uint64_t> admitted_{0};
};

}  // namespace weft

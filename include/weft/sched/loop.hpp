/// Loop: one thread, first in first out. The engine to read first.
///
///     weft::Loop loop;
///     int answer = loop.run([] { ...; return 42; });     // returns when no task is left
///
/// run() never returns while a task exists, and an idle loop sleeps in the kernel. If every task
/// waits and nothing can ever wake one of them, that is reported with who waits for what: the tasks
/// are cancelled, so that they clean up, and run() throws Deadlock. Other threads may spawn into a
/// loop and wake its tasks; as long as the process has other threads, a loop with nothing to do
/// waits for them (LoopOptions::on_deadlock decides).
///
/// A loop can also be a guest in another event loop: poll fd(), and call run_until_idle() when it
/// is readable.
///
/// One thread at a time drives a loop; it need not always be the same one.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/rng.hpp>
#include <weft/io/kernel.hpp>
#include <weft/sched/deadlock.hpp>
#include <weft/sched/ranked_queue.hpp>
#include <weft/task/io.hpp>
#include <weft/task/worker.hpp>
#include <weft/time/timeline.hpp>

namespace weft {

struct LoopOptions {
  IoOptions io{};
  /// The outside world; empty: the real one. make_virtual_kernel() gives virtual time.
  std::unique_ptr<Kernel> kernel{};
  OnDeadlock on_deadlock = OnDeadlock::automatic;
};

class Loop final : public Io {
 public:
  explicit Loop(LoopOptions options = {});
  /// Cancels what is left (reason: shutdown) and runs it to its end.
  ~Loop() noexcept override;

  /// Runs until no task is left.
  void run();
  /// Runs `f` as a task, until no task is left; gives f's result or throws its error.
  template <class F>
  auto run(F f) {
    refuse_in_task();
    auto handle = spawn(std::move(f), {.name = "main"});
    run();
    return handle.get();
  }
  /// Runs until `f` is done; other tasks stay where they are.
  template <class F>
  auto block_on(F f) {
    refuse_in_task();
    auto handle = spawn(std::move(f), {.name = "block_on"});
    drive([&] { return handle.done(); });
    return handle.get();
  }

  /// Cancels everything (reason: shutdown; what is spawned from now on is born cancelled) and runs
  /// it to its end. If that takes longer than `limit`: reports what is left on stderr, and returns
  /// false.
  bool shutdown(Duration limit);

  /// Runs what is ready now, without waiting, and what becomes ready by it, up to a bound. True if
  /// tasks remain.
  bool run_until_idle();
  /// Readable when run_until_idle() would do something; also covers the next deadline, so ask after
  /// each call. -1 if the kernel has no descriptors.
  [[nodiscard]] int fd();

  [[nodiscard]] Instant now() noexcept override { return kernel_->now(); }
  [[nodiscard]] Kernel& kernel() noexcept override { return *kernel_; }
  void arm_timer(TimerNode& timer) noexcept override { timeline_.arm(timer); }
  void disarm_timer(TimerNode& timer) noexcept override { timeline_.disarm(timer); }
  [[nodiscard]] std::uint32_t choose(std::uint32_t n) noexcept override { return rng_.below(n); }
  [[nodiscard]] const char* kind() const noexcept override { return "loop"; }
  [[nodiscard]] Wait::Flow flow_of_closures() const noexcept override { return Wait::Flow::fiber; }
  [[nodiscard]] Wait::Flow flow_of_coroutines() const noexcept override {
    return Wait::Flow::coroutine;
  }
  void ready(Task& task) noexcept override;
  void block(Task& task) override;
  void retire() noexcept override;
  void interrupt() noexcept override { kernel_->interrupt(); }

 private:
  /// First in, first out, until there is a task with another priority than the rest.
  class LoopWorker final : public Worker {
   public:
    using Worker::budget_;
    using Worker::Worker;

    [[nodiscard]] bool has_tasks() const noexcept { return !ready_.empty() || !ranked_.empty(); }
    void push(Task& task) noexcept {
      if (task.priority() != priority::normal && !fetches_) go_by_rank();
      if (fetches_) {
        ranked_.push(task);
      } else {
        ready_.push(task);
      }
    }
    Task* take() noexcept {
      Task* const task = ready_.pop();
      return task != nullptr || !fetches_ ? task : ranked_.pop();
    }

   private:
    Task* take_next(std::uint8_t at_least) noexcept override { return ranked_.pop(at_least); }
    void put_back(Task& task) noexcept override { ranked_.push(task); }
    bool take_fresh(Task& task) noexcept override {
      const bool alone = ready_.front() == &task && task.next_ready() == nullptr;
      if (!alone || fetches_ || task.fiber() != nullptr || task.resume_point()) return false;
      ready_.pop();
      return true;
    }
    void put_next(Task& task) noexcept override { ready_.push(task); }  // there is nobody else
    void go_by_rank() noexcept;

    RankedQueue ranked_;  // of a worker that fetches
  };
  static constexpr std::uint32_t hops_per_round = 256;

  static void refuse_in_task();
  template <class Done>
  void drive(Done done);
  class Driving;  // the calling thread drives the loop, for the time of a block
  void round();
  [[nodiscard]] bool prepare_to_sleep() noexcept;
  void look_outside();
  void idle();

  std::unique_ptr<Kernel> kernel_;
  const OnDeadlock on_deadlock_;
  Timeline timeline_;
  LoopWorker worker_;
  Rng rng_{1};
  DeadlockWatch deadlock_;
  std::atomic<bool> driving_{false};

  Inbox inbox_;
  Atomic<bool> asleep_{false};  // the next push must interrupt the kernel
};

class Loop::Driving {
 public:
  /// `alone`: until it is done; else it comes and goes, and somebody may sleep elsewhere meanwhile.
  explicit Driving(Loop& loop, bool alone = false);
  Driving(const Driving&) = delete;
  Driving& operator=(const Driving&) = delete;
  ~Driving();

 private:
  Loop& loop_;
  const bool alone_;
};

template <class Done>
void Loop::drive(Done done) {
  {
    const Driving driving(*this, true);
    while (!done()) {
      round();
      if (!done()) look_outside();
    }
  }
  deadlock_.throw_if_any();
}

/// Runs `f` on a loop of its own, from a plain thread.
template <class F>
auto block_on(F f) {
  Loop loop;
  return loop.run(std::move(f));
}

}  // namespace weft

/// Inline: a spawned task runs at once, to its end, on the calling thread.
///
///     weft::Inline io;
///     int answer = io.run([] { return work(); });
///
/// Waiting blocks the thread. For tiny tools and tests, and the way in which a plain thread takes
/// part in channels and timers. Since nothing runs concurrently here, two inline tasks cannot meet;
/// a wait that nobody can end is reported as a Deadlock if the process has no other thread.
///
/// One thread at a time uses an Inline (checked).
#pragma once

#include <weft/base/rng.hpp>
#include <weft/io/kernel.hpp>
#include <weft/sched/deadlock.hpp>
#include <weft/task/io.hpp>
#include <weft/task/worker.hpp>
#include <weft/time/timeline.hpp>

namespace weft {

struct InlineOptions {
  IoOptions io{};
  std::unique_ptr<Kernel> kernel{};  // empty: the real one, without descriptors
  OnDeadlock on_deadlock = OnDeadlock::automatic;
};

class Inline final : public Io {
 public:
  explicit Inline(InlineOptions options = {});
  ~Inline() noexcept override;

  template <class F>
  auto run(F f) {
    auto handle = spawn(std::move(f), {.name = "main"});
    deadlock_.throw_if_any();
    return handle.get();
  }

  [[nodiscard]] Instant now() noexcept override { return kernel_->now(); }
  [[nodiscard]] Kernel& kernel() noexcept override { return *kernel_; }
  void arm_timer(TimerNode& timer) noexcept override { timeline_.arm(timer); }
  void disarm_timer(TimerNode& timer) noexcept override { timeline_.disarm(timer); }
  [[nodiscard]] std::uint32_t choose(std::uint32_t n) noexcept override { return rng_.below(n); }
  [[nodiscard]] const char* kind() const noexcept override { return "inline"; }
  [[nodiscard]] Wait::Flow flow_of_closures() const noexcept override { return Wait::Flow::thread; }
  [[nodiscard]] Wait::Flow flow_of_coroutines() const noexcept override {
    return Wait::Flow::thread;
  }
  /// Runs the task here and now.
  void launch(Task& task) noexcept override;
  /// Ends the block() of the task's thread.
  void ready(Task& task) noexcept override;
  void interrupt() noexcept override { kernel_->interrupt(); }
  void block(Task& task) override;
  void retire() noexcept override;

 private:
  void wait_a_little(const Task& task);

  std::unique_ptr<Kernel> kernel_;
  const OnDeadlock on_deadlock_;
  Timeline timeline_;
  Worker worker_;
  Rng rng_{1};
  DeadlockWatch deadlock_;
  std::atomic<Task*> woken_{nullptr};  // the blocked task, when it may go on
};

}  // namespace weft

#include <weft/sched/inline.hpp>

#include <weft/task/dump.hpp>
#include <weft/wait/perform.hpp>

#include <cstdio>
#include <utility>

namespace weft {

Inline::Inline(InlineOptions options)
    : Io(std::move(options.io)),
      kernel_(options.kernel ? std::move(options.kernel) : make_thread_kernel()),
      on_deadlock_(options.on_deadlock),
      timeline_(kernel_->now()),
      worker_(*this) {}

void Inline::launch(Task& task) noexcept {
  // Nested: a task that spawns another one on the same Io waits beneath it on the same stack.
  const bool outermost = this_worker() != &worker_;
  if (outermost) worker_.attach();
  Wait* const spawner = std::exchange(worker_.wait, nullptr);
  worker_.run_on_thread(task);
  worker_.wait = spawner;
  if (outermost) worker_.detach();
}

void Inline::ready(Task& task) noexcept {
  woken_.store(&task);  // seq_cst, as the load in block(); the interrupt is the actual wake-up
  kernel_->interrupt();
}

void Inline::block(Task& task) {
  task.to_state(TaskState::blocked);
  if (!task.park()) {
    task.to_state(TaskState::ready);
  } else {
    while (woken_.load() != &task) {
      const Instant next = timeline_.next();
      if (next.is_never() &&
          (on_deadlock_ == OnDeadlock::fail ||
           (on_deadlock_ == OnDeadlock::automatic && !kernel_->outside_may_wake()))) {
        handle_deadlock();
        continue;
      }
      kernel_->wait(next);
      answer_dump_request(*this);
      WakeList wakes;
      timeline_.advance(kernel_->now(), wakes);
    }
    woken_.store(nullptr);
  }
  task.to_state(TaskState::running);
}

void Inline::handle_deadlock() {
  std::string report = "deadlock: the thread waits and nothing can wake it\n" + dump(*this);
  WEFT_CHECK(deadlock_report_.empty(), "a task still waits after it was cancelled for a ", report,
             "  (a Shield that waits for something that never comes?)");
  std::fputs(("weft: " + report).c_str(), stderr);
  deadlock_report_ = std::move(report);
  root().cancel_children(CancelReason::deadlock);
}

void Inline::throw_if_deadlocked() {
  if (!deadlock_report_.empty()) throw Deadlock(std::exchange(deadlock_report_, {}));
}

void Inline::retire(Task&) noexcept {
  live_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: a report
}

void detail::on_plain_thread(void (*body)(void*), void* argument) {
  Inline io;
  io.run([=] { body(argument); });
}

}  // namespace weft

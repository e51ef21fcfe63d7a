#include <weft/sched/inline.hpp>

#include <weft/task/dump.hpp>
#include <weft/wait/perform.hpp>

#include <utility>

namespace weft {

Inline::Inline(InlineOptions options)
    : Io(std::move(options.io)),
      kernel_(options.kernel ? std::move(options.kernel) : make_thread_kernel()),
      on_deadlock_(options.on_deadlock),
      timeline_(kernel_->now()),
      worker_(*this) {
  enter_registry();
}

Inline::~Inline() noexcept {
  leave_registry();
  wait_for_visitors();
}

void Inline::launch(Task& task) noexcept {
  // A task that spawns another one waits beneath it on the same stack; another engine may lie
  // between them.
  Current* const before = current();
  if (worker_.attached_here()) {
    set_current(&worker_);
    Wait* const spawner = std::exchange(worker_.wait, nullptr);
    worker_.run_on_thread(task);
    worker_.wait = spawner;
    set_current(before);
    return;
  }
  deadlock_.forget();
  worker_.attach(false);
  worker_.run_on_thread(task);
  worker_.wait = nullptr;
  worker_.detach();
}

void Inline::ready(Task& task) noexcept {
  const Visit visit(*this);
  woken_.store(&task);  // seq_cst, as the load in block(); the interrupt is the actual wake-up
  kernel_->interrupt();
}

void Inline::block(Task& task) {
  task.to_state(TaskState::blocked);
  if (task.park()) {
    while (woken_.load() != &task) wait_a_little(task);
    woken_.store(nullptr);
    wait_for_visitors();  // whoever woke us may still be at it, and we may be gone soon
  } else {
    task.to_state(TaskState::ready);
  }
  task.to_state(TaskState::running);
}

void Inline::wait_a_little(const Task& task) {
  const Instant next = timeline_.next();
  if (!next.is_never()) {
    kernel_->wait(next);
  } else if (deadlock_.nobody_will_wake(*kernel_, on_deadlock_) && woken_.load() != &task) {
    deadlock_.declare(*this);
    return;
  }
  answer_dump_request(*this);
  WakeList wakes;
  timeline_.advance(kernel_->now(), wakes);
}

void Inline::retire() noexcept {
  live_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: a report
}

void detail::on_plain_thread(void (*body)(void*), void* argument) {
  Inline io;
  io.run([=] { body(argument); });
}

}  // namespace weft

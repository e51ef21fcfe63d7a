#include <weft/sched/loop.hpp>

#include <weft/task/dump.hpp>

#include <cstdio>

namespace weft {

Loop::Loop(LoopOptions options)
    : Io(std::move(options.io)),
      kernel_(options.kernel ? std::move(options.kernel) : make_real_kernel()),
      on_deadlock_(options.on_deadlock),
      timeline_(kernel_->now()),
      worker_(*this) {}

Loop::~Loop() {
  if (live() == 0) return;
  root().cancel(CancelReason::shutdown);
  try {
    run();
  } catch (const Deadlock& stuck) {
    // Reported already; the tasks were cancelled and have ended.
  }
}

void Loop::begin_driving() {
  WEFT_CHECK(!driving_, "this loop is already being run, by this thread or another one");
  WEFT_CHECK(this_task() == nullptr,
             "run() and block_on() would block the worker of the calling task; spawn instead");
  driving_ = true;
  worker_.attach();
}

void Loop::end_driving() noexcept {
  worker_.detach();
  driving_ = false;
}

void Loop::run() {
  drive([this] { return live() == 0; });
}

bool Loop::run_until_idle() {
  begin_driving();
  kernel_->wait(kernel_->now());  // takes what made fd() readable
  do {
    round();
  } while (!worker_.ready_.empty() || !prepare_to_sleep());
  end_driving();
  return live() > 0;
}

int Loop::fd() {
  return kernel_->poll_fd(timeline_.next());
}

// Timers and messages first, then a bounded number of tasks.
void Loop::round() {
  asleep_.store(false,
                std::memory_order_relaxed);  // relaxed: a needless interrupt is all it can cost
  answer_dump_request(*this);
  inbox_.drain_into(worker_.ready_);
  if (!timeline_.next().is_never()) {
    WakeList wakes;
    timeline_.advance(kernel_->now(), wakes);
  }
  worker_.budget_ = hops_per_round;
  while (worker_.budget_ > 0) {
    Task* task = worker_.ready_.pop();
    if (task == nullptr) break;
    --worker_.budget_;
    worker_.run(*task);
  }
}

// Tells other threads that they must interrupt, then looks once more: either we see their push, or
// they see that we sleep (both sides are sequentially consistent).
bool Loop::prepare_to_sleep() noexcept {
  asleep_.store(true);
  if (inbox_.empty()) return true;
  asleep_.store(false, std::memory_order_relaxed);  // relaxed: as in round()
  return false;
}

void Loop::idle() {
  if (!prepare_to_sleep()) return;
  const Instant next = timeline_.next();
  if (next.is_never()) {
    const bool stuck = on_deadlock_ == OnDeadlock::fail ||
                       (on_deadlock_ == OnDeadlock::automatic && !kernel_->outside_may_wake());
    if (stuck) {
      handle_deadlock();
      return;
    }
  }
  kernel_->wait(next);
}

void Loop::handle_deadlock() {
  std::string report = "deadlock: " + std::to_string(live()) +
                       " task(s) wait and nothing can wake them\n" + dump(*this);
  WEFT_CHECK(deadlock_report_.empty(), "tasks still wait after they were cancelled for a ", report,
             "  (a Shield that waits for something that never comes?)");
  std::fputs(("weft: " + report).c_str(), stderr);
  deadlock_report_ = std::move(report);
  root().cancel_children(CancelReason::deadlock);  // not the root itself: the loop stays usable
}

void Loop::ready(Task& task) noexcept {
  if (this_worker() == &worker_) {
    worker_.ready_.push(task);
    return;
  }
  inbox_.push(task);
  if (asleep_.exchange(false)) kernel_->interrupt();  // seq_cst: see prepare_to_sleep()
}

void Loop::block(Task& task) {
  WEFT_CHECK(false, "task '", task.name(), "' on a loop has no thread to block");
}

void Loop::retire(Task&) noexcept {
  live_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: only this thread decides on it
}

}  // namespace weft

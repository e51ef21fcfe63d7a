#include <weft/sched/loop.hpp>

#include <weft/task/dump.hpp>

#include "sched/nap.hpp"

namespace weft {

Loop::Loop(LoopOptions options)
    : Io(std::move(options.io)),
      kernel_(options.kernel ? std::move(options.kernel) : make_real_kernel()),
      on_deadlock_(options.on_deadlock),
      timeline_(kernel_->now()),
      worker_(*this) {
  enter_registry();
}

Loop::~Loop() noexcept {
  if (live() > 0) {
    root().cancel(CancelReason::shutdown);
    try {
      drive([this] { return live() == 0; });
    } catch (const Deadlock&) {
      // Reported already; the tasks were cancelled and have ended.
    }
  }
  leave_registry();
  wait_for_visitors();
}

void Loop::refuse_in_task() {
  if (this_task() == nullptr) return;
  throw std::logic_error(
      "running a loop inside a task would block the task's worker; spawn and join instead");
}

void Loop::LoopWorker::go_by_rank() noexcept {
  while (Task* task = ready_.pop()) ranked_.push(*task);
  fetches_ = true;
}

Loop::Driving::Driving(Loop& loop, bool alone) : loop_(loop), alone_(alone) {
  if (loop_.driving_.exchange(true)) {
    throw std::logic_error("this loop is already being run, by this thread or another one");
  }
  try {
    loop_.worker_.attach(true);
  } catch (...) {
    loop_.driving_.store(false);
    throw;
  }
  if (alone_) loop_.kernel_->begin_driving();
}

Loop::Driving::~Driving() {
  if (alone_) loop_.kernel_->end_driving();
  loop_.worker_.detach();
  loop_.driving_.store(false);
}

void Loop::run() {
  refuse_in_task();
  drive([this] { return live() == 0; });
}

bool Loop::shutdown(Duration limit) {
  struct Limit : TimerNode {
    explicit Limit(Loop& l) noexcept
        : TimerNode(
              [](TimerNode& self, WakeList&) noexcept { static_cast<Limit&>(self).passed = true; }),
          loop(l) {}
    ~Limit() { loop.disarm_timer(*this); }
    Loop& loop;
    bool passed = false;
  } timer(*this);
  refuse_in_task();
  {
    const Driving nobody_else_does(*this);
  }  // or it throws, before anything has happened
  root().cancel(CancelReason::shutdown);
  timer.deadline = now() + limit;
  if (!timer.deadline.is_never()) arm_timer(timer);
  drive([&] { return live() == 0 || timer.passed; });
  if (live() == 0) return true;
  report_leftovers();
  return false;
}

bool Loop::run_until_idle() {
  refuse_in_task();
  constexpr int most_rounds = 64;  // the host wants its turn, even if some task always yields
  const Driving driving(*this);
  kernel_->wait(Instant{});  // takes what made fd() readable
  for (int i = 0; i < most_rounds; ++i) {
    round();
    if (!worker_.has_tasks() && prepare_to_sleep()) return live() > 0;
    if (kernel_->in_use()) kernel_->wait(Instant{});
  }
  kernel_->interrupt();  // there is more: fd() stays readable
  return live() > 0;
}

int Loop::fd() {
  if (worker_.has_tasks() || !prepare_to_sleep()) kernel_->interrupt();
  return kernel_->poll_fd(timeline_.next());
}

// Timers and messages first, then a bounded number of tasks.
void Loop::round() {
  asleep_.store(false,
                std::memory_order_relaxed);  // relaxed: can cost a needless interrupt, no more
  answer_dump_request(*this);
  ReadyQueue arrived;
  inbox_.drain_into(arrived);
  while (Task* task = arrived.pop()) worker_.push(*task);
  if (!timeline_.next().is_never()) {
    WakeList wakes;
    timeline_.advance(kernel_->now(), wakes);
  }
  worker_.budget_ = hops_per_round;
  while (worker_.budget_ > 0) {
    Task* task = worker_.take();
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

// A round is over: wait for something to do; or, with more to do already, let in what has come.
void Loop::look_outside() {
  if (!worker_.has_tasks()) {
    idle();
  } else if (kernel_->in_use()) {
    kernel_->wait(Instant{});
  }
}

void Loop::idle() {
  if (!prepare_to_sleep()) return;
  const Instant next = timeline_.next();
  if (!next.is_never()) {
    kernel_->wait(nap_until(next, timeline_, *kernel_));
  } else if (deadlock_.nobody_will_wake(*kernel_, on_deadlock_) && inbox_.empty()) {
    deadlock_.declare(*this);
  }
}

void Loop::ready(Task& task) noexcept {
  if (this_worker() == &worker_) {
    worker_.push(task);
    return;
  }
  const Visit visit(*this);
  inbox_.push(task);
  if (asleep_.exchange(false)) kernel_->interrupt();  // seq_cst: see prepare_to_sleep()
}

void Loop::block(Task& task) {
  WEFT_CHECK(false, "task '", task.name(), "' on a loop has no thread to block");
}

void Loop::retire() noexcept {
  live_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: only this thread decides on it
}

}  // namespace weft

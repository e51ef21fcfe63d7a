#include <weft/time/sleep.hpp>

#include <weft/task/io.hpp>

namespace weft {

SleepOp::Timer::Timer() noexcept
    : TimerNode([](TimerNode& node, WakeList& wakes) noexcept {
        Arm& waiting = *static_cast<Timer&>(node).arm;
        if (waiting.claim()) wakes.add(waiting);
      }) {}

bool SleepOp::try_now() const {
  if (!absolute_) return lasting_ <= Duration::zero();
  const Task* task = this_task();
  return task != nullptr && task->io().now() >= until_;
}

Armed SleepOp::arm(Arm& arm) noexcept {
  Io& io = arm.wait->io();
  if (!absolute_) {  // fixed at the first arming: a retry does not start over
    until_ = io.now() + lasting_;
    absolute_ = true;
  }
  if (until_.is_never())
    return Armed::waiting;  // no timer: the clock must not run to the end of time
  timer_.arm = &arm;
  timer_.deadline = until_;
  io.arm_timer(timer_);
  return Armed::waiting;
}

void SleepOp::disarm(Arm& arm) noexcept {
  arm.wait->io().disarm_timer(timer_);
}

}  // namespace weft

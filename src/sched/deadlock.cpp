#include <weft/sched/deadlock.hpp>

#include <weft/task/dump.hpp>
#include <weft/task/io.hpp>

#include <cstdio>
#include <utility>

namespace weft {

bool nobody_will_wake(Kernel& kernel, OnDeadlock policy, std::size_t own) {
  if (policy == OnDeadlock::wait || kernel.expects()) {
    kernel.wait(Instant::never());
    return false;
  }
  if (policy == OnDeadlock::fail) return true;
  // Counting threads is slow, and a thread that has just ended may still be counted: only after a
  // while, and then again and again.
  const Duration patience = kernel.patience();
  if (patience == Duration::zero()) return !kernel.outside_may_wake(own);
  const Instant until = kernel.now() + patience;
  kernel.wait(until);
  return kernel.now() >= until && !kernel.outside_may_wake(own);
}

void DeadlockFound::declare(Io& io) {
  std::string report = "deadlock: " + std::to_string(io.live()) +
                       " task(s) wait and nothing can wake them\n" + dump(io);
  const std::lock_guard guard(mutex_);
  WEFT_CHECK(report_.empty(), "tasks still wait after they were cancelled for a ", report,
             "  (a Shield that waits for something that never comes?)");
  std::fputs(("weft: " + report).c_str(), stderr);
  report_ = std::move(report);
  io.root().cancel_children(CancelReason::deadlock);
}

void DeadlockFound::throw_if_any() {
  const std::lock_guard guard(mutex_);
  if (!report_.empty()) throw Deadlock(std::exchange(report_, {}));
}

void DeadlockFound::forget() noexcept {
  const std::lock_guard guard(mutex_);
  report_.clear();
}

}  // namespace weft

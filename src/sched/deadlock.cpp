#include <weft/sched/deadlock.hpp>

namespace weft {

bool nobody_will_wake(Kernel& kernel, OnDeadlock policy) {
  if (policy == OnDeadlock::fail) return true;
  if (policy == OnDeadlock::wait) {
    kernel.wait(Instant::never());
    return false;
  }
  if (kernel.expects()) {
    kernel.wait(Instant::never());
    return false;
  }
  // Counting threads is slow, and a thread that has just ended may still be counted: only after a
  // while, and then again and again.
  const Duration patience = kernel.patience();
  if (patience == Duration::zero()) return !kernel.outside_may_wake();
  const Instant until = kernel.now() + patience;
  kernel.wait(until);
  return kernel.now() >= until && !kernel.outside_may_wake();
}

}  // namespace weft

#include <weft/sched/deadlock.hpp>

#include <weft/task/dump.hpp>
#include <weft/task/io.hpp>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace weft {

namespace {
constexpr Duration longest_patience = std::chrono::seconds(5);
}

bool DeadlockWatch::nobody_will_wake(Kernel& kernel, OnDeadlock policy, std::size_t own) {
  if (policy == OnDeadlock::wait || kernel.expects()) {
    kernel.wait(Instant::never());
    return false;
  }
  if (policy == OnDeadlock::fail) return true;
  // Counting threads is slow, and a thread that has just ended may still be counted: only after a
  // while, and then again and again, but ever more seldom: a program may wait for days.
  const Duration shortest = kernel.patience();
  if (shortest == Duration::zero()) return !kernel.outside_may_wake(own);
  patience_ = std::clamp(2 * patience_, shortest, std::max(shortest, longest_patience));
  const Instant until = kernel.now() + patience_;
  kernel.wait(until);
  if (kernel.now() < until) {
    patience_ = {};  // something happened
    return false;
  }
  return !kernel.outside_may_wake(own);
}

void DeadlockWatch::declare(Io& io) {
  std::string report = "deadlock: " + std::to_string(io.live()) +
                       " task(s) wait and nothing can wake them\n" + dump(io);
  bool stubborn = false;
  bool any_to_cancel = false;
  io.root().walk([&](const CancelNode& node, std::size_t) noexcept {
    if (node.kind() != CancelNode::Kind::task) return;
    stubborn |= node.cancel_reason() == CancelReason::deadlock;
    any_to_cancel |= node.cancel_reason() == CancelReason::none;
  });
  // Once may be a canceller on some thread who is not through yet.
  const bool deaf = std::exchange(all_cancelled_before_, !any_to_cancel) && !any_to_cancel;
  WEFT_CHECK(!deaf && !stubborn, "tasks still wait after they were cancelled: ", report,
             "  (a Shield that waits for something that never comes?)");
  std::fputs(("weft: " + report).c_str(), stderr);
  {
    const std::lock_guard guard(mutex_);
    report_ += report;
  }
  io.root().cancel_children(CancelReason::deadlock);
}

void DeadlockWatch::throw_if_any() {
  const std::lock_guard guard(mutex_);
  if (!report_.empty()) throw Deadlock(std::exchange(report_, {}));
}

void DeadlockWatch::forget() noexcept {
  const std::lock_guard guard(mutex_);
  report_.clear();
}

}  // namespace weft

/// An entry in an Io's timeline: a deadline and what to do when it is reached. Embedded in whatever
/// waits (a sleep, a scope with a deadline); arming and disarming go through the Io.
#pragma once

#include <weft/base/time.hpp>
#include <weft/wait/wait.hpp>

namespace weft {

struct TimerNode : ListNode<> {
  /// Called under the timeline's lock, when the deadline has passed and the node is out of the
  /// timeline. It claims what it must and leaves the waking to the list, which is committed after
  /// the lock.
  using Expire = void (*)(TimerNode&, WakeList&) noexcept;

  explicit TimerNode(Expire on_expire) noexcept : expire(on_expire) {}

  Instant deadline{};
  const Expire expire;
  std::uint16_t bucket = 0;  // the timeline's own
};

}  // namespace weft

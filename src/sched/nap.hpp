// How exactly to wait for timers.
//
// Those that come thick and fast are met together, a little late: being woken for each of them
// takes more than all they have to do. (Of 100,000 sleeps in a second: 680 ms of a processor,
// instead of 150.) One that comes alone, or with two others, is met as exactly as the machine can.
#pragma once

#include <weft/io/kernel.hpp>
#include <weft/time/timeline.hpp>

#include <algorithm>

namespace weft {

/// Until when to wait, if no timer fires before `next`.
inline Instant nap_until(Instant next, const Timeline& timeline, Kernel& kernel) noexcept {
  constexpr Duration at_least = std::chrono::microseconds(200);
  if (!timeline.crowded()) return next;
  if (kernel.patience() == Duration::zero()) return next;  // virtual time
  const Instant now = kernel.now();
  return next <= now ? next : std::max(next, now + at_least);
}

}  // namespace weft

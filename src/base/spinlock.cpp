#include <weft/base/spinlock.hpp>

#include <sched.h>

namespace weft {

// Whoever looks takes the line with the lock, and often all that it protects, from the holder's
// cache. Holders come back soon: in the half microsecond between two looks one that stays
// undisturbed takes the lock a dozen times and more. (Looking again after one pause, a channel that
// two cores share took four times as long per value.)
void spin_between_looks(int look) noexcept {
  constexpr int pauses_between_looks = 32;
  constexpr int looks_before_yield = 8;
  if (look < looks_before_yield) {
    spin_pause(pauses_between_looks);
  } else {
    ::sched_yield();  // the holder may have been preempted on this very core
  }
}

void Spinlock::lock_slow() noexcept {
  for (int look = 0; !try_lock(); ++look) spin_between_looks(look);
}

BitLock::Bits BitLock::lock_slow() noexcept {
  for (int look = 0;; ++look) {
    const Bits bits = glimpse();
    // acquire: as in lock().
    if ((bits & held) == 0 && change(bits, bits | held, std::memory_order_acquire)) return bits;
    spin_between_looks(look);
  }
}

}  // namespace weft

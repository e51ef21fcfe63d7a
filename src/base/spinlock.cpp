#include <weft/base/spinlock.hpp>

#include <sched.h>

namespace weft {

void Spinlock::lock_slow() noexcept {
  constexpr int spins_before_yield = 64;
  for (int spin = 0;; ++spin) {
    if (try_lock()) return;
    if (spin < spins_before_yield) {
      spin_pause();
    } else {
      ::sched_yield();  // the holder may have been preempted on this very core
    }
  }
}

}  // namespace weft

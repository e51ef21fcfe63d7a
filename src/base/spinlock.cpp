#include <weft/base/spinlock.hpp>

#include <sched.h>

namespace weft {

namespace {

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace

void Spinlock::lock_slow() noexcept {
  constexpr int spins_before_yield = 64;
  for (int spin = 0;; ++spin) {
    if (try_lock()) return;
    if (spin < spins_before_yield) {
      pause();
    } else {
      ::sched_yield();  // the holder may have been preempted on this very core
    }
  }
}

}  // namespace weft

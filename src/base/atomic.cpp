#include <weft/base/atomic.hpp>

#if defined(WEFT_STALLS)

#include <cstdint>

#include <sched.h>

namespace weft {

void stall() noexcept {
  // Never read across a switch: nothing below suspends.
  thread_local std::uint64_t state = 0;
  if (state == 0) state = reinterpret_cast<std::uintptr_t>(&state) | 1;
  state = state * 6364136223846793005U + 1442695040888963407U;
  const auto dice = static_cast<std::uint32_t>(state >> 40);
  if (dice % 32 == 0) {
    for (std::uint32_t i = dice >> 10; i > 0; --i) asm volatile("" ::: "memory");
  } else if (dice % 64 == 1) {
    ::sched_yield();
  } else if (dice % 2048 == 2) {
    for (int i = 0; i < 50; ++i) ::sched_yield();
  }
}

}  // namespace weft

#endif

/// Fences: between a store and a load of something else that must not overtake it.
///
/// Two threads that each write a word and then look at the other's ("I wait" and "you are
/// cancelled") need one on both sides; then at least one sees the other. It costs as much as an
/// atomic change of a word, which is a third of what a lock costs; so where a lock is taken in
/// between anyway, that is made use of.
///
/// ThreadSanitizer does not see them, and need not: they order what is atomic already.
///
/// Rejected here: membarrier(2), by which the rare side pays for both. It takes 9 microseconds, and
/// disturbs every processor on which the process runs; cancellations are not that rare. (Locks that
/// lean do so: wait/leaning_lock.hpp.)
#pragma once

#include <weft/base/atomic.hpp>

namespace weft {

#if !defined(__x86_64__)
namespace detail {
inline void processor_fence() noexcept {
#if defined(WEFT_TSAN)
  // ThreadSanitizer does not know fences, and GCC warns of each.
  static constinit std::atomic<int> nothing{0};
  nothing.fetch_add(0);
#else
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}
}  // namespace detail
#endif

/// A sequentially consistent fence.
[[gnu::always_inline]] inline void full_fence() noexcept {
#if defined(__x86_64__)
  if (!only_thread()) asm volatile("lock; addl $0, (%%rsp)" ::: "memory", "cc");
#else
  detail::processor_fence();
#endif
}

/// The same, if the thread has locked a Spinlock or a BitLock since the store, or a LeaningLock
/// with a fence.
[[gnu::always_inline]] inline void fence_after_lock() noexcept {
#if defined(__x86_64__)
  // For the compiler only: to the processor every locked instruction is a full fence.
  std::atomic_signal_fence(std::memory_order_seq_cst);
#else
  detail::processor_fence();
#endif
}

}  // namespace weft

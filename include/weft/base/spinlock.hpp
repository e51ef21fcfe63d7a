/// A one-byte lock for critical sections of a few instructions.
///
///     std::lock_guard guard(lock_);
///
/// Never held across a wake, a switch or a call into user code (rule 3 of the waist), so a holder
/// is never off-CPU for long by our own doing; a preempted holder is waited for with `sched_yield`
/// after a short spin.
#pragma once

#include <weft/base/atomic.hpp>

#include <cstdint>

namespace weft {

/// For loops that wait for another thread: leaves the core to its neighbour for a while, some 20 ns
/// each time. What comes after it is not begun before it is over. (A processor guesses when such a
/// loop ends, often too early, and runs ahead: it then looks at what others are at work on, and
/// takes the line from them, again and again. A channel that two cores share took twice as long.)
inline void spin_pause(int times = 1) noexcept {
#if defined(__x86_64__)
  for (int i = 0; i < times; ++i) __builtin_ia32_pause();
  __builtin_ia32_lfence();
#elif defined(__aarch64__)
  // It waits for what was guessed itself.
  for (int i = 0; i < times; ++i) asm volatile("isb" ::: "memory");
#endif
}

/// Between two looks at a lock that is held; `look` counts from 0.
void spin_between_looks(int look) noexcept;

class Spinlock {
 public:
  [[gnu::always_inline]] void lock() noexcept {
    // acquire: partner is the release store in unlock().
    if (__builtin_expect(held_.exchange(true, std::memory_order_acquire), 0)) lock_slow();
  }

  [[nodiscard]] bool try_lock() noexcept {
    // acquire: partner is the release store in unlock().
    return !held_.load(std::memory_order_relaxed) &&
           !held_.exchange(true, std::memory_order_acquire);
  }

  [[gnu::always_inline]] void unlock() noexcept {
    // release: partner is the acquiring exchange in lock() and try_lock().
    held_.store(false, std::memory_order_release);
  }

 private:
  void lock_slow() noexcept;
  Atomic<bool> held_{false};
};

/// A spinlock that shares its word with a few bits of what it guards. A change of these that
/// concerns nobody else is one step, and needs no lock:
///
///     auto bits = lock_.glimpse();
///     if ((bits & (BitLock::held | taken)) == 0 && lock_.change(bits, bits | taken, ...)) return;
///     bits = lock_.lock();                                // now they stand still, until:
///     lock_.unlock(bits | crowded);
class BitLock {
 public:
  using Bits = std::uint32_t;
  static constexpr Bits held = 1;  // the others are free

  /// Gives the bits.
  [[gnu::always_inline]] Bits lock() noexcept {
    const Bits bits = glimpse();
    // acquire: partner is the release store in unlock(), or a change() that releases.
    if ((bits & held) == 0 && change(bits, bits | held, std::memory_order_acquire)) [[likely]]
      return bits;
    return lock_slow();
  }
  [[gnu::always_inline]] void unlock(Bits bits) noexcept {
    // release: partners are lock(), and a change() that acquires.
    word_.store(bits, std::memory_order_release);
  }

  /// With `held`, if somebody does.
  [[nodiscard, gnu::always_inline]] Bits glimpse() const noexcept {
    return word_.load(std::memory_order_relaxed);  // relaxed: a hint
  }
  /// From exactly what was glimpsed, which was not held.
  [[nodiscard, gnu::always_inline]] bool change(Bits from, Bits to,
                                                std::memory_order order) noexcept {
    // relaxed if it fails: nothing was learnt.
    return word_.compare_exchange_strong(from, to, order, std::memory_order_relaxed);
  }

 private:
  Bits lock_slow() noexcept;
  Atomic<Bits> word_{0};
};

}  // namespace weft

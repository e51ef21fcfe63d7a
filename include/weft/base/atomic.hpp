/// Atomic<T>: std::atomic<T>, for the words that protocols between threads rest on.
///
/// As long as the process has only one thread, a change of such a word is a load and a store: what
/// takes a processor 20 cycles to do atomically takes it one, and a task's life is made of a dozen
/// of these. The C library knows (it is how it spares malloc its locks), and notes the second
/// thread before that runs; so everything done before is visible to it. From then on, for good,
/// all is atomic. (Hence no Atomic may be changed by signal handlers: these use std::atomic.)
///
/// In a build with WEFT_STALLS (cmake -DWEFT_STALLS=ON, `make stalls`) every operation on them may
/// stall the thread first, at random: gaps of a few instructions, which a test would hit once in a
/// year, become wide enough to fall into. For tests only; the library and its users must agree on
/// it, which the CMake target sees to.
#pragma once

#include <weft/base/sanitized.hpp>

#include <atomic>

#if defined(WEFT_STALLS) || defined(WEFT_TSAN) || !__has_include(<sys/single_threaded.h>)
#define WEFT_NEVER_ALONE 1
#else
#include <sys/single_threaded.h>
#endif

namespace weft {

#if defined(WEFT_STALLS)
/// Most of the time nothing; else a pause, or the processor is given away.
void stall() noexcept;
#else
inline void stall() noexcept {}
#endif

/// Is this the only thread of the process? (ThreadSanitizer is told no: it wants to see what orders
/// what.)
[[nodiscard]] inline bool only_thread() noexcept {
#if defined(WEFT_NEVER_ALONE)
  return false;
#else
  return __libc_single_threaded != 0;
#endif
}

// Everything is in line by force: compilers stop doing it by themselves in large files, and then
// what takes one instruction takes twenty.
template <class T>
class Atomic {
  using Order = std::memory_order;
  static constexpr Order strongest = std::memory_order_seq_cst;

 public:
  constexpr Atomic() noexcept = default;
  constexpr Atomic(T value) noexcept : word_(value) {}  // NOLINT: as std::atomic
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  [[gnu::always_inline]] T load(Order order = strongest) const noexcept {
    stall();
    return word_.load(order);
  }
  [[gnu::always_inline]] void store(T value, Order order = strongest) noexcept {
    stall();
    if (order == strongest && only_thread()) {
      word_.store(value, std::memory_order_relaxed);  // relaxed: there is nobody else
    } else {
      word_.store(value, order);
    }
  }
  [[gnu::always_inline]] T exchange(T value, Order order = strongest) noexcept {
    stall();
    if (!only_thread()) return word_.exchange(value, order);
    return change_alone([&](T) { return value; });
  }
  template <class... Orders>
  [[gnu::always_inline]] bool compare_exchange_weak(T& expected, T value,
                                                    Orders... orders) noexcept {
    stall();
    return only_thread() ? replace_alone(expected, value)
                         : word_.compare_exchange_weak(expected, value, orders...);
  }
  template <class... Orders>
  [[gnu::always_inline]] bool compare_exchange_strong(T& expected, T value,
                                                      Orders... orders) noexcept {
    stall();
    return only_thread() ? replace_alone(expected, value)
                         : word_.compare_exchange_strong(expected, value, orders...);
  }
  /// The same, for whoever has just loaded what is expected: alone, nothing can have changed it.
  [[gnu::always_inline]] bool replace(T& loaded, T value, Order order) noexcept {
    stall();
    if (!only_thread()) {
      return word_.compare_exchange_strong(loaded, value, order, std::memory_order_relaxed);
    }
    word_.store(value, std::memory_order_relaxed);  // relaxed: there is nobody else
    return true;
  }
  [[gnu::always_inline]] T fetch_add(T value, Order order = strongest) noexcept {
    stall();
    if (!only_thread()) return word_.fetch_add(value, order);
    return change_alone([&](T before) { return static_cast<T>(before + value); });
  }
  [[gnu::always_inline]] T fetch_sub(T value, Order order = strongest) noexcept {
    stall();
    if (!only_thread()) return word_.fetch_sub(value, order);
    return change_alone([&](T before) { return static_cast<T>(before - value); });
  }
  [[gnu::always_inline]] T fetch_or(T value, Order order = strongest) noexcept {
    stall();
    if (!only_thread()) return word_.fetch_or(value, order);
    return change_alone([&](T before) { return static_cast<T>(before | value); });
  }
  [[gnu::always_inline]] T fetch_and(T value, Order order = strongest) noexcept {
    stall();
    if (!only_thread()) return word_.fetch_and(value, order);
    return change_alone([&](T before) { return static_cast<T>(before & value); });
  }
  void wait(T old) const noexcept {
    stall();
    word_.wait(old);
  }
  void notify_one() noexcept {
    stall();
    word_.notify_one();
  }
  void notify_all() noexcept {
    stall();
    word_.notify_all();
  }

 private:
  // relaxed, in both: there is nobody else.
  template <class F>
  [[gnu::always_inline]] T change_alone(F change) noexcept {
    const T before = word_.load(std::memory_order_relaxed);
    word_.store(change(before), std::memory_order_relaxed);
    return before;
  }
  [[gnu::always_inline]] bool replace_alone(T& expected, T value) noexcept {
    const T before = word_.load(std::memory_order_relaxed);
    const bool same = before == expected;
    if (same) word_.store(value, std::memory_order_relaxed);
    expected = before;
    return same;
  }

  std::atomic<T> word_{};
};

/// A plain variable that others may glimpse: its writers take turns (under a lock, say), and
/// whoever reads it out of turn gets a hint.
template <class T>
class Relaxed {
 public:
  constexpr Relaxed() noexcept = default;
  constexpr Relaxed(T value) noexcept : value_(value) {}  // NOLINT: as std::atomic

  operator T() const noexcept { return value_.load(std::memory_order_relaxed); }  // relaxed: above
  void operator=(T value) noexcept { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<T> value_{};
};

}  // namespace weft

/// Atomic<T>: std::atomic<T>, for the words that protocols between threads rest on.
///
/// In a build with WEFT_STALLS (cmake -DWEFT_STALLS=ON, `make stalls`) every operation on them may
/// stall the thread first, at random: gaps of a few instructions, which a test would hit once in a
/// year, become wide enough to fall into. For tests only; the library and its users must agree on
/// it, which the CMake target sees to.
#pragma once

#include <atomic>

namespace weft {

#if defined(WEFT_STALLS)

/// Most of the time nothing; else a pause, or the processor is given away.
void stall() noexcept;

template <class T>
class Atomic : private std::atomic<T> {
  using Base = std::atomic<T>;
  using Order = std::memory_order;
  static constexpr Order strongest = std::memory_order_seq_cst;

 public:
  constexpr Atomic() noexcept = default;
  constexpr Atomic(T value) noexcept : Base(value) {}  // NOLINT: as std::atomic

  T load(Order order = strongest) const noexcept { return stalled().load(order); }
  void store(T value, Order order = strongest) noexcept { stalled().store(value, order); }
  T exchange(T value, Order order = strongest) noexcept { return stalled().exchange(value, order); }
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T value, Orders... orders) noexcept {
    return stalled().compare_exchange_weak(expected, value, orders...);
  }
  template <class... Orders>
  bool compare_exchange_strong(T& expected, T value, Orders... orders) noexcept {
    return stalled().compare_exchange_strong(expected, value, orders...);
  }
  T fetch_add(T value, Order order = strongest) noexcept {
    return stalled().fetch_add(value, order);
  }
  T fetch_sub(T value, Order order = strongest) noexcept {
    return stalled().fetch_sub(value, order);
  }
  T fetch_or(T value, Order order = strongest) noexcept { return stalled().fetch_or(value, order); }
  T fetch_and(T value, Order order = strongest) noexcept {
    return stalled().fetch_and(value, order);
  }
  void wait(T old) const noexcept { stalled().wait(old); }
  void notify_one() noexcept { stalled().notify_one(); }
  void notify_all() noexcept { stalled().notify_all(); }

 private:
  Base& stalled() noexcept {
    stall();
    return *this;
  }
  const Base& stalled() const noexcept {
    stall();
    return *this;
  }
};

#else

template <class T>
using Atomic = std::atomic<T>;

#endif

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

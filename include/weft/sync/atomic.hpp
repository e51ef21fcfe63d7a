/// atomic<T>: std::atomic<T>, and every operation is something that a simulation can reorder.
///
///     weft::atomic<int> balance{100};
///     const int before = balance.load();          // under a simulation, another task may run here
///     balance.store(before - 50);
///
/// Use it for what tasks share without a lock. In production it is a std::atomic with one more
/// branch per operation. A simulation runs one task at a time, so it shows every interleaving, and
/// of memory orders only the strongest.
#pragma once

#include <weft/wait/point.hpp>

#include <atomic>
#include <type_traits>

namespace weft {

template <class T>
class atomic {  // NOLINT: named as what it stands for
  using Order = std::memory_order;
  static constexpr Order strongest = std::memory_order_seq_cst;

 public:
  using value_type = T;

  constexpr atomic() noexcept : atomic(T{}) {}
  constexpr atomic(T value) noexcept : value_(value) {  // NOLINT: as std::atomic
    if (!std::is_constant_evaluated()) begin();
  }
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  [[nodiscard]] T load(Order order = strongest) const noexcept {
    at(Access::read, "load");
    return value_.load(order);
  }
  void store(T value, Order order = strongest) noexcept {
    at(Access::write, "store");
    value_.store(value, order);
  }
  T exchange(T value, Order order = strongest) noexcept {
    at(Access::write, "exchange");
    return value_.exchange(value, order);
  }
  template <class... Orders>
  bool compare_exchange_strong(T& expected, T value, Orders... orders) noexcept {
    at(Access::write, "compare_exchange");
    return value_.compare_exchange_strong(expected, value, orders...);
  }
  /// Never fails without a reason under a simulation.
  template <class... Orders>
  bool compare_exchange_weak(T& expected, T value, Orders... orders) noexcept {
    at(Access::write, "compare_exchange");
    return value_.compare_exchange_weak(expected, value, orders...);
  }
  T fetch_add(T value, Order order = strongest) noexcept
    requires std::is_integral_v<T>
  {
    at(Access::write, "fetch_add");
    return value_.fetch_add(value, order);
  }
  T fetch_sub(T value, Order order = strongest) noexcept
    requires std::is_integral_v<T>
  {
    at(Access::write, "fetch_sub");
    return value_.fetch_sub(value, order);
  }
  T fetch_or(T value, Order order = strongest) noexcept
    requires std::is_integral_v<T>
  {
    at(Access::write, "fetch_or");
    return value_.fetch_or(value, order);
  }
  T fetch_and(T value, Order order = strongest) noexcept
    requires std::is_integral_v<T>
  {
    at(Access::write, "fetch_and");
    return value_.fetch_and(value, order);
  }

  T operator=(T value) noexcept {  // NOLINT: as std::atomic
    store(value);
    return value;
  }
  operator T() const noexcept { return load(); }  // NOLINT: as std::atomic
  T operator++() noexcept { return fetch_add(1) + 1; }
  T operator++(int) noexcept { return fetch_add(1); }
  T operator--() noexcept { return fetch_sub(1) - 1; }
  T operator--(int) noexcept { return fetch_sub(1); }
  T operator+=(T value) noexcept { return fetch_add(value) + value; }
  T operator-=(T value) noexcept { return fetch_sub(value) - value; }

 private:
  void at(Access access, const char* what) const noexcept {
    detail::point({.object = ObjectId::none, .access = access, .what = what, .address = this});
  }
  void begin() noexcept {
    // relaxed: as in detail::point().
    if (const auto* hooks = detail::point_hooks.load(std::memory_order_relaxed)) [[unlikely]] {
      hooks->born(this);
    }
  }
  std::atomic<T> value_;
};

}  // namespace weft

/// What replaces std::atomic and friends in code under the checker (explore.hpp):
///
///     StealQueue<Item, 4, weak::Atomics>
///
/// The members are those of std::atomic that our code uses. Each takes its place in the source as
/// a hidden argument, for traces and for planting faults (mutate.hpp). Constructors work like
/// stores that happen before all threads.
#pragma once

#include "support/weak_memory/explore.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <utility>

namespace weft::test::weak {

namespace detail {

using Where = std::source_location;

inline std::string name(const Where& where) {
  const std::string path = where.file_name();
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(where.line());
}

inline const char* name(Order order) {
  switch (order) {
    case Order::relaxed:
      return "relaxed";
    case Order::consume:
      return "consume";
    case Order::acquire:
      return "acquire";
    case Order::release:
      return "release";
    case Order::acq_rel:
      return "acq_rel";
    case Order::seq_cst:
      return "seq_cst";
  }
  return "?";
}

/// Is this the place where a fault is planted?
inline bool is_faulty(const Where& where, const char* operation) {
  const Site& site = execution->options().fault.site;
  return site.line == where.line() && site.column == where.column() &&
         site.operation == operation && site.file == where.file_name();
}

/// The order to use at this place, which may be other than the one written there.
inline Order order_at(const Where& where, const char* operation, Order order) {
  const Options& options = execution->options();
  if (options.sites != nullptr) {
    const Site site{where.file_name(), where.line(), where.column(), operation, order};
    if (std::find(options.sites->begin(), options.sites->end(), site) == options.sites->end()) {
      options.sites->push_back(site);
    }
  }
  return is_faulty(where, operation) ? options.fault.order : order;
}

inline std::string to_text(std::uint64_t value) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), value < 4096 ? "%llu" : "0x%llx",
                static_cast<unsigned long long>(value));
  return text.data();
}

inline void note(const Where& where, std::uint8_t at, const std::string& what, Order order) {
  execution->note(name(where) + "  #" + std::to_string(at) + " " + what + " (" + name(order) + ")");
}

/// " (2 newer exist)", for traces.
inline std::string staleness(std::uint8_t at, std::size_t index) {
  const std::size_t newer = execution->memory().location(at).count - 1 - index;
  return newer == 0 ? "" : " (" + std::to_string(newer) + " newer exist)";
}

inline std::uint64_t load(std::uint8_t at, Order order, const Where& where) {
  Execution& run = *execution;
  order = order_at(where, "load", order);
  const std::size_t rank = run.choose_read({.kind = Want::Kind::load, .at = at, .expected = 0});
  const std::uint64_t value = run.memory().location(at).messages[rank].value;
  if (run.tracing()) note(where, at, "load " + to_text(value) + staleness(at, rank), order);
  run.memory().load(run.running(), at, rank, order);
  run.done();
  return value;
}

inline void store(std::uint8_t at, std::uint64_t value, Order order, const Where& where) {
  Execution& run = *execution;
  order = order_at(where, "store", order);
  const std::size_t rank = run.choose_place(at);
  if (run.tracing()) note(where, at, "store " + to_text(value) + staleness(at, rank), order);
  run.memory().store_after(run.running(), at, rank, value, order);
  run.wrote(at);
  run.done();
}

/// `change(old)`: the new value.
template <class Change>
std::uint64_t modify(std::uint8_t at, Order order, const Where& where, const Change& change) {
  Execution& run = *execution;
  order = order_at(where, "rmw", order);
  const std::size_t rank = run.choose_read({.kind = Want::Kind::modify, .at = at, .expected = 0});
  const std::uint64_t old = run.memory().location(at).messages[rank].value;
  const std::uint64_t value = change(old);
  if (run.tracing()) note(where, at, "rmw " + to_text(old) + " to " + to_text(value), order);
  run.memory().modify(run.running(), at, rank, value, order);
  run.wrote(at);
  run.done();
  return old;
}

inline bool compare_exchange(std::uint8_t at, std::uint64_t& expected, std::uint64_t desired,
                             Order success, Order failure, const Where& where) {
  Execution& run = *execution;
  if (run.options().fault.split && is_faulty(where, "compare_exchange")) {
    const std::uint64_t seen = load(at, failure, where);
    if (seen == expected) {
      store(at, desired, releases(success) ? Order::release : Order::relaxed, where);
    }
    return std::exchange(expected, seen) == seen;
  }
  success = order_at(where, "compare_exchange", success);
  failure = order_at(where, "failed compare_exchange load", failure);
  run.might_write(at, expected);
  const std::size_t rank =
      run.choose_read({.kind = Want::Kind::compare, .at = at, .expected = expected});
  const std::uint64_t old = run.memory().location(at).messages[rank].value;
  if (old == expected) {
    if (run.tracing()) note(where, at, "cas " + to_text(old) + " to " + to_text(desired), success);
    run.memory().modify(run.running(), at, rank, desired, success);
    run.wrote(at);
  } else {
    if (run.tracing()) note(where, at, "cas fails: " + to_text(old) + staleness(at, rank), failure);
    run.memory().load(run.running(), at, rank, failure);
  }
  run.done();
  return std::exchange(expected, old) == old;
}

}  // namespace detail

template <class V>
class Atomic {
  static_assert(std::is_trivially_copyable_v<V> && sizeof(V) <= sizeof(std::uint64_t));
  using Where = detail::Where;

 public:
  Atomic() : Atomic(V{}) {}
  explicit(false) Atomic(V initial) : at_(execution->memory().add(word(initial))) {}
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  [[nodiscard]] V load(Order order = Order::seq_cst, Where where = Where::current()) const {
    return value(detail::load(at_, order, where));
  }
  void store(V desired, Order order = Order::seq_cst, Where where = Where::current()) {
    detail::store(at_, word(desired), order, where);
  }
  V exchange(V desired, Order order = Order::seq_cst, Where where = Where::current()) {
    return value(detail::modify(at_, order, where, [&](std::uint64_t) { return word(desired); }));
  }
  V fetch_add(V by, Order order = Order::seq_cst, Where where = Where::current()) {
    return value(detail::modify(at_, order, where, [&](std::uint64_t old) {
      return word(static_cast<V>(value(old) + by));
    }));
  }
  V fetch_and(V mask, Order order = Order::seq_cst, Where where = Where::current()) {
    return value(detail::modify(at_, order, where, [&](std::uint64_t old) {
      return word(static_cast<V>(value(old) & mask));
    }));
  }
  bool compare_exchange_strong(V& expected, V desired, Order success, Order failure,
                               Where where = Where::current()) {
    std::uint64_t seen = word(expected);
    const bool won = detail::compare_exchange(at_, seen, word(desired), success, failure, where);
    if (!won) expected = value(seen);
    return won;
  }
  bool compare_exchange_strong(V& expected, V desired, Order order = Order::seq_cst,
                               Where where = Where::current()) {
    return compare_exchange_strong(expected, desired, order, on_failure(order), where);
  }
  bool compare_exchange_weak(V& expected, V desired, Order success, Order failure,
                             Where where = Where::current()) {
    return compare_exchange_strong(expected, desired, success, failure, where);
  }
  bool compare_exchange_weak(V& expected, V desired, Order order = Order::seq_cst,
                             Where where = Where::current()) {
    return compare_exchange_strong(expected, desired, order, where);
  }
  bool replace(V& loaded, V desired, Order order, Where where = Where::current()) {
    return compare_exchange_strong(loaded, desired, order, Order::relaxed, where);
  }

 private:
  static std::uint64_t word(V from) {
    std::uint64_t to = 0;
    std::memcpy(&to, &from, sizeof(V));
    return to;
  }
  static V value(std::uint64_t from) {
    V to{};
    std::memcpy(&to, &from, sizeof(V));
    return to;
  }
  static constexpr Order on_failure(Order order) {
    if (order == Order::acq_rel) return Order::acquire;
    return order == Order::release ? Order::relaxed : order;
  }

  std::uint8_t at_;
};

/// A plain variable; using it without a happens-before is a violation.
template <class V>
class Cell {
 public:
  [[nodiscard]] V get(std::source_location where = std::source_location::current()) const {
    if (!execution->memory().read_cell(execution->running(), past_)) race(where);
    return value_;
  }
  void set(V value, std::source_location where = std::source_location::current()) {
    if (!execution->memory().write_cell(execution->running(), past_)) race(where);
    value_ = value;
  }

 private:
  static void race(const std::source_location& where) {
    execution->blame("data race at " + detail::name(where));
    execution->give_up();
  }
  V value_{};
  mutable CellMemory past_;
};

class Lock {
 public:
  Lock() : at_(execution->memory().add(free)) {}

  void lock() {
    Execution& run = *execution;
    const std::size_t rank =
        run.choose_read({.kind = Want::Kind::lock, .at = at_, .expected = free});
    run.memory().modify(run.running(), at_, rank, held, Order::acquire);
    run.note("lock #" + std::to_string(at_));
    run.wrote(at_);
    run.done();
  }
  void unlock() {
    Execution& run = *execution;
    run.memory().store_after(run.running(), at_, run.choose_place(at_), free, Order::release);
    run.note("unlock #" + std::to_string(at_));
    run.wrote(at_);
    run.done();
  }

 private:
  static constexpr std::uint64_t free = 0;
  static constexpr std::uint64_t held = 1;
  std::uint8_t at_;
};

inline void fence(Order order) {
  execution->memory().fence(execution->running(), order);
  if (execution->tracing()) execution->note(std::string("fence (") + detail::name(order) + ")");
  execution->done();
}

/// See sc_order.hpp.
inline void light_fence() {
  execution->memory().light_fence(execution->running());
  if (execution->tracing()) execution->note("light fence");
  execution->done();
}
inline void heavy_fence() {
  execution->memory().fence(execution->running(), Order::seq_cst, Fence::heavy);
  if (execution->tracing()) execution->note("heavy fence");
  execution->done();
}

/// The policy.
struct Atomics {
  template <class V>
  using Atomic = weak::Atomic<V>;
  template <class V>
  using Cell = weak::Cell<V>;
  using Lock = weak::Lock;
};

}  // namespace weft::test::weak

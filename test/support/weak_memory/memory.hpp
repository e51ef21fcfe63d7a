/// Memory as C++20 sees it: a store does not replace the value, it adds one, and a load may return
/// any that the rules do not forbid.
///
/// Every atomic location keeps all values ever written, in modification order. Every thread has a
/// view: per location, the oldest value it may still read; per thread, how much of that thread's
/// past happened before. A release store leaves the storer's view with the value, an acquire load
/// that reads the value takes the view over. All of happens-before and coherence is in these views.
///
/// Modelled, exactly:
///   - relaxed, acquire, release, acq_rel: stale reads; stores that enter the modification order
///     before others that have been executed already; read-modify-writes, which read the value
///     directly before their own; C++20's release sequences (read-modify-writes carry on the view
///     of what they read, other stores do not);
///   - fences of every kind, also light and heavy ones; locks, which block instead of spinning;
///   - data races on plain cells, by vector clocks;
///   - seq_cst operations and fences: runs for which the order S of [atomics.order] does not exist
///     are left out (sc_order.hpp). One rule is stronger than the standard's: S agrees with all of
///     happens-before, not only with "strongly happens before". x86-64 and AArch64 keep that
///     promise, POWER does not.
/// Not modelled: load buffering (a load that returns what a later store of its own thread has
///   caused); consume; spurious failure of compare_exchange_weak; mixed sizes; time (a store may
///   stay unseen for ever, so that loops which wait for one are cut short).
#pragma once

#include "support/weak_memory/sc_order.hpp"

#include <atomic>
#include <vector>

namespace weft::test::weak {

inline constexpr std::size_t most_messages = 64;

using Order = std::memory_order;

constexpr bool acquires(Order order) {
  return order == Order::acquire || order == Order::acq_rel || order == Order::seq_cst;
}
constexpr bool releases(Order order) {
  return order == Order::release || order == Order::acq_rel || order == Order::seq_cst;
}

/// One value in a location's modification order.
struct Message {
  std::uint64_t value = 0;
  View view{};           // what a reader learns if it acquires
  std::size_t time = 0;  // of execution
  bool follows = false;  // a read-modify-write: nothing may come between it and its predecessor
};

struct Location {
  std::array<Message, most_messages> messages;
  std::size_t count = 0;

  [[nodiscard]] bool may_insert_after(std::size_t rank) const {
    return rank + 1 == count || !messages[rank + 1].follows;
  }
};

struct ThreadMemory {
  View now;       // what happened before the next operation
  View acquired;  // the same, if an acquire fence came now
  View released;  // as of the last release fence
  std::uint8_t operations = 0;
};

/// A plain variable's past: who wrote it last, and who has read it since.
struct CellMemory {
  std::uint8_t writer = 0;
  std::uint8_t written = 0;
  std::array<std::uint8_t, most_threads> read{};
};

class Memory {
 public:
  Memory() : locations_(most_locations) {}

  void reset() {
    used_ = 0;
    time_ = 1;
    threads_ = {};
    sc_.reset();
  }

  std::uint8_t add(std::uint64_t initial) {
    if (used_ == most_locations) throw std::logic_error("weak memory: too many atomics");
    Location& location = locations_[used_];
    location.count = 1;
    location.messages[0] = {.value = initial, .view = threads_[0].now, .time = 0, .follows = false};
    return static_cast<std::uint8_t>(used_++);
  }

  /// A thread begins after what the first one has done so far, and the first goes on after it.
  void fork(std::size_t thread) {
    threads_[thread] = threads_[0];
    threads_[thread].operations = 0;
    tick(thread);
  }
  void join(std::size_t thread) { threads_[0].now.join(threads_[thread].now); }

  [[nodiscard]] const Location& location(std::uint8_t at) const { return locations_[at]; }
  /// What is written from now on has this time or a later one.
  [[nodiscard]] std::size_t time() const { return time_; }
  [[nodiscard]] std::size_t oldest_readable(std::size_t thread, std::uint8_t at) const {
    return threads_[thread].now.oldest[at];
  }
  /// Are the seq_cst operations consistent? If not, this run cannot happen.
  [[nodiscard]] bool possible() const { return sc_.exists(); }

  void load(std::size_t thread, std::uint8_t at, std::size_t rank, Order order) {
    read(thread, at, rank, order);
    record(thread, at, 2 * rank + 1, order);
  }
  void store_after(std::size_t thread, std::uint8_t at, std::size_t rank, std::uint64_t value,
                   Order order) {
    write(thread, at, rank, value, order, false);
    record(thread, at, 2 * (rank + 1), order);
  }
  void modify(std::size_t thread, std::uint8_t at, std::size_t rank, std::uint64_t value,
              Order order) {
    read(thread, at, rank, order);
    write(thread, at, rank, value, order, true);
    record(thread, at, 2 * (rank + 1), order);
  }
  void fence(std::size_t thread, Order order, Fence kind = Fence::full) {
    ThreadMemory& me = threads_[thread];
    if (acquires(order)) me.now.join(me.acquired);
    if (order == Order::seq_cst) sc_.fence(thread, me.now, kind);
    if (releases(order)) me.released = me.now;
  }

  void light_fence(std::size_t thread) { sc_.fence(thread, threads_[thread].now, Fence::light); }

  /// After each operation: what the thread does next did not happen before what it has released.
  void tick(std::size_t thread) {
    ThreadMemory& me = threads_[thread];
    if (++me.operations == 255) throw std::logic_error("weak memory: too many operations");
    me.now.clock[thread] = me.operations;
  }

  /// False: a data race.
  [[nodiscard]] bool read_cell(std::size_t thread, CellMemory& cell) const {
    const View& now = threads_[thread].now;
    cell.read[thread] = now.clock[thread];
    return cell.written <= now.clock[cell.writer];
  }
  [[nodiscard]] bool write_cell(std::size_t thread, CellMemory& cell) const {
    const View& now = threads_[thread].now;
    bool ordered = cell.written <= now.clock[cell.writer];
    for (std::size_t i = 0; i < most_threads; ++i) ordered &= cell.read[i] <= now.clock[i];
    cell = {};
    cell.writer = static_cast<std::uint8_t>(thread);
    cell.written = now.clock[thread];
    return ordered;
  }

 private:
  void read(std::size_t thread, std::uint8_t at, std::size_t rank, Order order) {
    ThreadMemory& me = threads_[thread];
    const Message& message = locations_[at].messages[rank];
    me.now.oldest[at] = static_cast<std::uint8_t>(rank);
    me.acquired.join(message.view);
    if (acquires(order)) me.now.join(message.view);
  }

  /// Puts a value directly after the one of this rank. `rmw`: it was computed from that one.
  void write(std::size_t thread, std::uint8_t at, std::size_t rank, std::uint64_t value,
             Order order, bool rmw) {
    Location& location = locations_[at];
    if (location.count == most_messages) throw std::logic_error("weak memory: too many values");
    const std::size_t place = rank + 1;
    make_place(at, place);
    ThreadMemory& me = threads_[thread];
    me.now.oldest[at] = static_cast<std::uint8_t>(place);
    Message& message = location.messages[place];
    message.value = value;
    message.view = releases(order) ? me.now : me.released;
    message.view.oldest[at] = static_cast<std::uint8_t>(place);
    if (rmw) message.view.join(location.messages[rank].view);
    message.time = time_++;
    message.follows = rmw;
  }

  void record(std::size_t thread, std::uint8_t at, std::size_t key, Order order) {
    if (thread == 0) return;  // before or after everybody else
    sc_.operation(thread, threads_[thread].now, at, static_cast<std::uint8_t>(key),
                  order == Order::seq_cst);
  }

  /// Later messages move up by one, and so does everything that points at them.
  void make_place(std::uint8_t at, std::size_t place) {
    Location& location = locations_[at];
    const bool last = place == location.count;
    for (std::size_t i = location.count; i > place; --i) {
      location.messages[i] = location.messages[i - 1];
    }
    ++location.count;
    if (last) return;
    for (ThreadMemory& thread : threads_) {
      thread.now.shift(at, place);
      thread.acquired.shift(at, place);
      thread.released.shift(at, place);
    }
    for (std::size_t l = 0; l < used_; ++l) {
      for (std::size_t m = 0; m < locations_[l].count; ++m) {
        locations_[l].messages[m].view.shift(at, place);
      }
    }
    sc_.shift(at, place);
  }

  std::vector<Location> locations_;
  std::size_t used_ = 0;
  std::size_t time_ = 1;
  std::array<ThreadMemory, most_threads> threads_;
  ScOrder sc_;
};

}  // namespace weft::test::weak

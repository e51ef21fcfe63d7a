/// Is there a total order S of the seq_cst operations and fences, as [atomics.order] demands?
///
/// Kept as a graph of what must come before what; S exists as long as it has no cycle. The edges,
/// for seq_cst operations A, B and seq_cst fences X, Y (numbers as in C++20 [atomics.order] p4,
/// "before" in the sense of coherence: in one location's modification order, or by reading from
/// something there):
///       A or X happens before B or Y
///   4.1 A before B
///   4.2 A before any operation that happens before Y
///   4.3 X happens before any operation that is before B
///   4.4 X happens before some operation before another one that happens before Y
/// A light fence is one only to heavy fences (P1202: a compiler's barrier here, membarrier(2)
/// there, which puts a fence into every thread); a heavy one is one to all.
///
/// The first is stronger than the standard, which says "strongly happens before"; see memory.hpp.
///
/// Coherence is a comparison of keys: 2r for the write of rank r in the modification order, 2r + 1
/// for a read of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace weft::test::weak {

inline constexpr std::size_t most_locations = 24;
inline constexpr std::size_t most_threads = 5;  // the first sets up, and looks at the end

/// What one has seen.
struct View {
  std::array<std::uint8_t, most_locations> oldest{};  // per location: the first readable message
  std::array<std::uint8_t, most_threads> clock{};     // per thread: what happened before

  void join(const View& other) {
    for (std::size_t i = 0; i < most_locations; ++i) raise(oldest[i], other.oldest[i]);
    for (std::size_t i = 0; i < most_threads; ++i) raise(clock[i], other.clock[i]);
  }
  void shift(std::uint8_t at, std::size_t place) {
    if (oldest[at] >= place) ++oldest[at];
  }

 private:
  static void raise(std::uint8_t& to, std::uint8_t from) { to = from > to ? from : to; }
};

enum class Fence : std::uint8_t { full, light, heavy };

class ScOrder {
 public:
  void reset() {
    count_ = 0;
    exists_ = true;
  }
  [[nodiscard]] bool exists() const { return exists_; }

  /// Any atomic operation, before which `now` happened; `now` includes what it read.
  void operation(std::size_t thread, const View& now, std::uint8_t at, std::uint8_t key, bool sc) {
    for (std::size_t x = 0; x < count_; ++x) {
      if (events_[x].fence && happened(events_[x], now)) came_after(x, at, key);
    }
    if (!sc) return;
    const std::size_t me = add(thread, now, at, key, false);
    for (std::size_t i = 0; i < me; ++i) {
      const Event& other = events_[i];
      if (happened(other, now)) edge(i, me);
      if (other.fence) {
        if (other.first[at] < key) edge(i, me);            // 4.3
        if (key <= 2 * other.now.oldest[at]) edge(me, i);  // 4.2
      } else if (other.at == at && other.key != key) {     // 4.1
        other.key < key ? edge(i, me) : edge(me, i);
      }
    }
  }

  void fence(std::size_t thread, const View& now, Fence kind) {
    const std::size_t me = add(thread, now, 0, 0, true);
    events_[me].kind = kind;
    for (std::size_t i = 0; i < me; ++i) {
      const Event& other = events_[i];
      if (happened(other, now)) edge(i, me);
      if (other.fence) {
        for (std::size_t l = 0; l < most_locations; ++l) {
          if (other.first[l] <= 2 * now.oldest[l]) edge(i, me);  // 4.4
        }
      } else if (other.key <= 2 * now.oldest[other.at]) {  // 4.2
        edge(i, me);
      }
    }
  }

  /// A message was inserted in the modification order.
  void shift(std::uint8_t at, std::size_t place) {
    auto raise = [&](std::uint8_t& key) {
      if (key != none && key >= 2 * place) key = static_cast<std::uint8_t>(key + 2);
    };
    for (std::size_t i = 0; i < count_; ++i) {
      Event& event = events_[i];
      event.now.shift(at, place);
      raise(event.first[at]);
      if (!event.fence && event.at == at) raise(event.key);
    }
  }

 private:
  static constexpr std::uint8_t none = 255;
  static constexpr std::size_t most_events = 64;

  struct Event {
    View now;  // what happened before it
    std::uint8_t thread = 0;
    std::uint8_t clock = 0;
    bool fence = false;
    Fence kind = Fence::full;
    std::uint8_t at = 0;  // of an operation
    std::uint8_t key = 0;
    std::array<std::uint8_t, most_locations> first{};  // of a fence: the smallest key after it
    std::uint64_t after = 0;                           // the events that come after it in S
  };

  static bool happened(const Event& event, const View& now) {
    return event.clock <= now.clock[event.thread];
  }

  std::size_t add(std::size_t thread, const View& now, std::uint8_t at, std::uint8_t key,
                  bool fence) {
    if (count_ == most_events) throw std::logic_error("weak memory: too many seq_cst operations");
    Event& event = events_[count_];
    event.now = now;
    event.thread = static_cast<std::uint8_t>(thread);
    event.clock = now.clock[thread];
    event.fence = fence;
    event.kind = Fence::full;
    event.at = at;
    event.key = key;
    event.first.fill(none);
    event.after = 0;
    return count_++;
  }

  /// Fence `x` happened before an operation on `at` with this key.
  void came_after(std::size_t x, std::uint8_t at, std::uint8_t key) {
    if (events_[x].first[at] <= key) return;
    events_[x].first[at] = key;
    for (std::size_t i = 0; i < count_; ++i) {
      const Event& other = events_[i];
      if (i == x) continue;
      if (other.fence ? key <= 2 * other.now.oldest[at]  // 4.4
                      : other.at == at && key < other.key)
        edge(x, i);  // 4.3
    }
  }

  void edge(std::size_t from, std::size_t to) {
    const Fence one = events_[from].kind;
    const Fence other = events_[to].kind;
    if (one == Fence::light && other != Fence::heavy) return;
    if (other == Fence::light && one != Fence::heavy) return;
    const std::uint64_t added = events_[to].after | std::uint64_t{1} << to;
    if ((events_[to].after >> from & 1) != 0) exists_ = false;
    for (std::size_t i = 0; i < count_; ++i) {
      if (i == from || (events_[i].after >> from & 1) != 0) events_[i].after |= added;
    }
  }

  std::array<Event, most_events> events_;
  std::size_t count_ = 0;
  bool exists_ = true;
};

}  // namespace weft::test::weak

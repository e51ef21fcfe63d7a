/// A timeline: timers in the order of their deadlines. What an Io keeps its sleepers in.
///
/// A hierarchical wheel of 11 levels of 64 buckets, exact to the nanosecond: a timer lies on the
/// level of the highest six-bit digit in which its deadline differs from the wheel's own time, in
/// the bucket of that digit. Arming and disarming are O(1) and never search. When the wheel's time
/// reaches a bucket on a higher level, the bucket is spread over the levels below, so that a timer
/// moves at most ten times in its life, and lists are read in order. Timers with the same deadline
/// fire in the order in which they were armed.
///
/// Rejected: a heap (O(log n) cache misses to pop, and cancelling has to search or to keep
/// back-pointers); a coarse wheel with sorting (virtual time must be exact).
///
/// Any thread may arm and disarm; advance() is called by the engine. Expiry runs under the lock and
/// only claims.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/spinlock.hpp>
#include <weft/wait/timer.hpp>

#include <array>

namespace weft {

class Timeline {
 public:
  explicit Timeline(Instant start) noexcept;

  /// Begins anew at `start`, with no timer armed (checked).
  void restart(Instant start) noexcept;

  /// A deadline that has passed already fires at the next advance(). `timer.deadline` is set by the
  /// caller. True: somebody sleeps for longer than that (see sleep()), and the caller must wake it.
  bool arm(TimerNode& timer) noexcept;
  /// After it returns the timer will not fire, or has fired completely. Harmless if it is not
  /// armed.
  void disarm(TimerNode& timer) noexcept;

  /// Fires everything due at `now`: first what was armed too late, as it was armed, then in order
  /// of deadlines.
  void advance(Instant now, WakeList& wakes) noexcept;

  /// No timer fires before this instant; never() if there is none. A lower bound: it may lie before
  /// the first deadline, and then advancing to it fires nothing but brings the bound closer.
  [[nodiscard]] Instant next() const noexcept;
  /// The same, for an engine on which other threads arm timers: the caller is going to sleep until
  /// then, and is told of earlier ones by whoever arms them, until awake().
  [[nodiscard]] Instant sleep() noexcept;
  void awake() noexcept;
  [[nodiscard]] std::size_t size() const noexcept;
  /// Do they fire several at a time?
  [[nodiscard]] bool crowded() const noexcept { return crowded_; }

 private:
  static constexpr unsigned digit_bits = 6;
  static constexpr unsigned buckets = 1U << digit_bits;
  static constexpr unsigned levels = 11;  // 66 bits: all of an Instant
  static constexpr std::uint16_t due_bucket = levels * buckets;

  void place(TimerNode& timer) noexcept;
  void remove(TimerNode& timer) noexcept;
  void fire(List<TimerNode>& list, WakeList& wakes) noexcept;
  [[nodiscard]] std::uint64_t next_locked() const noexcept;
  [[nodiscard]] static std::uint64_t ticks(Instant instant) noexcept;
  [[nodiscard]] static Instant to_instant(std::uint64_t ticks) noexcept;

  mutable Spinlock lock_;
  std::uint64_t elapsed_;           // all under lock_: the wheel's time
  std::uint64_t sleeps_until_ = 0;  // zero: nobody sleeps
  std::size_t size_ = 0;
  std::array<std::uint64_t, levels> occupied_{};  // one bit per bucket
  std::array<List<TimerNode>, levels * buckets> wheel_;
  List<TimerNode> due_;  // armed with a deadline that had passed
  Relaxed<bool> crowded_ = false;
};

}  // namespace weft

/// Keeping a pace: RateLimiter, Ticker.
///
///     weft::RateLimiter limit(100, 1s, 10);      // 100 a second, at most 10 at once
///     limit.acquire();                           // waits for its turn
///     co_await limit.acquire_op();               // the same in a coroutine
///     if (!limit.try_acquire()) refuse();
///
///     weft::Ticker every(100ms);
///     for (;;) {
///       const auto tick = every.next();          // co_await every.next_op()
///       report(tick.number, tick.missed);
///     }
#pragma once

#include <weft/base/spinlock.hpp>
#include <weft/task/io.hpp>
#include <weft/time/sleep.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>

namespace weft {

namespace detail {
/// An operation that is not waiting becomes one until another time.
inline void sleep_again(SleepOp& op, Instant until) noexcept {
  std::destroy_at(&op);
  std::construct_at(&op, until);
}
}  // namespace detail

/// So many per so much time, and after a quiet time so many at once. Turns are given in the order
/// in which they are asked for. A wait that ends early gives its turn back if it was the last; else
/// the turn passes unused, so that the rate is never exceeded.
class RateLimiter {
 public:
  /// `burst`: how many may go at once, at least one.
  RateLimiter(std::uint64_t count, Duration per, std::uint64_t burst = 1)
      : interval_(each(count, per)), slack_(times(interval_, burst)) {
    WEFT_CHECK(count > 0 && per > Duration::zero() && burst > 0,
               "a RateLimiter needs a rate and a burst above 0");
  }
  RateLimiter(const RateLimiter&) = delete;
  RateLimiter& operator=(const RateLimiter&) = delete;

  class AcquireOp {
   public:
    using Result = void;
    static constexpr Reason reason{"rate limit"};

    explicit AcquireOp(RateLimiter& limiter) noexcept : limiter_(limiter), sleep_(Instant{}) {}
    AcquireOp(const AcquireOp& other) noexcept : AcquireOp(other.limiter_) {}
    AcquireOp& operator=(const AcquireOp&) = delete;
    ~AcquireOp() {
      if (waits_) limiter_.give_back(even_);
    }
    ObjectId object() const noexcept { return ObjectId::none; }
    bool try_now() { return this_task() != nullptr && limiter_.take_turn_if_due(); }
    Armed arm(Arm& arm) {
      if (!waits_) {
        turn_ = limiter_.take_turn(even_);
        waits_ = true;
      }
      detail::sleep_again(sleep_, turn_);
      return sleep_.arm(arm);
    }
    void disarm(Arm& arm) noexcept { sleep_.disarm(arm); }
    void take() noexcept { waits_ = false; }

   private:
    RateLimiter& limiter_;
    SleepOp sleep_;
    Instant turn_{};
    Instant even_{};  // the limiter's, when we had taken our turn
    bool waits_ = false;
  };
  [[nodiscard]] AcquireOp acquire_op() noexcept { return AcquireOp(*this); }
  void acquire() { perform(acquire_op()); }
  /// Without waiting, or not at all.
  [[nodiscard]] bool try_acquire() {
    detail::point({.what = "try", .address = this});
    return this_task() != nullptr ? take_turn_if_due() : await(co_try_acquire());
  }

 private:
  Coro<bool> co_try_acquire() { co_return take_turn_if_due(); }

  // In an even stream the next turn would be due at even_; it may come earlier by slack_.
  [[nodiscard]] bool take_turn_if_due() {
    const Instant at = now();
    std::lock_guard guard(lock_);
    if (even_ + -slack_ > at) return false;
    even_ = std::max(even_, at) + interval_;
    return true;
  }
  [[nodiscard]] Instant take_turn(Instant& even) {
    const Instant at = now();
    std::lock_guard guard(lock_);
    const Instant turn = std::max(even_ + -slack_, at);
    even = even_ = std::max(even_, at) + interval_;
    return turn;
  }
  /// If nobody has taken one since.
  void give_back(Instant even) noexcept {
    std::lock_guard guard(lock_);
    if (even_ == even) even_ = even_ + -interval_;
  }
  /// Rounded up: never faster.
  static Duration each(std::uint64_t count, Duration per) noexcept {
    if (count == 0 || per <= Duration::zero()) return Duration(1);
    const auto total = static_cast<std::uint64_t>(per.count());
    return Duration(static_cast<Duration::rep>(total / count + (total % count == 0 ? 0 : 1)));
  }
  static Duration times(Duration interval, std::uint64_t burst) noexcept {
    constexpr Duration::rep most = Duration::max().count() / 4;
    const auto others = static_cast<Duration::rep>(
        std::min<std::uint64_t>(burst == 0 ? 0 : burst - 1, static_cast<std::uint64_t>(most)));
    Duration::rep product = 0;
    if (__builtin_mul_overflow(interval.count(), others, &product)) return Duration(most);
    return Duration(std::min(product, most));
  }

  const Duration interval_;
  const Duration slack_;
  Spinlock lock_;
  Instant even_{};  // under lock_
};

/// Every so often, counted from when it is first asked. Who comes too late for a tick gets it at
/// once, and is told how many more have passed; they are not made up for. For one task at a time.
class Ticker {
 public:
  explicit Ticker(Duration period) noexcept : period_(period) {
    WEFT_CHECK(period > Duration::zero(), "a Ticker needs a period above 0");
  }

  struct Tick {
    std::uint64_t number;  // from 1, those that were missed included
    std::uint64_t missed;  // just before this one
  };
  class TickOp {
   public:
    using Result = Tick;
    static constexpr Reason reason{"tick"};

    explicit TickOp(Ticker& ticker) noexcept : ticker_(ticker), sleep_(ticker.due_) {}
    ObjectId object() const noexcept { return ObjectId::none; }
    bool try_now() const {
      return this_task() != nullptr && !ticker_.due_.is_never() && now() >= ticker_.due_;
    }
    Armed arm(Arm& arm) {
      if (ticker_.due_.is_never()) ticker_.due_ = now() + ticker_.period_;
      detail::sleep_again(sleep_, ticker_.due_);
      return sleep_.arm(arm);
    }
    void disarm(Arm& arm) noexcept { sleep_.disarm(arm); }
    Tick take() { return ticker_.pass(now()); }

   private:
    Ticker& ticker_;
    SleepOp sleep_;
  };
  [[nodiscard]] TickOp next_op() noexcept { return TickOp(*this); }
  Tick next() { return perform(next_op()); }

 private:
  Tick pass(Instant at) noexcept {
    const auto missed = static_cast<std::uint64_t>(std::max(Duration::zero(), at - due_) / period_);
    due_ = due_ + period_ * static_cast<Duration::rep>(missed + 1);
    number_ += missed + 1;
    return {.number = number_, .missed = missed};
  }

  const Duration period_;
  Instant due_ = Instant::never();
  std::uint64_t number_ = 0;
};

}  // namespace weft

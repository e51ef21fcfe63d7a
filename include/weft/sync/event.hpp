/// Things that happen: Event, Latch, Barrier.
///
///     weft::Event ready;                        // once set it stays set, and all pass
///     weft::Event turn(Event::Reset::by_one);   // each set() lets one pass
///     ready.set();   ready.wait();   co_await ready.wait_op();   ready.reset();
///
///     weft::Latch done(3);                      // passes when it has been counted down to 0
///     done.count_down();   done.wait();
///
///     weft::Barrier step(workers);              // all wait for the last, again and again
///     step.arrive_and_wait();
///     co_await step.wait_op(step.arrive());
#pragma once

#include <weft/sync/turnstile.hpp>

#include <cstddef>
#include <cstdint>

namespace weft {

class Event : public Turnstile<Event> {
 public:
  enum class Reset : std::uint8_t { by_hand, by_one };
  explicit Event(Reset reset = Reset::by_hand) noexcept : by_one_(reset == Reset::by_one) {}
  ~Event() = default;

  void set() noexcept {
    change([&] { set_ = true; }, "set");
  }
  void reset() noexcept {
    change([&] { set_ = false; }, "reset");
  }
  [[nodiscard]] bool is_set() const noexcept {
    return look([&] { return set_; });
  }

  struct Request {};
  struct Passed {
    using Result = void;
    static constexpr Reason reason{"event"};
    static void result(Event&, const Request&) noexcept {}
  };
  [[nodiscard]] auto wait_op() { return PassOp<Event, Passed>(*this, {}); }
  void wait() { perform(wait_op()); }

 private:
  friend Turnstile;
  [[nodiscard]] bool may_pass(const Request&) const noexcept { return set_; }
  void let_pass(const Request&) noexcept {
    if (by_one_) set_ = false;
  }

  const bool by_one_;
  bool set_ = false;
};

class Latch : public Turnstile<Latch> {
 public:
  explicit Latch(std::size_t count) noexcept : left_(count) {}
  ~Latch() = default;

  /// Below 0 is an error (checked).
  void count_down(std::size_t count = 1) noexcept {
    change([&] {
      WEFT_CHECK(left_ >= count, "a Latch is counted down by more than it had");
      left_ -= count;
    });
  }
  [[nodiscard]] std::size_t left() const noexcept {
    return look([&] { return left_; });
  }

  struct Request {};
  struct Passed {
    using Result = void;
    static constexpr Reason reason{"latch"};
    static void result(Latch&, const Request&) noexcept {}
  };
  [[nodiscard]] auto wait_op() { return PassOp<Latch, Passed>(*this, {}); }
  void wait() { perform(wait_op()); }

 private:
  friend Turnstile;
  [[nodiscard]] bool may_pass(const Request&) const noexcept { return left_ == 0; }
  void let_pass(const Request&) noexcept {}

  std::size_t left_;
};

class Barrier : public Turnstile<Barrier> {
 public:
  /// `count`: so many arrive in each phase; at least 1.
  explicit Barrier(std::size_t count) noexcept : count_(count) {
    WEFT_CHECK(count > 0, "a Barrier for nobody");
  }
  ~Barrier() = default;

  /// A phase in which somebody has arrived. An arrival stands, also if the wait after it is
  /// cancelled: the others do not wait for ever.
  enum class Phase : std::uint64_t {};
  [[nodiscard]] Phase arrive() noexcept {
    return change([&] {
      const auto now = static_cast<Phase>(phase_);
      arrived();
      return now;
    });
  }
  /// Arrives, and is not counted on in later phases.
  void arrive_and_drop() noexcept {
    change([&] {
      WEFT_CHECK(count_ > 0, "more have left a Barrier than it was for");
      --count_;
      if (arrived_ >= count_) next_phase();
    });
  }

  // A slow one that is still about to wait for the last phase must get past those in the next.
  static constexpr bool in_order = false;
  struct Request {
    Phase phase;
  };
  struct Passed {
    using Result = void;
    static constexpr Reason reason{"barrier"};
    static void result(Barrier&, const Request&) noexcept {}
  };
  [[nodiscard]] auto wait_op(Phase phase) { return PassOp<Barrier, Passed>(*this, {phase}); }
  void arrive_and_wait() { perform(wait_op(arrive())); }

 private:
  friend Turnstile;
  [[nodiscard]] bool may_pass(const Request& request) const noexcept {
    return phase_ > static_cast<std::uint64_t>(request.phase);
  }
  void let_pass(const Request&) noexcept {}
  void arrived() noexcept {
    if (++arrived_ >= count_) next_phase();
  }
  void next_phase() noexcept {
    arrived_ = 0;
    ++phase_;
  }

  std::size_t count_;
  std::size_t arrived_ = 0;
  std::uint64_t phase_ = 0;
};

}  // namespace weft

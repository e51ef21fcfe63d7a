/// Operations on descriptors that sometimes must wait for time to pass, because nothing announces
/// when trying again is worth it: accept() when the process has no descriptor left, a send to a
/// Unix datagram socket whose queue is full.
///
/// For authors of operations. Like SourceOp (io/fd.hpp), with a call whose result is judged:
///
///     SysResult call(Source&) noexcept      the non-blocking call
///     Verdict judge(SysResult) noexcept     what its result means
///     Duration pause() const noexcept       how long a pause lasts
#pragma once

#include <weft/base/time.hpp>
#include <weft/io/fd.hpp>
#include <weft/wait/timer.hpp>

#include <optional>

namespace weft::detail {

/// A timer that ends the suspension of whoever an Arm belongs to.
class Pause : TimerNode {
 public:
  Pause() noexcept;
  /// Operations move only before they are first armed.
  Pause(Pause&&) noexcept : Pause() {}

  void start(Arm& arm, Instant until) noexcept;
  /// Idempotent.
  void stop() noexcept;
  /// Did it, since this was last asked? Only after stop().
  [[nodiscard]] bool take_ran_out() noexcept { return std::exchange(ran_out_, false); }

 private:
  Arm* arm_ = nullptr;
  Io* io_ = nullptr;  // where it is armed, or null
  bool ran_out_ = false;
};

/// The time where the waiter runs.
[[nodiscard]] Instant now_for(const Arm& arm) noexcept;

enum class Verdict : std::uint8_t {
  done,
  again,  // at once
  wait,   // until the descriptor is ready
  pause,  // for a while
};

template <class Self, Direction direction>
class PacedOp {
 public:
  /// See wait/op.hpp.
  static constexpr bool outside = true;
  explicit PacedOp(Source& source) noexcept : source_(&source) {}
  PacedOp(PacedOp&& other) noexcept
      : source_(other.source_),
        held_(std::exchange(other.held_, false)),
        pausing_(other.pausing_),
        result_(other.result_),
        until_(other.until_) {}
  PacedOp& operator=(PacedOp&&) = delete;
  ~PacedOp() {
    if (held_) source_->release();
  }

  ObjectId object() const noexcept { return source_->id(); }
  bool try_now() noexcept { return attempt(); }
  Armed arm(Arm& arm) {
    if (!held_) {  // from now on the owner may be gone before we are
      source_->retain();
      held_ = true;
    }
    if (!pausing_) return source_->arm(arm, direction);
    // Fixed at the first arming: a race that is published again does not start the pause over.
    if (!until_) until_ = now_for(arm) + static_cast<Self&>(*this).pause();
    timer_.start(arm, *until_);
    return Armed::waiting;
  }
  void disarm(Arm& arm) noexcept {
    if (pausing_) {
      timer_.stop();
    } else {
      source_->disarm(arm);
    }
  }
  bool confirm() noexcept {
    const bool done = attempt();
    source_->pass_on(direction);  // even if we pause: others must not wait for us
    return done;
  }

 protected:
  [[nodiscard]] Source& source() const noexcept { return *source_; }
  [[nodiscard]] SysResult result() const noexcept { return result_; }

 private:
  bool attempt() noexcept {
    auto& self = static_cast<Self&>(*this);
    // After a pause the descriptor's readiness is not what we waited for.
    bool try_anyhow = std::exchange(pausing_, false);
    until_.reset();
    for (;;) {
      const std::uint32_t seen = source_->seen();
      if (!std::exchange(try_anyhow, false) && !Source::worth_trying(seen, direction)) return false;
      if (!source_->enter()) {
        result_ = -EBADF;
        return true;
      }
      result_ = self.call(*source_);
      source_->leave();
      switch (self.judge(result_)) {
        case Verdict::done:
          return true;
        case Verdict::again:
          break;
        case Verdict::wait:
          source_->would_block(seen, direction);
          return false;
        case Verdict::pause:
          pausing_ = true;
          return false;
      }
    }
  }

  Source* source_;
  bool held_ = false;
  bool pausing_ = false;
  SysResult result_ = 0;
  std::optional<Instant> until_;
  Pause timer_;
};

}  // namespace weft::detail

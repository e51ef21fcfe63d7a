/// co_await op: the coroutine's side of waiting. Same Suspension as a fiber's; only the parking
/// differs.
///
/// A coroutine may also be driven by a fiber or a plain thread (weft::await). Then the wait belongs
/// to a flow with a stack, which simply blocks inside await_ready, and the coroutine never
/// suspends.
#pragma once

#include <weft/wait/suspension.hpp>

#include <optional>

namespace weft {

namespace detail {

struct NoRecheck {};

/// What the engine asks of a coroutine that was woken by a hint, or has given way before it began;
/// and the error it then met.
struct KeptError : Recheck {
  std::exception_ptr error;
  bool gave_way = false;
};

}  // namespace detail

/// Of an op of its own, or (`O&`) of one that stays where it is: what a co_await is about lives
/// until it is over, and copying what has just been written is slow (see perform.hpp).
template <class Kept>
  requires Op<std::remove_reference_t<Kept>>
class OpAwaiter : std::conditional_t<branch::hints<std::remove_reference_t<Kept>>,
                                     detail::KeptError, detail::NoRecheck> {
  using O = std::remove_reference_t<Kept>;

 public:
  explicit OpAwaiter(Kept op) : op_(static_cast<Kept&&>(op)) {}
  OpAwaiter(const OpAwaiter&) = delete;
  OpAwaiter& operator=(const OpAwaiter&) = delete;

  bool await_ready() {
    Current& here = *current();
    if constexpr (branch::hints<O>) {
      if (here.turn_is_over()) {
        if (here.wait->flow() == Wait::Flow::coroutine) {
          this->gave_way = true;
          return false;
        }
        here.wait->give_way();
      }
    }
    return begin(*current()->wait);
  }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    if constexpr (branch::hints<O>) {
      this->really = [](Recheck& self) noexcept { return static_cast<OpAwaiter&>(self).recheck(); };
      Wait& wait = *current()->wait;
      if (this->gave_way) {
        wait.requeue_coroutine(handle, this);
      } else {
        wait.suspend_coroutine(handle, this);
      }
    } else {
      current()->wait->suspend_coroutine(handle, nullptr);
    }
  }
  [[gnu::always_inline]] ResultOf<O> await_resume() {
    if constexpr (branch::hints<O>) {
      if (this->error) std::rethrow_exception(this->error);
    }
    const std::size_t k = polled_ != not_polled ? polled_ : finish();
    return branch::take(op_, k);
  }

 private:
  static constexpr std::uint16_t not_polled = 0xffff;

  /// False: published, and the coroutine is to be parked.
  [[gnu::noinline]] bool begin(Wait& wait) {
    branch::point(op_);
    wait.throw_if_cancelled();
    if (std::size_t k; branch::ready(op_, k)) {
      polled_ = static_cast<std::uint16_t>(k);
      return true;
    }
    suspension_.emplace();
    do {
      if (suspension_->publish(wait, op_)) {
        if (wait.flow() == Wait::Flow::coroutine) return false;
        wait.suspend();
      }
    } while (!suspension_->settled(wait, op_));
    return true;
  }

  [[gnu::noinline]] std::size_t finish() { return suspension_->finish(*current()->wait, op_); }

  bool recheck() noexcept {
    Wait& wait = *current()->wait;
    try {
      if (this->gave_way) {
        this->gave_way = false;
        return begin(wait);
      }
      while (!suspension_->settled(wait, op_)) {
        if (suspension_->publish(wait, op_)) return false;
      }
    } catch (...) {
      this->error = std::current_exception();
    }
    return true;
  }

  Kept op_;
  std::uint16_t polled_ = not_polled;
  std::optional<Suspension<O>> suspension_;  // once it has to wait
};

}  // namespace weft

/// co_await op: the coroutine's side of waiting. Same Suspension as a fiber's; only the parking
/// differs.
///
/// A coroutine may also be driven by a fiber or a plain thread (weft::await). Then the wait belongs
/// to a flow with a stack, which simply blocks inside await_ready, and the coroutine never
/// suspends.
#pragma once

#include <weft/wait/suspension.hpp>

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

template <Op O>
class OpAwaiter : std::conditional_t<branch::hints<O>, detail::KeptError, detail::NoRecheck> {
 public:
  explicit OpAwaiter(O op) : op_(std::move(op)) {}
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
  ResultOf<O> await_resume() {
    if constexpr (branch::hints<O>) {
      if (this->error) std::rethrow_exception(this->error);
    }
    const std::size_t k =
        polled_ != not_polled ? polled_ : suspension_.finish(*current()->wait, op_);
    return branch::take(op_, k);
  }

 private:
  static constexpr std::uint16_t not_polled = 0xffff;

  /// False: published, and the coroutine is to be parked.
  bool begin(Wait& wait) {
    branch::point(op_);
    wait.throw_if_cancelled();
    if (const auto k = branch::poll(op_)) {
      polled_ = static_cast<std::uint16_t>(*k);
      return true;
    }
    do {
      if (suspension_.publish(wait, op_)) {
        if (wait.flow() == Wait::Flow::coroutine) return false;
        wait.suspend();
      }
    } while (!suspension_.settled(wait, op_));
    return true;
  }

  bool recheck() noexcept {
    Wait& wait = *current()->wait;
    try {
      if (this->gave_way) {
        this->gave_way = false;
        return begin(wait);
      }
      while (!suspension_.settled(wait, op_)) {
        if (suspension_.publish(wait, op_)) return false;
      }
    } catch (...) {
      this->error = std::current_exception();
    }
    return true;
  }

  O op_;
  std::uint16_t polled_ = not_polled;
  Suspension<O> suspension_;
};

}  // namespace weft

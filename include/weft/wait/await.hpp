/// co_await op: the coroutine's side of waiting. Same Suspension as a fiber's; only the parking
/// differs.
///
/// A coroutine may also be driven by a fiber or a plain thread (weft::await). Then the wait belongs
/// to a flow with a stack, which simply blocks inside await_ready, and the coroutine never
/// suspends.
#pragma once

#include <weft/wait/suspension.hpp>

namespace weft {

template <Op O>
class OpAwaiter {
 public:
  explicit OpAwaiter(O op) : op_(std::move(op)) {}
  OpAwaiter(const OpAwaiter&) = delete;
  OpAwaiter& operator=(const OpAwaiter&) = delete;

  bool await_ready() {
    Wait& wait = *current()->wait;
    wait.throw_if_cancelled();
    if (const auto k = branch::poll(op_)) {
      polled_ = static_cast<std::uint16_t>(*k);
      return true;
    }
    if (!suspension_.publish(wait, op_)) return true;
    if (wait.flow() == Wait::Flow::coroutine) return false;
    wait.suspend();
    return true;
  }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    current()->wait->suspend_coroutine(handle);
  }
  ResultOf<O> await_resume() {
    if (polled_ != not_polled) return branch::take(op_, polled_);
    return suspension_.finish(*current()->wait, op_);
  }

 private:
  static constexpr std::uint16_t not_polled = 0xffff;
  O op_;
  std::uint16_t polled_ = not_polled;
  Suspension<O> suspension_;
};

}  // namespace weft

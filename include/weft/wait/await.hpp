/// co_await op: the coroutine's side of waiting. Same Suspension as a fiber's; only the parking
/// differs.
///
/// A coroutine may also be driven by a fiber or a plain thread (weft::await). Then the wait belongs
/// to a flow with a stack, which simply blocks inside await_ready, and the coroutine never
/// suspends.
#pragma once

#include <weft/wait/suspension.hpp>

#include <exception>
#include <optional>
#include <utility>

namespace weft {

/// Of an op of its own, or (`O&`) of one that stays where it is: what a co_await is about lives
/// until it is over, and copying what has just been written is slow (see perform.hpp).
template <class Kept>
  requires Op<std::remove_reference_t<Kept>>
class OpAwaiter {
  using O = std::remove_reference_t<Kept>;

 public:
  explicit OpAwaiter(Kept op) : op_(static_cast<Kept&&>(op)) {}
  OpAwaiter(const OpAwaiter&) = delete;
  OpAwaiter& operator=(const OpAwaiter&) = delete;

  [[gnu::always_inline]] bool await_ready() {
    if (branch::at_once(op_)) {
      polled_ = 0;
      return true;
    }
    Wait& wait = *current()->wait;
    if constexpr (branch::takes_turns<O>) {
      if (current()->turn_is_over()) {
        if (wait.flow() == Wait::Flow::coroutine) {
          waiting_.emplace(*this).gives_way = true;
          return false;
        }
        wait.give_way();
      }
    }
    return begin(wait);
  }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    Wait& wait = *current()->wait;
    if constexpr (may_give_way) {
      if (waiting_->gives_way) {
        wait.requeue_coroutine(handle, &*waiting_);
      } else {
        wait.suspend_coroutine(handle, &*waiting_);
      }
    } else {
      wait.suspend_coroutine(handle, nullptr);
    }
  }
  [[gnu::always_inline]] ResultOf<O> await_resume() {
    const std::size_t k = polled_ != not_polled ? polled_ : finish();
    return branch::take(op_, k);
  }

 private:
  static constexpr std::uint16_t not_polled = 0xffff;
  static constexpr bool may_give_way = branch::hints<O> || branch::gives_turn<O>;

  /// Once it has to wait. Plain: all that happens while it waits is what it waits for.
  struct Plain {
    explicit Plain(OpAwaiter&) noexcept {}
    Suspension<O> suspension;
  };
  /// Woken by a hint, or having given way before it began, or to whom it waits for, it is asked by
  /// the engine whether to go on; and may meet an error then.
  struct Asked : Recheck {
    explicit Asked(OpAwaiter& asked) noexcept : awaiter(asked) {
      really = [](Recheck& self) noexcept { return static_cast<Asked&>(self).awaiter.recheck(); };
    }
    OpAwaiter& awaiter;
    Suspension<O> suspension;
    std::exception_ptr error;
    bool gives_way = false;
  };
  using Waiting = std::conditional_t<may_give_way, Asked, Plain>;

  /// False: published, and the coroutine is to be parked; or it gives way first.
  [[gnu::noinline]] bool begin(Wait& wait) {
    branch::point(op_);
    wait.throw_if_cancelled();
    if constexpr (branch::helps<O>) {
      if (branch::help(op_)) {
        waiting_.emplace(*this).gives_way = true;
        return false;
      }
      wait.throw_if_cancelled();
    }
    return look(wait);
  }
  [[gnu::always_inline]] bool look(Wait& wait) {
    if (std::size_t k; branch::looks_ready(op_) && branch::ready(op_, k)) {
      polled_ = static_cast<std::uint16_t>(k);
      return true;
    }
    return start_waiting(wait);
  }
  [[gnu::noinline]] bool start_waiting(Wait& wait) {
    if (!waiting_) waiting_.emplace(*this);
    do {
      if (waiting_->suspension.publish(wait, op_)) {
        if (wait.flow() == Wait::Flow::coroutine) return false;
        wait.suspend();
      }
    } while (!waiting_->suspension.settled(wait, op_));
    return true;
  }

  [[gnu::noinline]] std::size_t finish() {
    if constexpr (may_give_way) {
      if (waiting_->error) std::rethrow_exception(waiting_->error);
    }
    return waiting_->suspension.finish(*current()->wait, op_);
  }

  bool recheck() noexcept {
    Wait& wait = *current()->wait;
    try {
      if (std::exchange(waiting_->gives_way, false)) {
        if constexpr (!branch::gives_turn<O>) return begin(wait);
        wait.throw_if_cancelled();
        return look(wait);
      }
      while (!waiting_->suspension.settled(wait, op_)) {
        if (waiting_->suspension.publish(wait, op_)) return false;
      }
    } catch (...) {
      waiting_->error = std::current_exception();
    }
    return true;
  }

  Kept op_;
  std::uint16_t polled_ = not_polled;
  std::optional<Waiting> waiting_;
};

}  // namespace weft

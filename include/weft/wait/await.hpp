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
      how_ = 0;
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
    how_ = begin(wait);
    return how_ != must_suspend;
  }
  [[nodiscard]] std::coroutine_handle<> await_suspend(std::coroutine_handle<> handle) noexcept {
    Wait& wait = *current()->wait;
    if constexpr (may_give_way) {
      if (waiting_->gives_way) {
        wait.requeue_coroutine(handle, &*waiting_);
        return std::noop_coroutine();
      }
      return wait.suspend_coroutine(handle, &*waiting_);
    } else {
      return wait.suspend_coroutine(handle, nullptr);
    }
  }
  [[gnu::always_inline]] ResultOf<O> await_resume() {
    const std::size_t k = how_ < waited ? how_ : finish();
    return branch::take(op_, k);
  }

 private:
  // What begin() and look() say: the branch that can be taken; or one of these.
  static constexpr std::uint16_t waited = 0xfffe;        // finish() says which
  static constexpr std::uint16_t must_suspend = 0xffff;  // published, to be parked; or it gives way
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

  /// What most take. It calls nothing but at its end, and so has nothing to save.
  [[gnu::noinline]] std::uint16_t begin(Wait& wait) {
    if (branch::helps<O> || detail::simulated() || wait.cancelled()) return begin_with_care(wait);
    return branch::quick(op_) ? 0 : look(wait);
  }
  [[gnu::noinline]] std::uint16_t begin_with_care(Wait& wait) {
    branch::point(op_);
    wait.throw_if_cancelled();
    if constexpr (branch::helps<O>) {
      if (branch::help(op_)) {
        waiting_.emplace(*this).gives_way = true;
        return must_suspend;
      }
      wait.throw_if_cancelled();
    }
    return look(wait);
  }
  [[gnu::noinline]] std::uint16_t look(Wait& wait) {
    if (std::size_t k; branch::looks_ready(op_) && branch::ready(op_, k)) {
      return static_cast<std::uint16_t>(k);
    }
    return start_waiting(wait);
  }
  [[gnu::noinline]] std::uint16_t start_waiting(Wait& wait) {
    if (!waiting_) waiting_.emplace(*this);
    do {
      if (waiting_->suspension.publish(wait, op_)) {
        if (wait.flow() == Wait::Flow::coroutine) return must_suspend;
        wait.suspend();
      }
    } while (!waiting_->suspension.settled(wait, op_));
    return waited;
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
        if constexpr (branch::gives_turn<O>) {
          wait.throw_if_cancelled();
          how_ = look(wait);
        } else {
          how_ = begin(wait);
        }
        return how_ != must_suspend;
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
  std::uint16_t how_ = waited;
  std::optional<Waiting> waiting_;
};

}  // namespace weft

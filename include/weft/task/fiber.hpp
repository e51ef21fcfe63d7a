/// A fiber: a stack and a strand of control, on which tasks run one after the other.
///
/// It lives at the top of its own stack, in the page that is touched anyway. Tasks are bound to a
/// fiber when they first run, not when they are spawned: a million spawned tasks that run to
/// completion need a handful of stacks.
///
/// Not all at the very top, but some lines below it, by the stack's number: what lies at the same
/// place in every page competes for the same dozen lines of the first cache.
///
/// Who may touch the stack follows from the state of the task that is bound to it, one word whose
/// edges are asserted, so there is nothing to keep in step:
///
///     idle ───▶ assigned ───▶ owned (task running) ⇄ parked (task ready or blocked)
///      ▲                          │
///      └──────── done ◀───────────┘        into the idle pool only when off its stack
///
/// A task becomes `running` once for each time it was made ready (asserted): no two workers on one
/// stack.
#pragma once

#include <weft/base/check.hpp>
#include <weft/stack/stack_pool.hpp>
#include <weft/stack/strand.hpp>

namespace weft {

class Fiber {
 public:
  /// Builds a fiber at the top of `stack`.
  static Fiber* create(stack::Stack stack);
  /// From another stack.
  static stack::Stack destroy(Fiber* fiber) noexcept;

  [[nodiscard]] const stack::Stack& stack() const noexcept { return stack_; }
  [[nodiscard]] stack::Strand& strand() noexcept { return strand_; }
  [[nodiscard]] const stack::Strand& strand() const noexcept { return strand_; }
  /// Prepares an idle fiber to call `entry` when it is first switched to.
  void start(void (*entry)(void*), bool keep_float_control) noexcept;
  /// Its last task has ended, but not the function it started with: that only wants another task.
  [[nodiscard]] bool resting() const noexcept { return resting_; }
  void rest() noexcept { resting_ = true; }
  void go_on(bool keep_float_control) noexcept {
    resting_ = false;
    strand_.keep_float_control = keep_float_control;
  }

 private:
  explicit Fiber(stack::Stack stack) noexcept : stack_(stack) {}

  stack::Strand strand_;
  stack::Stack stack_;
  bool resting_ = false;
};

}  // namespace weft

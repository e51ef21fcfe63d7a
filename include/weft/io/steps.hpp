/// StepsOp: one operation made of several of another, one after the other.
///
/// A goal says what is wanted (a whole line, everything sent), where progress is kept, and which
/// operation brings it nearer (one read, one write):
///
///     struct Goal {
///       using Result = ...;
///       bool done();          is it reached? May throw
///       auto next();          if not: the operation of the next step. May throw
///       void absorb(result);  what that operation gave
///       Result take();        once, after done() said yes
///       OneAtATime& turn();   of the object in which progress is kept
///     };
///
///     auto line_op() { return StepsOp(LineGoal(...)); }
///
/// The steps run in the waiter: as far as they go without waiting when it polls, the rest each time
/// the inner operation has won (Op::confirm). Progress is kept in the goal's object, never in the
/// operation. So an operation that loses a select, times out or is cancelled between two steps has
/// lost nothing: an equal one goes on where it stopped.
///
/// Any operation may be the inner one: with one branch or several, woken by hints or not.
///
/// Rejected: a coroutine for such waits. It cannot be a case of a select without a task of its own.
#pragma once

#include <weft/base/check.hpp>
#include <weft/wait/op.hpp>

#include <array>
#include <exception>
#include <optional>
#include <utility>

namespace weft {

/// Finds a second user of an object that is meant for one task at a time: its waiting operation
/// has handed out memory that a second one would change.
class OneAtATime {
 public:
  OneAtATime() = default;
  OneAtATime(const OneAtATime&) = delete;
  OneAtATime& operator=(const OneAtATime&) = delete;
  ~OneAtATime() {
    WEFT_CHECK(waiting_ == nullptr, "a Reader or Writer is destroyed while a task waits on it");
  }

  /// `op` (null: no operation) is about to use the object.
  void check(const void* op) const noexcept {
    WEFT_CHECK(waiting_ == nullptr || waiting_ == op,
               "an operation is waiting on this Reader or Writer already: it serves one operation "
               "at a time, of one task");
  }
  void begin_waiting(const void* op) noexcept { waiting_ = op; }
  void end_waiting() noexcept { waiting_ = nullptr; }

 private:
  const void* waiting_ = nullptr;
};

template <class Goal>
class StepsOp {
  using Inner = decltype(std::declval<Goal&>().next());

 public:
  using Result = typename Goal::Result;
  static constexpr std::size_t branches = branch::count<Inner>;
  static constexpr bool hints = true;
  static constexpr bool outside = true;

  explicit StepsOp(Goal goal) : goal_(std::move(goal)) {}
  /// Only before it is waited for: there is nothing but the goal yet.
  StepsOp(StepsOp&& other) noexcept : goal_(std::move(other.goal_)) {}
  StepsOp& operator=(StepsOp&&) = delete;
  ~StepsOp() = default;

  /// The waiter waits for nothing else: what helps the inner operations may be done for each.
  void help() noexcept
    requires branch::helps<Inner>
  {
    alone_ = true;
  }
  std::optional<std::size_t> poll() {
    goal_.turn().check(this);
    return advance() ? std::optional<std::size_t>(0) : std::nullopt;
  }
  ObjectId object(std::size_t k) { return branch::object(*inner_, k); }
  Reason reason_of(std::size_t k) { return branch::reason(*inner_, k); }
  Armed arm(std::size_t k, Arm& arm) {
    goal_.turn().check(this);
    const Armed armed = branch::arm(*inner_, k, arm);
    if (armed == Armed::waiting) {
      arms_[k] = &arm;
      goal_.turn().begin_waiting(this);
    }
    return armed;
  }
  void disarm(std::size_t k, Arm&) noexcept { withdraw(k); }

  /// One step has been made; goes on as far as possible.
  bool confirm(std::size_t k) noexcept {
    arms_[k] = nullptr;
    goal_.turn().end_waiting();
    if (!branch::confirm(*inner_, k)) return false;
    // The step is over before the wait is: its losers are withdrawn here, not by the suspension,
    // which will find them gone.
    for (std::size_t other = 0; other < branches; ++other) withdraw(other);
    try {
      goal_.absorb(branch::take(*inner_, k));
      return advance();
    } catch (...) {
      error_ = std::current_exception();
      return true;
    }
  }
  Result take(std::size_t) {
    if (error_) std::rethrow_exception(error_);
    return goal_.take();
  }

 private:
  /// True: reached. False: the inner operation has to be waited for.
  bool advance() {
    for (;;) {
      inner_.reset();
      if (goal_.done()) return true;
      inner_.emplace(goal_.next());
      if constexpr (branch::helps<Inner>) {
        if (alone_) inner_->help();
      }
      const auto k = branch::poll(*inner_);
      if (!k) return false;
      goal_.absorb(branch::take(*inner_, *k));
    }
  }
  void withdraw(std::size_t k) noexcept {
    Arm* arm = std::exchange(arms_[k], nullptr);
    if (arm == nullptr) return;
    branch::disarm(*inner_, k, *arm);
    goal_.turn().end_waiting();
  }

  Goal goal_;
  std::optional<Inner> inner_;
  std::array<Arm*, branches> arms_{};  // those of inner_ that are published
  std::exception_ptr error_;
  bool alone_ = false;
};

}  // namespace weft

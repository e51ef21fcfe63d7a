/// Handles: how others meet a task's end.
///
///     JoinHandle<int> h = scope.spawn(f);
///     int v = h.get();                              // value, or throws the error
///     Outcome<int> o = h.join();                    // never throws what the task threw
///     auto r = select(h.join_op(), sleep_op(1s));   // or not that long
///
/// A JoinHandle is unique and the result is moved out of it, once. share() makes a Future of it, of
/// which there may be many, all seeing the same result. Any number of tasks and threads may wait
/// for one task. Dropping a handle does not stop the task: its scope owns it. Handles stay valid
/// after the scope is gone.
#pragma once

#include <weft/task/task.hpp>
#include <weft/wait/await.hpp>
#include <weft/wait/perform.hpp>

#include <optional>

namespace weft {

/// A task that ends with a T.
template <class T>
class TaskOf : public Task {
 public:
  using Task::Task;

  [[nodiscard]] std::exception_ptr error() const noexcept final {
    return outcome_ ? outcome_->error() : nullptr;
  }
  [[nodiscard]] Outcome<void> ending() const final {
    if (!outcome_ || outcome_->ok()) return Outcome<void>::success();
    if (outcome_->failed()) return Outcome<void>::failure(outcome_->error());
    return Outcome<void>::cancel(outcome_->reason());
  }
  void discard_value() noexcept final {
    if (outcome_ && outcome_->ok()) outcome_.reset();
  }
  [[nodiscard]] const Outcome<T>& outcome() const noexcept {
    check_not_taken(taken_.load(std::memory_order_relaxed));  // relaxed: a check of how it is used
    return *outcome_;
  }
  /// A value, once; what is not a value stays. How it ended can still be read meanwhile.
  [[nodiscard]] Outcome<T> take_outcome() {
    if (outcome_ && outcome_->failed()) return Outcome<T>::failure(outcome_->error());
    if (outcome_ && outcome_->cancelled()) return Outcome<T>::cancel(outcome_->reason());
    // relaxed: as above. In two steps: of two who take it at the same time maybe none is told.
    check_not_taken(taken_.load(std::memory_order_relaxed));
    taken_.store(true, std::memory_order_relaxed);
    return std::move(*outcome_);
  }

 protected:
  std::optional<Outcome<T>> outcome_;

 private:
  void check_not_taken(bool taken) const noexcept {
    WEFT_CHECK(outcome_ && !taken, "the result of task '", name(), "' (tid ", tid(),
               ") was already taken; use share() to join more than once");
  }
};

namespace detail {

/// The reference has been counted already.
struct Adopt {};

/// A counted reference to a task.
template <class T>
class TaskRef {
 public:
  TaskRef() = default;
  TaskRef(TaskOf<T>* task, Adopt) noexcept : task_(task) {}
  explicit TaskRef(TaskOf<T>* task) noexcept : task_(task) {
    if (task_ != nullptr) task_->retain();
  }
  TaskRef(const TaskRef& other) noexcept : TaskRef(other.task_) {}
  TaskRef(TaskRef&& other) noexcept : task_(std::exchange(other.task_, nullptr)) {}
  TaskRef& operator=(TaskRef other) noexcept {
    std::swap(task_, other.task_);
    return *this;
  }
  ~TaskRef() {
    if (task_ != nullptr) task_->release();
  }
  TaskOf<T>* operator->() const noexcept { return get(); }
  TaskOf<T>* get() const noexcept {
    WEFT_CHECK(task_ != nullptr, "empty handle: it was moved from, or never held a task");
    return task_;
  }
  explicit operator bool() const noexcept { return task_ != nullptr; }

 private:
  TaskOf<T>* task_ = nullptr;
};

/// Until a task ends, which somebody keeps alive.
class EndOp {
 public:
  using Result = void;
  static constexpr Reason reason{"join"};

  explicit EndOp(Task* task) noexcept : task_(task) {}
  ObjectId object() const noexcept { return task_->id(); }
  bool try_now() const noexcept { return task_->done(); }
  Armed arm(Arm& arm) noexcept { return task_->arm_joiner(arm); }
  void disarm(Arm& arm) noexcept { task_->disarm_joiner(arm); }
  void take() const noexcept {}

 protected:
  Task* task_;
};

enum class JoinMode : std::uint8_t { take, look, wait };

template <class T, JoinMode mode>
class JoinOp : public EndOp {
 public:
  using Result = std::conditional_t<
      mode == JoinMode::take, Outcome<T>,
      std::conditional_t<mode == JoinMode::look, std::reference_wrapper<const Outcome<T>>, void>>;

  explicit JoinOp(TaskRef<T> task) : EndOp(task.get()), held_(std::move(task)) {}
  bool help() const { return task_->help(); }
  Result take() {
    if constexpr (mode == JoinMode::take) return held_->take_outcome();
    if constexpr (mode == JoinMode::look) return std::cref(held_->outcome());
  }

 private:
  TaskRef<T> held_;
};

/// What both kinds of handle offer.
template <class T>
class HandleBase {
 public:
  HandleBase() = default;
  explicit HandleBase(TaskOf<T>& task) noexcept : task_(&task) {}
  HandleBase(TaskOf<T>& task, Adopt adopt) noexcept : task_(&task, adopt) {}

  [[nodiscard]] std::uint64_t tid() const noexcept { return task_->tid(); }
  [[nodiscard]] std::string_view name() const noexcept { return task_->name(); }
  [[nodiscard]] TaskState state() const noexcept {
    detail::point(task_->id(), Access::read, "state?");
    return task_->state();
  }
  [[nodiscard]] bool done() const noexcept {
    detail::point(task_->id(), Access::read, "done?");
    return task_->done();
  }
  [[nodiscard]] Task* task() const noexcept { return task_.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(task_); }

  /// Tells the task to stop, at its current or next suspension. Does not wait.
  void cancel(CancelReason reason = CancelReason::killed) const noexcept {
    task_->cancel_tree(reason);
  }
  /// Only waits for the end; the result stays.
  [[nodiscard]] auto done_op() const { return JoinOp<T, JoinMode::wait>(task_); }
  void wait() const { perform(done_op()); }

 protected:
  TaskRef<T> task_;
};

}  // namespace detail

/// A result that comes later, and that many may see. sync/future.hpp makes and combines them.
template <class T>
class Future : public detail::HandleBase<T> {
  using Look = detail::JoinOp<T, detail::JoinMode::look>;
  using Take = detail::JoinOp<T, detail::JoinMode::take>;

 public:
  using Value = T;
  using detail::HandleBase<T>::HandleBase;

  [[nodiscard]] Look join_op() const { return Look(this->task_); }
  [[nodiscard]] const Outcome<T>& join() const { return perform(join_op()).get(); }
  /// The value, which stays; or throws the error.
  decltype(auto) get() const& { return join().value(); }
  /// Takes the value out: nobody else may look for it then.
  T get() && { return perform(Take(std::move(this->task_))).value(); }
  /// Of one that is done().
  [[nodiscard]] const Outcome<T>& outcome() const noexcept { return this->task_->outcome(); }
  [[nodiscard]] Outcome<T> take_outcome() const { return this->task_->take_outcome(); }

  /// co_await future: as get().
  auto operator co_await() const& { return Awaiter<Look>(Look(this->task_)); }
  auto operator co_await() && { return Awaiter<Take>(Take(this->task_)); }

 private:
  template <class Join>
  struct Awaiter : OpAwaiter<Join> {
    using OpAwaiter<Join>::OpAwaiter;
    decltype(auto) await_resume() {
      if constexpr (std::is_same_v<Join, Look>) {
        return OpAwaiter<Join>::await_resume().get().value();
      } else {
        return static_cast<T>(OpAwaiter<Join>::await_resume().value());
      }
    }
  };
};

template <class T>
class JoinHandle : public detail::HandleBase<T> {
  using Take = detail::JoinOp<T, detail::JoinMode::take>;

 public:
  using detail::HandleBase<T>::HandleBase;
  JoinHandle(JoinHandle&&) noexcept = default;
  JoinHandle& operator=(JoinHandle&&) noexcept = default;

  // An operation may outlive the handle. A handle that is given up, whatever comes of the wait,
  // hands its task over, which is cheaper: scope.spawn(f).get(), std::move(handle).join_op().
  [[nodiscard]] auto join_op() const& { return Take(this->task_); }
  [[nodiscard]] auto join_op() && { return Take(std::move(this->task_)); }
  Outcome<T> join() const& { return perform(join_op()); }
  Outcome<T> join() && { return perform(std::move(*this).join_op()); }
  T get() const& { return join().value(); }
  T get() && { return std::move(*this).join().value(); }

  [[nodiscard]] Future<T> share() && {
    Future<T> shared(*this->task_.get());
    this->task_ = {};
    return shared;
  }
};

}  // namespace weft

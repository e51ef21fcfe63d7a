/// Handles: how others meet a task's end.
///
///     JoinHandle<int> h = scope.spawn(f);
///     int v = h.get();                                    // value, or throws the error /
///     CancelledError Outcome<int> o = h.join();                          // never throws what the
///     task threw auto r = select(h.join_op(), sleep_op(1s));         // or not that long
///
/// A JoinHandle is unique and the result is moved out of it, once. share() gives a SharedHandle, of
/// which there may be many, all seeing the same result. Any number of tasks and threads may wait
/// for one task. Dropping a handle does not stop the task: its scope owns it. Handles stay valid
/// after the scope is gone.
#pragma once

#include <weft/task/task.hpp>
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
  void discard_value() noexcept final {
    if (outcome_ && outcome_->ok()) outcome_.reset();
  }
  [[nodiscard]] const Outcome<T>& outcome() const noexcept { return *outcome_; }
  [[nodiscard]] Outcome<T> take_outcome() {
    WEFT_CHECK(outcome_.has_value(), "the result of task '", name(), "' (tid ", tid(),
               ") was already taken; use share() to join more than once");
    Outcome<T> taken = std::move(*outcome_);
    outcome_.reset();
    return taken;
  }

 protected:
  std::optional<Outcome<T>> outcome_;
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

enum class JoinMode : std::uint8_t { take, look, wait };

template <class T, JoinMode mode>
class JoinOp {
 public:
  using Result = std::conditional_t<
      mode == JoinMode::take, Outcome<T>,
      std::conditional_t<mode == JoinMode::look, std::reference_wrapper<const Outcome<T>>, void>>;
  static constexpr Reason reason{"join"};

  explicit JoinOp(TaskRef<T> task) : task_(std::move(task)) {}
  ObjectId object() const noexcept { return task_->id(); }
  bool try_now() const noexcept { return task_->done(); }
  Armed arm(Arm& arm) noexcept { return task_->arm_joiner(arm); }
  void disarm(Arm& arm) noexcept { task_->disarm_joiner(arm); }
  Result take() {
    if constexpr (mode == JoinMode::take) return task_->take_outcome();
    if constexpr (mode == JoinMode::look) return std::cref(task_->outcome());
  }

 private:
  TaskRef<T> task_;
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
  [[nodiscard]] TaskState state() const noexcept { return task_->state(); }
  [[nodiscard]] bool done() const noexcept { return task_->done(); }
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

template <class T>
class SharedHandle : public detail::HandleBase<T> {
 public:
  using detail::HandleBase<T>::HandleBase;

  [[nodiscard]] auto join_op() const {
    return detail::JoinOp<T, detail::JoinMode::look>(this->task_);
  }
  [[nodiscard]] const Outcome<T>& join() const { return perform(join_op()).get(); }
  decltype(auto) get() const { return join().value(); }
};

template <class T>
class JoinHandle : public detail::HandleBase<T> {
 public:
  using detail::HandleBase<T>::HandleBase;
  JoinHandle(JoinHandle&&) noexcept = default;
  JoinHandle& operator=(JoinHandle&&) noexcept = default;

  [[nodiscard]] auto join_op() const {
    return detail::JoinOp<T, detail::JoinMode::take>(this->task_);
  }
  Outcome<T> join() const { return perform(join_op()); }
  T get() const { return join().value(); }

  [[nodiscard]] SharedHandle<T> share() && {
    SharedHandle<T> shared(*this->task_.get());
    this->task_ = {};
    return shared;
  }
};

}  // namespace weft

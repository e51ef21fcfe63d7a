/// A task: who runs. One block of memory holding its identity, its place in the cancellation tree,
/// its wait, and (in the derived class) the closure or coroutine and the result.
///
/// A task runs on a fiber of its own, or as a coroutine on a worker's runner, or, on an inline Io,
/// on the calling thread. It ends exactly once, with an Outcome. Users hold it through JoinHandle.
///
///            spawn            picked              wait
///     created ──▶ ready ─────────────▶ running ─────────▶ blocked(reason)
///                   ▲     ◀──────────     │                    │
///                   │       yield         └──▶ complete        │
///                   └──────────────────────────────────────────┘ woken
///
/// Every edge is asserted and shown to the Io's Observer.
///
/// Lifetime: one reference belongs to the engine from spawn to completion, one to each handle.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/outcome.hpp>
#include <weft/base/time.hpp>
#include <weft/task/cancel.hpp>
#include <weft/wait/op.hpp>

#include <coroutine>
#include <new>
#include <string>
#include <string_view>

namespace weft {

class Fiber;
class Scope;
class Task;
class Worker;
struct LocalBinding;
namespace detail {
class ForkBase;
void publish_forks(Task& task) noexcept;
}  // namespace detail

enum class TaskState : std::uint8_t { created, ready, running, blocked, complete };
[[nodiscard]] const char* to_string(TaskState state) noexcept;

/// Sees every edge of every task's life, on the thread where it happens. Must not wait or throw.
class Observer {
 public:
  virtual void on_edge(const Task& task, TaskState from, TaskState to) noexcept = 0;

 protected:
  ~Observer() = default;
};

namespace priority {
inline constexpr std::uint8_t background = 64;
inline constexpr std::uint8_t normal = 128;
inline constexpr std::uint8_t urgent = 192;
}  // namespace priority

struct SpawnOptions {
  /// Shown in dumps, reports and gdb; empty: "task".
  std::string_view name{};
  /// Bytes, rounded up to pages; 0: the Io's default.
  std::size_t stack_size = 0;
  /// This task changes MXCSR by intrinsics and wants it kept across switches (<cfenv> needs no
  /// option).
  bool keep_float_control = false;
  /// On a pool: the worker to run on (counted from 1, modulo the number of workers), as long as it
  /// is not stuck or overrun. 0: whichever comes first.
  std::uint16_t worker = 0;
  /// Those that are ready go by priority, 0 to 255, the highest first; those of the same take
  /// turns. Strictly so on a loop. On a pool each worker that is free takes the most urgent; what
  /// is less than normal runs when it has nothing else, and `worker` is not heeded for what is not
  /// normal.
  std::uint8_t priority = priority::normal;
  /// A failure concerns only those who hold a handle, whatever its scope does about failures.
  bool isolated = false;
};

class Task : public Wait, public CancelNode {
 public:
  [[nodiscard]] std::uint64_t tid() const noexcept { return tid_; }
  [[nodiscard]] std::string_view name() const noexcept;
  [[nodiscard]] TaskState state() const noexcept {
    return state_.load(std::memory_order_relaxed);  // relaxed: a report, nothing is decided by it
  }
  /// Unlike the tid, unique among all objects of the process.
  [[nodiscard]] ObjectId id() const noexcept;
  [[nodiscard]] Io& io() const noexcept final { return io_; }
  [[nodiscard]] Fiber* fiber() const noexcept { return fiber_; }
  /// Where a suspended coroutine task will continue; null while it runs and for fibers.
  [[nodiscard]] std::coroutine_handle<> resume_point() const noexcept { return resume_point_; }

  /// The node that children, scopes and shields made now hang under.
  [[nodiscard]] CancelNode& active() const noexcept { return *active_; }
  void set_active(CancelNode& node) noexcept { active_ = &node; }

  [[nodiscard]] LocalBinding* locals() const noexcept { return locals_; }
  void set_locals(LocalBinding* locals) noexcept { locals_ = locals; }

  /// Those that are not published, oldest first. Only for the task itself.
  [[nodiscard]] auto& forks() noexcept { return forks_; }
  /// It is about to leave its stack, and others shall not wait for it: its forks become tasks.
  void publish_forks() noexcept {
    if (!forks_.empty()) [[unlikely]]
      detail::publish_forks(*this);
  }

  /// A fork that becomes a task finds what its call would have found here.
  [[nodiscard]] SpawnOptions fork_options() const noexcept {
    return {.name = name_ == nullptr ? std::string_view{} : name_,
            .stack_size = stack_size_,
            .keep_float_control = keep_float_control_,
            .priority = priority_};
  }

  void retain() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }  // relaxed: we hold one
  /// The first handle, while nobody else knows the task.
  void share_before_start() noexcept {
    refs_.store(2, std::memory_order_relaxed);
  }  // relaxed: see there
  /// Does anybody but the engine hold it?
  [[nodiscard]] bool has_handles() const noexcept {
    return refs_.load(std::memory_order_relaxed) >
           1;  // relaxed: a race with a dropped handle is harmless
  }
  void release() noexcept;

  // Joining

  [[nodiscard]] bool done() const noexcept {
    return done_.load(
        std::memory_order_acquire);  // acquire: partner is the release store in finish()
  }
  /// The calling task waits for this one and for nothing else: if this one has not begun, it may
  /// have the caller's turn. See Worker::give_turn_to().
  bool help() { return state() == TaskState::ready && run_for_waiter(); }
  [[nodiscard]] Armed arm_joiner(Arm& arm) noexcept;
  void disarm_joiner(Arm& arm) noexcept;

  // Waiting (see Wait)

  /// A coroutine may now wait by suspend(), as a fiber does: in a destructor, where it has no other
  /// way.
  void let_wait_on_stack(bool may) noexcept { may_wait_on_stack_ = may; }
  void suspend() final;
  void give_way() final;
  std::coroutine_handle<> suspend_coroutine(std::coroutine_handle<> handle,
                                            Recheck* recheck) noexcept final;
  void requeue_coroutine(std::coroutine_handle<> handle, Recheck* recheck) noexcept final;
  void resume() noexcept final;

  // The engine's side

  /// Runs the task from start to end on the calling stack and keeps the outcome.
  virtual void execute() noexcept = 0;
  /// The coroutine to resume first, for tasks that run as coroutines.
  virtual std::coroutine_handle<> root() noexcept = 0;
  /// Keeps the outcome of the finished root coroutine.
  virtual void collect() noexcept = 0;
  /// Destroys a value that nobody can ask for any more; an error stays.
  virtual void discard_value() noexcept = 0;
  /// Ends with `error` without having run: there was no stack for it.
  virtual void refuse(std::exception_ptr error) noexcept = 0;
  /// The task's error, if it ended in one.
  [[nodiscard]] virtual std::exception_ptr error() const noexcept = 0;
  /// How it ended, without the value. Only once it is done.
  [[nodiscard]] virtual Outcome<void> ending() const = 0;

  /// After execute() or collect(): tells the scope and the joiners. The scope may be gone
  /// afterwards.
  void finish() noexcept;

  void to_state(TaskState to) noexcept {
    // relaxed: one party at a time changes the state; reports may read it any time.
    const TaskState from = state_.load(std::memory_order_relaxed);
    if (!legal(from, to)) [[unlikely]]
      illegal_edge(from, to);
    state_.store(to, std::memory_order_relaxed);
    if (observer_ != nullptr) [[unlikely]]
      observer_->on_edge(*this, from, to);
  }
  /// For whoever holds it while it is ready: the next in some list.
  [[nodiscard]] Task*& next_ready() noexcept { return next_ready_; }
  [[nodiscard]] bool isolated() const noexcept { return isolated_; }
  [[nodiscard]] std::uint8_t priority() const noexcept { return priority_; }
  /// The worker it would like to run on, counted from 1; 0: any.
  [[nodiscard]] std::uint16_t wanted_worker() const noexcept { return wanted_worker_; }
  /// Enters the tree under `scope` and hands itself to the Io.
  void start(Scope& scope);

  static void* operator new(std::size_t size);
  static void operator delete(void* block, std::size_t size) noexcept;
  // For closures and results with extended alignment.
  static void* operator new(std::size_t size, std::align_val_t alignment);
  static void operator delete(void* block, std::size_t size, std::align_val_t alignment) noexcept;

 protected:
  Task(Io& io, Flow flow, const SpawnOptions& options);
  virtual ~Task();

  /// The reason this task was told to stop before it ran, or `none`.
  [[nodiscard]] CancelReason cancelled_before_start() const noexcept { return flag().reason(); }

 private:
  friend class Worker;
  [[nodiscard]] static constexpr bool legal(TaskState from, TaskState to) noexcept {
    switch (to) {
      case TaskState::created:
        return false;
      case TaskState::ready:
        return from != TaskState::ready && from != TaskState::complete;
      case TaskState::running:
        return from == TaskState::ready;
      case TaskState::blocked:
      case TaskState::complete:
        return from == TaskState::running;
    }
    return false;
  }
  [[noreturn]] void illegal_edge(TaskState from, TaskState to) const noexcept;
  bool run_for_waiter();

  // Fixed at spawn.
  Io& io_;
  Observer* const observer_;
  const std::uint64_t tid_;
  char* name_ = nullptr;
  const std::uint32_t stack_size_;
  const std::uint16_t io_number_;  // the Io itself may be gone before the last handle
  const bool keep_float_control_;
  const bool isolated_;
  const std::uint16_t wanted_worker_;
  const std::uint8_t priority_;
  bool may_wait_on_stack_ = false;  // the running task's, like what follows

  // The running task's, or its worker's while it is off its stack.
  CancelNode* active_ = this;
  LocalBinding* locals_ = nullptr;
  List<detail::ForkBase, detail::ForkBase> forks_;
  Fiber* fiber_ = nullptr;  // bound at first run
  std::coroutine_handle<> resume_point_{};
  Recheck* recheck_ = nullptr;  // of the current suspension of a coroutine
  Task* next_ready_ = nullptr;  // the run queue's

  std::atomic<TaskState> state_{TaskState::created};
  Atomic<bool> done_{false};

 protected:
  Atomic<bool> taken_{false};  // the value, by a joiner: there is room for it here

 private:
  Atomic<std::uint32_t> refs_{1};
  List<Arm> joiners_;  // under the node's lock
};

/// The task that is running on this thread; null outside of tasks.
[[nodiscard]] inline Task* this_task() noexcept {
  const Current* here = current();
  return here == nullptr ? nullptr : static_cast<Task*>(here->wait);
}

}  // namespace weft

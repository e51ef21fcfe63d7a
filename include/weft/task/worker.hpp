/// A worker: an OS thread in the act of running tasks. Engines derive from it.
///
/// All switching is here, once. A task leaves its stack in one of four ways, and what must happen
/// afterwards (requeue it, make it the next, park its wait, free its fiber) is done by whoever
/// comes next, on *their* stack: "yield before commit". Where nobody else could take the task up
/// (on a loop), a task that yields or waits does the first and third of these itself, before it
/// leaves. A leaving fiber goes directly to the next ready one if there is any, without a detour
/// over the worker's own stack ("home"); after `budget` such hops it goes home, where the engine
/// looks at timers, inbox and the outside world.
///
/// Coroutines run on a fiber as well, one after the other on the same: the worker's runner. It is
/// only lent to them, and a coroutine that is suspended needs none: so one that leaves does all of
/// the above itself, and goes straight on with the next one if that has begun. But a coroutine that
/// must wait where it cannot suspend, in a destructor, keeps the runner until it goes on, as any
/// task keeps its fiber; the worker takes another one. (Rejected: running other tasks from within
/// the destructor. Those may do the same, and then somebody waits for what lies beneath it on the
/// stack.)
///
/// A worker has ready tasks of its own, which nobody else sees, and runs them as they come. One
/// that shares its tasks with others (a pool's), or has another order, keeps them elsewhere
/// instead, and fetches one when it needs one: a task that has been fetched is run next, whatever
/// it is. There a task that yields may be taken by somebody else as soon as it is queued, so it is
/// queued only when it is off its stack.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/stack/overflow.hpp>
#include <weft/task/blocks.hpp>
#include <weft/task/fiber.hpp>
#include <weft/task/task.hpp>
#include <weft/wait/leaning_lock.hpp>
#include <weft/wait/point.hpp>

#include <array>
#include <optional>
#include <thread>
#include <utility>

namespace weft {

/// First in, first out, of tasks; intrusive. For its owner only.
class ReadyQueue {
 public:
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
  [[nodiscard]] Task* front() const noexcept { return first_; }
  void push(Task& task) noexcept {
    task.next_ready() = nullptr;
    (first_ == nullptr ? first_ : last_->next_ready()) = &task;
    last_ = &task;
  }
  Task* pop() noexcept {
    Task* task = first_;
    if (task != nullptr) first_ = task->next_ready();
    return task;
  }

 private:
  Task* first_ = nullptr;
  Task* last_ = nullptr;
};

/// Tasks made ready by other threads. Anybody pushes, the owner drains; order is kept.
class Inbox {
 public:
  [[nodiscard]] bool empty() const noexcept { return newest_.load() == nullptr; }

  void push(Task& task) noexcept {
    task.next_ready() =
        newest_.load(std::memory_order_relaxed);  // relaxed: the exchange below checks
    // seq_cst: the pusher then looks whether the owner sleeps, and the owner, before it sleeps,
    // looks here.
    while (!newest_.compare_exchange_weak(task.next_ready(), &task)) {
    }
  }
  void drain_into(ReadyQueue& queue) noexcept;

 private:
  Atomic<Task*> newest_{nullptr};
};

class Worker : public Current {
 public:
  explicit Worker(Io& io) noexcept : Worker(io, false) {}
  virtual ~Worker() {
    WEFT_CHECK(attached_to_.load() == std::thread::id{},
               "a worker is destroyed while it runs tasks");
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] Io& io() const noexcept { return io_; }
  [[nodiscard]] Task* task() const noexcept { return static_cast<Task*>(wait); }

  /// What std::uncaught_exceptions() says on its thread, at less cost.
  [[nodiscard]] int uncaught_exceptions() const noexcept {
    return static_cast<int>(static_cast<unsigned>(thread_.exceptions->uncaught));
  }

  /// Makes this the calling thread's worker, until detach(). `with_fibers`: it will run some.
  void attach(bool with_fibers);
  void detach() noexcept;
  /// Is it the calling thread's, though maybe another engine runs nested in it now? Checked: no
  /// other thread's.
  [[nodiscard]] bool attached_here() const noexcept;

  /// From home: runs a ready task, and then those it hops to, until one of them comes home.
  void run(Task& task);
  /// Runs a task from start to end on the calling stack; its waits block the thread.
  void run_on_thread(Task& task) noexcept;

  // From a running task: leaves the stack; returns when the task is resumed, maybe on another
  // worker.
  [[gnu::always_inline]] void yield_fiber(Task& task);
  void park_fiber(Task& task);

  /// From a running task that is about to wait for `task`, and for nothing else. If that has not
  /// begun, and is next in turn, it is switched to at once, and the waiter stays ready, to go on
  /// after it: when it comes back, most likely there is nothing to wait for. That spares both of
  /// them the whole wait. True: it will be so once the waiter, a coroutine, has been requeued.
  [[nodiscard]] bool give_turn_to(Task& task);

  /// A task has been woken by what runs on this worker. False: the Io shall say where it goes.
  [[nodiscard]] bool keep(Task& task) noexcept {
    if (&task.io_ != &io_ || task.priority_ != priority::normal || task.wanted_worker_ != 0 ||
        task.flow() == Wait::Flow::thread) {
      return false;
    }
    if (fetches_) return put_woken(task);
    ready_.push(task);
    return true;
  }

  // From a running coroutine, before it returns to the worker.
  void leave_coroutine(Task& task, std::coroutine_handle<> handle) noexcept;
  void coroutine_done() noexcept { after_ = After::finish; }
  // The same, to wait or to give its turn; they give what to go on with.
  [[nodiscard]] std::coroutine_handle<> park_coroutine(Task& task,
                                                       std::coroutine_handle<> handle) noexcept;
  [[nodiscard]] std::coroutine_handle<> yield_coroutine(Task& task,
                                                        std::coroutine_handle<> handle) noexcept;

  /// Has it nothing that other workers, if there are any, could take? And: it has now.
  [[nodiscard]] virtual bool wants_forks() const noexcept { return false; }
  virtual void forked() noexcept {}

 protected:
  Worker(Io& io, bool fetches) noexcept : fetches_(fetches), io_(io) {
    blocks = &blocks_;
    prepare_to_lean();
  }

  /// Of a worker that fetches: the task to run next, null if there is none (of that priority, or
  /// above); and where a task goes that has had its turn.
  virtual Task* take_next(std::uint8_t /*at_least*/) noexcept { return nullptr; }
  virtual void put_back(Task& /*task*/) noexcept {}
  /// Where one goes that was woken here, if it has no wishes; false: where all others go.
  [[nodiscard]] virtual bool put_woken(Task& /*task*/) noexcept { return false; }
  /// Takes this one, if it has not begun, its turn is next, and nobody else has been waiting for
  /// one; and where the task goes that has given up its turn for it: it has the next one.
  [[nodiscard]] virtual bool take_fresh(Task& /*task*/) noexcept { return false; }
  virtual void put_next(Task& /*task*/) noexcept {}

  /// Tasks begun: a sign of life, for others to read.
  [[nodiscard]] std::uint64_t turns_begun() const noexcept {
    return turns_begun_.load(std::memory_order_relaxed);  // relaxed: a report
  }

  bool fetches_;  // never changed while a task is about to leave
  ReadyQueue ready_;
  std::uint32_t budget_ = 0;  // direct hops left until a task must come home

 private:
  enum class After : std::uint8_t { nothing, requeue, next, park, finish, drop_runner };

  static void fiber_main(void* worker);
  static void runner_main(void* worker);
  static void run_coroutine_task(Task& task);
  [[nodiscard]] stack::Strand* strand_for(Task& task);
  [[nodiscard]] Fiber* take_fiber(std::size_t stack_size, bool keep_float_control,
                                  void (*entry)(void*));
  void give_fiber(Fiber* fiber, bool reusable) noexcept;
  [[nodiscard]] bool reusable(const Task& task) const noexcept;
  [[nodiscard]] bool stays_warm(const Task& task) const noexcept;
  [[nodiscard]] void* leave_ended(Task& task, Fiber& fiber);
  [[nodiscard]] bool on_hand(const Task& task) const noexcept;
  [[nodiscard]] stack::Strand& strand_of(Task& task) noexcept;
  [[nodiscard]] Task* next_for_runner() noexcept;
  [[nodiscard]] static bool recheck(Task& task) noexcept;
  [[nodiscard]] bool ready_to_hand_over(Task& task) noexcept;
  [[nodiscard]] static bool has_begun(const Task& coroutine) noexcept;
  void hand_runner_over(Task& from, Task& next) noexcept;
  [[nodiscard]] std::coroutine_handle<> go_straight_on(Task& next) noexcept;
  void coroutine_left(Task& task) noexcept;
  void leave_fiber(Task& task, After after, Task* to = nullptr);
  [[nodiscard]] Task* next_to_hop_to() noexcept;
  void fetch(std::uint8_t at_least = 0) noexcept;
  void yield_fetching(Task& task);
  void requeue(Task& task) noexcept;
  void settle();
  static void settle_parked(Task& task) noexcept;
  static void arrived(void* worker);
  void end(Task& task) noexcept;
  void begin(Task& task) noexcept {
    task.to_state(TaskState::running);
    wait = &task;
    count_turn();
  }
  /// The first of those that are ready.
  void take_up(Task& next) noexcept {
    --budget_;
    ready_.pop();
    begin(next);
  }
  void count_turn() noexcept {
    // relaxed: a report. No read-modify-write: only the worker counts.
    turns_begun_.store(turns_begun_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  [[nodiscard]] Task* next_for_this_fiber(const Task& finished) noexcept;
  [[nodiscard]] stack::Strand& next_strand() noexcept;
  [[nodiscard]] stack::Strand& strand_to(Task& task) noexcept;

  Io& io_;
  std::atomic<std::thread::id> attached_to_{};
  Current* outer_ = nullptr;  // the thread's worker before us: engines may nest
  std::optional<stack::AltStack> alt_stack_;
  stack::ThreadState thread_{};
  stack::ExceptionState outer_exceptions_;  // the thread's own, while it is ours
  stack::Strand home_;
  std::atomic<std::uint64_t> turns_begun_{0};
  After after_ = After::nothing;
  Task* left_ = nullptr;                  // whom `after_` is about
  Fiber* runner_ = nullptr;               // idle, or running a coroutine now
  Fiber* dropped_ = nullptr;              // a runner too many, see After::drop_runner
  std::array<Fiber*, 32> idle_fibers_{};  // with stacks of the usual size, warm
  std::size_t idle_count_ = 0;
  BlockCache blocks_;
};

/// The calling thread's worker; null on a thread that runs no engine.
[[nodiscard]] inline Worker* this_worker() noexcept {
  return static_cast<Worker*>(current());
}

/// For the overflow handler: the stack the calling thread is on. Async-signal-safe.
[[nodiscard]] bool find_running_stack(stack::Running& running) noexcept;

/// Is there a stack for it to go on with?
inline bool Worker::on_hand(const Task& task) const noexcept {
  return task.fiber_ != nullptr || (task.flow() == Wait::Flow::coroutine && runner_ != nullptr);
}

inline stack::Strand& Worker::strand_of(Task& task) noexcept {
  return (task.fiber_ != nullptr ? task.fiber_ : runner_)->strand();
}

/// The ready task a leaving fiber may switch to directly; null: it must go home.
inline Task* Worker::next_to_hop_to() noexcept {
  if (fetches_ && budget_ > 0) fetch();
  Task* next = ready_.front();
  return budget_ == 0 || next == nullptr || !on_hand(*next) ? nullptr : next;
}

inline void Worker::requeue(Task& task) noexcept {
  task.to_state(TaskState::ready);
  if (fetches_) {
    put_back(task);
  } else {
    ready_.push(task);
  }
}

inline void Worker::settle_parked(Task& task) noexcept {
  task.to_state(TaskState::blocked);
  if (!task.park()) [[unlikely]]
    task.resume();
}

// In line down to the switch: a call around it would end in returns that the processor has no way
// of predicting, since it came by another fiber's call.
inline void Worker::yield_fiber(Task& task) {
  task.publish_forks();
  if (fetches_) {
    yield_fetching(task);
    return;
  }
  Task* next = next_to_hop_to();
  if (next == nullptr) {
    if (ready_.empty() && budget_ > 0) {
      --budget_;
    } else {
      leave_fiber(task, After::requeue);
    }
    return;
  }
  --budget_;
  ready_.pop();
  // Before we are off the stack: nobody but this worker, which is busy here, takes from ready_.
  requeue(task);
  begin(*next);
  void* back = stack::switch_strand(task.fiber_->strand(), strand_of(*next), thread_, this);
  auto* worker = static_cast<Worker*>(back);
  if (worker->after_ != After::nothing) worker->settle();
}

/// Outside of fibers: nothing to do, or an error in a coroutine.
void yield_elsewhere();
namespace detail {
/// False: it is not a task of the simulation that is going on.
bool yield_to_simulation(const Task& task) noexcept;
}  // namespace detail

/// Lets everybody else who is ready run first. From a fiber; on a plain thread it does nothing. In
/// coroutines: co_await next_turn(). A cancellation point.
[[gnu::always_inline]] inline void yield() {
  Worker* worker = this_worker();
  Task* task = worker == nullptr ? nullptr : worker->task();
  if (task == nullptr || task->flow() != Wait::Flow::fiber) {
    yield_elsewhere();
    return;
  }
  task->throw_if_cancelled();
  if (!detail::simulated() || !detail::yield_to_simulation(*task)) [[likely]]
    worker->yield_fiber(*task);
  task->throw_if_cancelled();  // also if it was cancelled while it waited for its turn
}

}  // namespace weft

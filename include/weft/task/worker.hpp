/// A worker: an OS thread in the act of running tasks. Engines derive from it.
///
/// All switching is here, once. A task leaves its stack in one of three ways, and what must happen
/// afterwards (requeue it, park its wait, free its fiber) is done by whoever arrives next, on
/// *their* stack: "yield before commit". A leaving fiber switches directly to the next ready fiber
/// if there is one, without a detour over the worker's own stack ("home"); after `budget` such hops
/// it goes home, where the engine looks at timers, inbox and the outside world.
#pragma once

#include <weft/stack/overflow.hpp>
#include <weft/task/blocks.hpp>
#include <weft/task/fiber.hpp>
#include <weft/task/task.hpp>

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
    task.next_ready_ = nullptr;
    (first_ == nullptr ? first_ : last_->next_ready_) = &task;
    last_ = &task;
  }
  Task* pop() noexcept {
    Task* task = first_;
    if (task != nullptr) first_ = task->next_ready_;
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
    task.next_ready_ =
        newest_.load(std::memory_order_relaxed);  // relaxed: the exchange below checks
    // seq_cst: the pusher then looks whether the owner sleeps, and the owner, before it sleeps,
    // looks here.
    while (!newest_.compare_exchange_weak(task.next_ready_, &task)) {
    }
  }
  void drain_into(ReadyQueue& queue) noexcept;

 private:
  std::atomic<Task*> newest_{nullptr};
};

class Worker : public Current {
 public:
  explicit Worker(Io& io) noexcept : io_(io) {}
  ~Worker() {
    WEFT_CHECK(attached_to_.load() == std::thread::id{},
               "a worker is destroyed while it runs tasks");
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] Io& io() const noexcept { return io_; }
  [[nodiscard]] Task* task() const noexcept { return static_cast<Task*>(wait); }
  [[nodiscard]] BlockCache& blocks() noexcept { return blocks_; }

  /// Makes this the calling thread's worker, until detach(). `with_fibers`: it will run some.
  void attach(bool with_fibers);
  void detach() noexcept;
  /// Is it the calling thread's, though maybe another engine runs nested in it now? Checked: no
  /// other thread's.
  [[nodiscard]] bool attached_here() const noexcept;

  /// For a destructor that must wait inside a coroutine: keeps what the engine needs to come back
  /// to the running task, while tasks are run from within it.
  class Nested {
   public:
    explicit Nested(Worker& worker) noexcept
        : worker_(worker),
          wait_(std::exchange(worker.wait, nullptr)),
          hop_(std::exchange(worker.hop, {})),
          left_(worker.left_),
          exceptions_(std::exchange(*worker.thread_.exceptions, {})),
          control_(stack::read_float_control()) {}
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() {
      worker_.wait = wait_;
      worker_.hop = hop_;
      worker_.left_ = left_;
      *worker_.thread_.exceptions = exceptions_;
      stack::write_float_control(control_);
    }

   private:
    Worker& worker_;
    Wait* wait_;
    std::coroutine_handle<> hop_;
    Task* left_;
    stack::ExceptionState exceptions_;
    stack::FloatControl control_;
  };

  /// From home: runs a ready task, and then those it hops to, until one of them comes home.
  void run(Task& task);
  /// Runs a task from start to end on the calling stack; its waits block the thread.
  void run_on_thread(Task& task) noexcept;

  // From a running task: leaves the stack; returns when the task is resumed, maybe on another
  // worker.
  [[gnu::always_inline]] void yield_fiber(Task& task);
  void park_fiber();

  // From a running coroutine, before it returns to the worker.
  void leave_coroutine(Task& task, std::coroutine_handle<> handle, bool park) noexcept;
  void coroutine_done() noexcept { after_ = After::finish; }

 protected:
  ReadyQueue ready_;
  std::uint32_t budget_ = 0;  // direct hops left until a task must come home

 private:
  enum class After : std::uint8_t { nothing, requeue, park, finish };

  static void fiber_main(void* worker);
  void run_fiber(Task& task);
  [[nodiscard]] bool give_fiber(Task& task);
  void take_fiber(Task& task) noexcept;
  [[nodiscard]] bool reusable(const Task& task) const noexcept;
  void run_coroutine_task(Task& task);
  void leave_fiber(Task& task, After after);
  [[nodiscard]] Task* next_to_hop_to() const noexcept;
  void requeue(Task& task) noexcept;
  void settle();
  void end(Task& task) noexcept;
  void begin(Task& task) noexcept {
    task.to_state(TaskState::running);
    wait = &task;
  }
  [[nodiscard]] Task* next_for_this_fiber(const Task& finished) noexcept;
  [[nodiscard]] stack::Strand& next_strand() noexcept;

  Io& io_;
  std::atomic<std::thread::id> attached_to_{};
  Current* outer_ = nullptr;  // the thread's worker before us: engines may nest
  std::optional<stack::AltStack> alt_stack_;
  stack::ThreadState thread_{};
  stack::ExceptionState outer_exceptions_;  // the thread's own, while it is ours
  stack::Strand home_;
  After after_ = After::nothing;
  Task* left_ = nullptr;                  // whom `after_` is about
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

/// The ready fiber a leaving fiber may switch to directly; null: it must go home.
inline Task* Worker::next_to_hop_to() const noexcept {
  Task* next = ready_.front();
  return budget_ == 0 || next == nullptr || next->fiber_ == nullptr ? nullptr : next;
}

inline void Worker::requeue(Task& task) noexcept {
  task.to_state(TaskState::ready);
  ready_.push(task);
}

// In line down to the switch: a call around it would end in returns that the processor has no way
// of predicting, since it came by another fiber's call.
inline void Worker::yield_fiber(Task& task) {
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
  void* back = stack::switch_strand(task.fiber_->strand(), next->fiber_->strand(), thread_, this);
  auto* worker = static_cast<Worker*>(back);
  if (worker->after_ != After::nothing) worker->settle();
}

/// Outside of fibers: nothing to do, or an error in a coroutine.
void yield_elsewhere();

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
  worker->yield_fiber(*task);
  task->throw_if_cancelled();  // also if it was cancelled while it waited for its turn
}

}  // namespace weft

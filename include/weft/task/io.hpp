/// Io: where tasks run. It owns scheduling and the outside world; the same code runs on each of
/// them.
///
///     weft::Loop loop;                    one thread, FIFO          (sched/loop)
///     weft::Inline io;                    the calling thread        (sched/inline)
///
/// This is the seam between tasks and engines: what a task may ask of the place it runs in. A task
/// inherits its Io from where it was spawned.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/stack/stack_pool.hpp>
#include <weft/task/scope.hpp>
#include <weft/task/task.hpp>
#include <weft/wait/timer.hpp>

#include <functional>

namespace weft {

class Kernel;

struct IoOptions {
  /// Of fibers that do not say otherwise; 0: WEFT_STACK_SIZE, or 256 KiB.
  std::size_t stack_size = 0;
  /// Every task starts on a clean stack, so that the high-water mark (in dumps, and from
  /// stacks().high_water()) is its own and not that of an earlier task on the same stack. Slower.
  /// Also: WEFT_MEASURE_STACKS=1.
  bool measure_stacks = false;
  /// Told about tasks that failed with nobody to tell; default: one line on stderr.
  std::function<void(const Task&, const std::exception_ptr&)> on_unhandled{};
};

namespace detail {
/// What Ios made from now on have for an observer.
inline std::atomic<Observer*> default_observer{nullptr};
}  // namespace detail

class Io : public ListNode<Io> {
 public:
  Io(const Io&) = delete;
  Io& operator=(const Io&) = delete;

  // What tasks ask

  [[nodiscard]] virtual Instant now() noexcept = 0;
  virtual void arm_timer(TimerNode& timer) noexcept = 0;
  virtual void disarm_timer(TimerNode& timer) noexcept = 0;
  /// The outside world.
  [[nodiscard]] virtual Kernel& kernel() noexcept = 0;
  /// See weft::choose.
  [[nodiscard]] virtual std::uint32_t choose(std::uint32_t n) noexcept = 0;
  /// For people: "loop", "inline".
  [[nodiscard]] virtual const char* kind() const noexcept = 0;
  /// What dumps call it.
  [[nodiscard]] virtual std::uint64_t number_of(ObjectId object) const noexcept {
    return static_cast<std::uint64_t>(object);
  }

  // Spawning

  /// A task nobody joins; a failure goes to `on_unhandled`. From any thread.
  template <class F>
  auto spawn(F f, SpawnOptions options = {}) {
    return root_.spawn(std::move(f), options);
  }
  [[nodiscard]] Scope& root() noexcept { return root_; }
  /// Tasks that have been spawned and not yet completed.
  [[nodiscard]] virtual std::size_t live() const noexcept {
    return live_.load(
        std::memory_order_relaxed);  // relaxed: a report; engines decide on their own thread
  }

  // Watching

  /// Set before tasks run; null for none.
  void observe(Observer* observer) noexcept { observer_ = observer; }
  [[nodiscard]] Observer* observer() const noexcept { return observer_; }
  void report_unhandled(const Task& task, const std::exception_ptr& error) noexcept;
  [[nodiscard]] stack::StackPool& stacks() noexcept { return stacks_; }
  [[nodiscard]] bool measures_stacks() const noexcept { return options_.measure_stacks; }

  // The engine's side

  /// How closures and coroutines run here.
  [[nodiscard]] virtual Wait::Flow flow_of_closures() const noexcept = 0;
  [[nodiscard]] virtual Wait::Flow flow_of_coroutines() const noexcept = 0;
  /// A new task. From any thread.
  virtual void launch(Task& task) noexcept { ready(task); }
  /// A task that was woken, or is new: run it when its turn comes. From any thread.
  virtual void ready(Task& task) noexcept = 0;
  /// Marks a thread that is not this Io's in the act of making one of its tasks ready. As soon as
  /// the task is published it may run, end the Io's work and let its owner destroy it, while the
  /// visitor still has to wake the engine: so engines wait for their visitors before they let go.
  class Visit {
   public:
    explicit Visit(Io& io) noexcept : io_(io) { io_.visit_begins(); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    ~Visit() { io_.visit_ends(); }

   private:
    Io& io_;
  };

  /// Makes an idle engine look around; from any thread and from signal handlers.
  virtual void interrupt() noexcept = 0;
  /// Blocks the calling thread until ready(task); for tasks whose flow is a thread.
  virtual void block(Task& task) = 0;

  /// Between these two no other thread runs tasks of this Io, but for those that do not come to an
  /// end: for dumps.
  virtual void hold() noexcept {}
  virtual void let_go() noexcept {}

  [[nodiscard]] virtual std::uint64_t next_tid() noexcept {
    return last_tid_.fetch_add(1, std::memory_order_relaxed) +
           1;  // relaxed: only unique and rising
  }
  /// A task will be launched.
  virtual void admit() noexcept { live_.fetch_add(1, std::memory_order_relaxed); }
  /// A task is complete, and gone if nobody has a handle to it.
  virtual void retire() noexcept = 0;

  /// Tells the Ios of a process apart.
  [[nodiscard]] std::uint16_t number() const noexcept { return number_; }
  /// The last dump request this Io has answered; see dump.hpp.
  std::uint32_t dumps_answered = 0;

 protected:
  explicit Io(IoOptions options);
  virtual ~Io() noexcept = default;

  /// When the derived class is complete, and before it goes: from then to then signals and
  /// debuggers find the Io.
  void enter_registry();
  void leave_registry() noexcept;
  void wait_for_visitors() const noexcept;
  /// Of a shutdown: on stderr.
  void report_leftovers();
  void visit_begins() noexcept {
    visitors_.fetch_add(1, std::memory_order_relaxed);  // relaxed: ordered by the publication
  }
  void visit_ends() noexcept {
    visitors_.fetch_sub(1, std::memory_order_release);  // release: partner is visited()
  }
  [[nodiscard]] bool visited() const noexcept {
    return visitors_.load(std::memory_order_acquire) != 0;  // acquire: partner is visit_ends()
  }
  /// The first of `n` tids that nobody else gets.
  [[nodiscard]] std::uint64_t reserve_tids(std::uint64_t n) noexcept {
    return last_tid_.fetch_add(n, std::memory_order_relaxed) + 1;  // relaxed: see next_tid()
  }

  Atomic<std::size_t> live_{0};

 private:
  const std::uint16_t number_;
  IoOptions options_;
  Observer* observer_ = detail::default_observer.load();
  Atomic<std::uint64_t> last_tid_{0};
  Atomic<std::uint32_t> visitors_{0};
  stack::StackPool stacks_;
  Scope root_;
};

/// The Io of the calling task; throws std::logic_error outside of tasks.
[[nodiscard]] Io& this_io();

/// The time on the calling task's clock.
[[nodiscard]] Instant now();

}  // namespace weft

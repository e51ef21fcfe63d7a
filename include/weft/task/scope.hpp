/// Scope: how long tasks live. A nursery and a node of the cancellation tree in one.
///
///     Buffer shared;                           // declared before: children may borrow it
///     Scope scope;
///     scope.spawn([&] { produce(shared); });
///     scope.spawn(consume(shared));            // a coroutine, the same way
///     scope.join();                            // waits; rethrows the first error
///
/// No child outlives its scope: the destructor waits too (and rethrows, if nothing is being thrown
/// already). The first child that fails cancels its siblings (see OnFailure). Leaving the scope by
/// an exception cancels the children. A scope may have a deadline; the nearest one of all enclosing
/// scopes counts.
///
/// A scope governs its children, not the code that declared it. To include that code, so that a
/// deadline or a failing child also interrupts the body's own waits, use
///
///     Outcome<int> o = within({.deadline = now() + 1s}, [&](Scope& s) { ...; return 42; });
///     Outcome<int> o = timeout(1s, [&] { return fetch(); });
///
/// In coroutines, where destructors cannot suspend: `co_await scope.joined()`, or `co_await
/// within(...)` with a body that is a coroutine. Forgetting it is a checked error. If an exception
/// or a cancellation leaves the scope, its children are cancelled, and the destructor waits for
/// them on the stack it happens to run on.
///
/// Any task or thread may spawn into, cancel or join a scope it can reach.
#pragma once

#include <weft/task/coro.hpp>
#include <weft/wait/timer.hpp>

#include <functional>

namespace weft {

enum class OnFailure : std::uint8_t {
  cancel_siblings,  // the first error stops the others; join rethrows it
  keep_going,       // the others run on; join rethrows the first error
  isolate,  // errors stay with the handles; one without a handle goes to the Io's on_unhandled
};

struct ScopeOptions {
  Instant deadline = Instant::never();
  OnFailure on_failure = OnFailure::cancel_siblings;
  std::string_view name{};  // for dumps; must outlive the scope
};

namespace detail {
class ForkBase;
class Within;
}  // namespace detail

[[nodiscard]] Wait::Flow flow_of_closures(const Io& io) noexcept;
[[nodiscard]] Wait::Flow flow_of_coroutines(const Io& io) noexcept;

class Scope : public CancelNode {
 public:
  /// Under the calling task's innermost scope. On a plain thread, name the Io.
  explicit Scope(ScopeOptions options = {});
  explicit Scope(Io& io, ScopeOptions options = {});
  ~Scope() noexcept(false);

  /// Starts a task: a callable, a callable that returns a Coro (which it then outlives), or a Coro.
  template <class F>
  auto spawn(F f, SpawnOptions options = {});

  void cancel(CancelReason reason = CancelReason::requested) noexcept { cancel_tree(reason); }
  [[nodiscard]] bool cancelled() const noexcept {
    detail::point({.access = Access::read, .what = "cancelled?", .address = this});
    return cancel_reason() != CancelReason::none;
  }

  /// Waits for all children, then rethrows the first error, or `Cancelled` if the caller was
  /// cancelled meanwhile.
  void join();
  /// The same for coroutines: co_await scope.joined().
  class Joined;
  [[nodiscard]] Joined joined() noexcept;

  [[nodiscard]] Io& io() const noexcept { return io_; }
  /// Given to it when somebody first asks: few are ever waited for.
  [[nodiscard]] ObjectId id() noexcept;
  [[nodiscard]] bool has_id() const noexcept;
  [[nodiscard]] Instant deadline() const noexcept { return deadline_; }
  [[nodiscard]] std::string_view name() const noexcept { return name_; }
  [[nodiscard]] std::size_t size() const noexcept;      // children still running
  [[nodiscard]] std::size_t children() const noexcept;  // the same, for the library

  /// Waits until no child is left. An ordinary operation: it can lose a race, and cancelling the
  /// waiter ends it.
  class EmptyOp {
   public:
    using Result = void;
    static constexpr Reason reason{"scope"};
    explicit EmptyOp(Scope& scope) noexcept : scope_(scope) {}
    ObjectId object() const noexcept { return scope_.id(); }
    bool try_now() const noexcept { return scope_.children() == 0; }
    Armed arm(Arm& arm) noexcept;
    void disarm(Arm& arm) noexcept;
    void take() const noexcept {}

   private:
    Scope& scope_;
  };
  [[nodiscard]] EmptyOp empty_op() noexcept { return EmptyOp(*this); }

 private:
  friend class Task;
  friend class Io;
  friend class detail::ForkBase;
  friend class detail::Within;
  struct OfOwner {};
  struct OfIo {};
  struct OfFork {};

  Scope(const Task& task, const ScopeOptions& options);
  Scope(OfOwner, ScopeOptions options);  // includes the calling task
  Scope(OfIo, Io& io);                   // the root
  Scope(OfFork, Io& io, CancelNode& under);

  void add_child(Task& task) noexcept;
  void child_failed(Task& task, const std::exception_ptr& error) noexcept;
  void child_done(Task& task) noexcept;
  void body_failed(const std::exception_ptr& error) noexcept;
  void wait_for_children();
  void wait_in_destructor(bool unwinding);
  void leave() noexcept;  // the timer and the tree; idempotent
  void arm_deadline(Instant own) noexcept;
  [[nodiscard]] std::exception_ptr take_error() noexcept;
  /// No child is left; then it gives the first error, if there was one.
  [[nodiscard]] bool over(std::exception_ptr& error) noexcept;

  struct DeadlineTimer : TimerNode {
    explicit DeadlineTimer(Scope& s) noexcept;
    Scope& scope;
  };

  Io& io_;
  const std::string_view name_;
  const OnFailure on_failure_;
  Task* const owner_;  // whom it includes, or null
  const int exceptions_at_start_;
  Instant deadline_ = Instant::never();
  bool timer_armed_ = false;
  bool in_tree_ = false;  // the owner's copy of linked(), which is under the parent's lock
  DeadlineTimer timer_{*this};

  // Under the node's lock.
  ObjectId id_ = ObjectId::none;
  std::size_t children_ = 0;
  std::exception_ptr first_error_;
  List<Arm> joiners_;
};

/// The innermost one that includes the calling task: that of the within() it is in, or the one it
/// was spawned into.
[[nodiscard]] Scope& enclosing_scope();

/// While it lives, the calling task is deaf to cancellation from outside: for clean-up that must
/// wait.
///
///     catch (const Cancelled&) { Shield shield; connection.send(goodbye); throw; }
class Shield : public CancelNode {
 public:
  Shield();
  ~Shield();

 private:
  Task* const task_;
};

class Scope::Joined {
 public:
  explicit Joined(Scope& scope) noexcept : scope_(scope) {}

  class Awaiter {
   public:
    explicit Awaiter(Scope& scope) noexcept : scope_(scope) {}
    bool await_ready();
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> handle) noexcept {
      return empty_->await_suspend(handle);
    }
    void await_resume();

   private:
    Scope& scope_;
    std::exception_ptr error_;
    // If there are children.
    std::optional<Shield> shield_;
    std::optional<OpAwaiter<EmptyOp>> empty_;
  };
  Awaiter operator co_await() const noexcept { return Awaiter(scope_); }

 private:
  Scope& scope_;
};

inline Scope::Joined Scope::joined() noexcept {
  return Joined(*this);
}

namespace detail {

template <class T, class F>
class ClosureTask final : public TaskOf<T> {
 public:
  ClosureTask(Io& io, F f, const SpawnOptions& options)
      : TaskOf<T>(io, flow_of_closures(io), options), f_(std::move(f)) {}

  void execute() noexcept override {
    if (const auto reason = this->cancelled_before_start(); reason != CancelReason::none) {
      this->outcome_.emplace(Outcome<T>::cancel(reason));
    } else {
      this->outcome_.emplace(Outcome<T>::of(*f_));
    }
    f_.reset();  // what it captured may be gone once the scope is told
  }
  std::coroutine_handle<> root() noexcept override { return {}; }
  void collect() noexcept override {}
  void refuse(std::exception_ptr error) noexcept override {
    this->outcome_.emplace(Outcome<T>::failure(std::move(error)));
    f_.reset();
  }

 private:
  std::optional<F> f_;
};

/// `F` makes the coroutine, or is it already.
template <class T, class F>
class CoroTask final : public TaskOf<T> {
 public:
  CoroTask(Io& io, F f, const SpawnOptions& options)
      : TaskOf<T>(io, flow_of_coroutines(io), options), f_(std::move(f)) {}

  void execute() noexcept override {
    if (const auto reason = this->cancelled_before_start(); reason != CancelReason::none) {
      this->outcome_.emplace(Outcome<T>::cancel(reason));
    } else {
      this->outcome_.emplace(Outcome<T>::of([&]() -> T { return drive(make()); }));
    }
    drop();
  }
  std::coroutine_handle<> root() noexcept override {
    if (const auto reason = this->cancelled_before_start(); reason != CancelReason::none) {
      this->outcome_.emplace(Outcome<T>::cancel(reason));
      return {};
    }
    try {
      make().handle().promise().set_task_root();
      return coro_.handle();
    } catch (const Cancelled& c) {  // the callable threw before there was a coroutine
      this->outcome_.emplace(Outcome<T>::cancel(c.reason()));
      return {};
    } catch (...) {
      this->outcome_.emplace(Outcome<T>::failure(std::current_exception()));
      return {};
    }
  }
  void collect() noexcept override {
    if (!this->outcome_) {
      this->outcome_.emplace(
          Outcome<T>::of([&]() -> T { return coro_.handle().promise().take(); }));
    }
    drop();
  }
  void refuse(std::exception_ptr error) noexcept override {
    this->outcome_.emplace(Outcome<T>::failure(std::move(error)));
    drop();
  }

 private:
  Coro<T>& make() {
    if constexpr (is_coro<F>) {
      coro_ = std::move(*f_);
    } else {
      coro_ = (*f_)();
    }
    return coro_;
  }
  void drop() noexcept {
    coro_ = Coro<T>();
    f_.reset();
  }
  std::optional<F> f_;  // a lambda coroutine's captures live here, longer than the coroutine
  Coro<T> coro_;
};

template <class T>
JoinHandle<T> first_handle(TaskOf<T>& task) noexcept {
  task.share_before_start();
  return JoinHandle<T>(task, Adopt{});
}

template <class F>
auto make_task(Io& io, F f, const SpawnOptions& options) {
  static_assert(is_coro<F> || std::invocable<F&>,
                "spawn(f): f must be callable without arguments, or a Coro");
  if constexpr (is_coro<F>) {
    return new CoroTask<typename F::Value, F>(io, std::move(f), options);
  } else {
    using R = std::invoke_result_t<F&>;
    if constexpr (is_coro<R>) {
      return new CoroTask<typename R::Value, F>(io, std::move(f), options);
    } else {
      return new ClosureTask<R, F>(io, std::move(f), options);
    }
  }
}

}  // namespace detail

template <class F>
auto Scope::spawn(F f, SpawnOptions options) {
  auto* task = detail::make_task(io_, std::move(f), options);
  auto handle = detail::first_handle(*task);
  task->start(*this);
  return handle;
}

}  // namespace weft

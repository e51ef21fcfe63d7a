/// Fork: work that somebody else may do meanwhile, and that costs next to nothing if nobody does.
///
///     long sum(std::span<const int> v) {
///       if (v.size() < 1000) return std::reduce(v.begin(), v.end(), 0L);
///       Fork back([&] { return sum(v.subspan(v.size() / 2)); });
///       const long front = sum(v.first(v.size() / 2));
///       return front + back.get();
///     }
///     auto [a, b] = both([&] { return left(); }, [&] { return right(); });
///
///     Fork right(fib(n - 2));                  // in a coroutine
///     const int left = co_await fib(n - 1);
///     co_return left + co_await right;
///
/// A fork is a note on its task's own list. get() strikes it out and makes the call on the spot,
/// unless it has become a task by then. That happens in two cases:
///
///   - the worker has nothing that others could take: then the oldest fork, which is likely to be
///     the largest, is put up for them. Whoever takes it makes room for the next one, and forks
///     himself; so a computation spreads to all workers, and elsewhere consists of plain calls;
///   - the task is about to wait: then all its forks become tasks. So a fork is concurrent to
///     everything its task waits for, and the two may well wait for each other. (Not on an inline
///     Io, and not on a plain thread, where it is always a call.)
///
///                 get(): called here
///     [noted] ─────────────────────────▶ [taken]         dropped when noted: it does not run
///        └─────▶ [a child task] ───────────┘             dropped when a task: cancelled, awaited
///      published         get(): joined
///
/// A fork sees the scopes, the deadline and the task-locals of where it was made. (If get() is
/// called where these are others, it becomes a task.) get() throws what the call threw. A fork
/// nobody asks for is not wanted: when an exception leaves the block, say, there is nothing to do,
/// or a child to be stopped. Only the task that made a fork may use it, and not after the block
/// (the scope, shield or binding) in which it was made.
///
/// Rejected: a spawn() that is cheap enough for this. A task has an identity, handles, and a place
/// in the tree and in dumps; that is what it costs. A deque that thieves take forks from, as Cilk
/// has: it takes a fence at every get(), and a second protocol beside the one for tasks. Here all
/// that is shared between threads is a task.
#pragma once

#include <weft/base/list.hpp>
#include <weft/task/scope.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace weft {

namespace detail {

/// What does not depend on the kind of work.
class ForkBase : public ListNode<ForkBase> {
 public:
  static void publish_all(Task& task) noexcept;

 protected:
  ForkBase() = default;
  ~ForkBase() = default;

  /// From now on it can be published.
  void offer() noexcept;
  /// True: it is ours to call. False: it has become a task.
  [[nodiscard, gnu::always_inline]] bool take_back() noexcept {
    check_owner();
    if (task_ == nullptr) return true;
    WEFT_CHECK(active_ != nullptr, "the result of a Fork was already taken");
    if (!scope_) {
      unlink();
      // It is to see what was there when it was made.
      if (&task_->active() != active_ || task_->locals() != locals_) static_cast<void>(publish());
    }
    active_ = nullptr;
    return !scope_;
  }
  /// Nobody will ask for it, or somebody has.
  [[gnu::always_inline]] void withdraw() noexcept {
    if (!linked() && !scope_) return;
    check_owner();
    unlink();
    scope_.reset();
  }
  void check_may_block() const noexcept {
    WEFT_CHECK(task_ == nullptr || task_->flow() != Wait::Flow::coroutine,
               "Fork::get() in a coroutine would stop its worker; co_await the fork instead");
  }
  /// Makes a task of it.
  virtual void spawn_in(Scope& scope, const SpawnOptions& options) = 0;

 private:
  void check_owner() const noexcept {
    WEFT_CHECK(task_ == nullptr || this_task() == task_,
               "a Fork belongs to the task that made it; to hand work to others, spawn it");
  }
  [[nodiscard]] bool publish() noexcept;
  struct Delete {
    void operator()(Scope* scope) const noexcept;
  };

  Task* task_ = nullptr;          // whose it is; null: a plain thread's
  CancelNode* active_ = nullptr;  // null: taken
  LocalBinding* locals_ = nullptr;
  std::unique_ptr<Scope, Delete> scope_;  // of the published one alone
};

/// What a fork of F gives.
template <class F>
struct Forked {
  using Made = std::invoke_result_t<F&>;
};
template <class T>
struct Forked<Coro<T>> {
  using Made = Coro<T>;
};
template <class T>
struct ValueOf {
  using Type = T;
};
template <class T>
struct ValueOf<Coro<T>> {
  using Type = T;
};

}  // namespace detail

/// Of a callable, of a callable that returns a Coro (which it then outlives), or of a Coro.
template <class F>
class [[nodiscard]] Fork final : detail::ForkBase {
  using Made = typename detail::Forked<F>::Made;

 public:
  using Value = typename detail::ValueOf<Made>::Type;

  explicit Fork(F f) : f_(std::move(f)) { offer(); }
  Fork(const Fork&) = delete;
  Fork& operator=(const Fork&) = delete;
  ~Fork() { withdraw(); }

  /// The result, once. From a fiber or a plain thread.
  Value get() {
    check_may_block();
    if (!take_back()) return value_of(handle_.join());
    if constexpr (is_coro<Made>) {
      return await(make());
    } else {
      return f_();
    }
  }

  /// The same in a coroutine: co_await fork.
  auto operator co_await() & {
    if constexpr (is_coro<Made>) {
      running_ = take_back() ? make() : join_child();
    } else {
      running_ = call_or_join();
    }
    return typename Coro<Value>::Awaiter(running_.checked());
  }

 private:
  Made make() {
    if constexpr (is_coro<F>) {
      return std::move(f_);
    } else {
      return f_();
    }
  }
  Coro<Value> join_child() { co_return value_of(co_await handle_.join_op()); }
  Coro<Value> call_or_join() {
    if (take_back()) co_return f_();
    co_return value_of(co_await handle_.join_op());
  }
  /// As if the call had been made here.
  static Value value_of(Outcome<Value> outcome) {
    if (outcome.cancelled()) throw Cancelled(outcome.reason());
    return std::move(outcome).value();
  }
  void spawn_in(Scope& scope, const SpawnOptions& options) override {
    handle_ = scope.spawn([this]() -> Made { return make(); }, options);
  }

  F f_;  // until the call is made, here or by the child
  JoinHandle<Value> handle_;
  Coro<Value> running_;
};

/// Calls both, the second one maybe elsewhere meanwhile. Gives a pair of their results; what is
/// void is left out. If the first throws, the second is stopped.
template <class F, class G>
decltype(auto) both(F&& f, G&& g) {
  Fork second([&g]() -> decltype(auto) { return g(); });
  using A = std::invoke_result_t<F&>;
  using B = std::invoke_result_t<G&>;
  if constexpr (std::is_void_v<A>) {
    f();
    return second.get();
  } else if constexpr (std::is_void_v<B>) {
    A a = f();
    second.get();
    return static_cast<A>(std::forward<A>(a));
  } else {
    A a = f();
    return std::pair<A, B>(std::forward<A>(a), second.get());
  }
}

}  // namespace weft

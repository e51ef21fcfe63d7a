/// Coro<T>: a lazy coroutine, the stackless kind of task.
///
///     Coro<int> add(Channel<int>& a, Channel<int>& b) {
///       co_return *co_await a.recv_op() + *co_await b.recv_op();
///     }
///     scope.spawn(add(a, b));          // as a task of its own, joined like any other
///     int v = co_await add(a, b);      // from a coroutine: a call
///     int v = weft::await(add(a, b));  // from a fiber or a plain thread: a call
///
/// Nothing runs until it is awaited or spawned. A call from any depth may wait for any Op; the
/// engine sees one task. Awaiting costs no native stack, at any depth: control is handed over by
/// symmetric transfer (see transfer_to()). Frames come from the worker's recycled blocks.
///
/// Cancellation arrives as `Cancelled` from the current or next co_await.
#pragma once

#include <weft/task/blocks.hpp>
#include <weft/task/join.hpp>
#include <weft/wait/await.hpp>

namespace weft {

template <class T>
class Coro;

namespace detail {

// The coroutine to continue with, for await_suspend() to return: the compiler makes a jump of it.
// clang always does, GCC from -O2 on; otherwise it is a call, and a long chain of coroutines would
// fill the stack. So it goes this way only near the frame of run_coroutine(), and from further down
// by returning there, through however many calls that is: it goes on with `hop`.
[[gnu::always_inline]] inline std::coroutine_handle<> transfer_to(
    std::coroutine_handle<> next) noexcept {
  constexpr std::uintptr_t near = 8192;
  Current& here = *current();
  // What is there may be another's, if others have run on this thread since; then it is far away.
  if (here.coroutines_from - reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) < near) {
    return next;
  }
  here.hop = next.address();
  return std::noop_coroutine();
}

/// Runs `handle` and whatever it transfers to, until something suspends. May nest: a coroutine that
/// is driven by a flow with a stack drives others.
inline void run_coroutine(std::coroutine_handle<> handle) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const std::uintptr_t outer = current()->coroutines_from;
  while (handle) {
    current()->coroutines_from = here;
    handle.resume();
    Current& now = *current();
    void* const next = now.hop;
    now.hop = nullptr;
    handle = next == nullptr ? nullptr : std::coroutine_handle<>::from_address(next);
  }
  current()->coroutines_from = outer;
}

/// The coroutine task that runs on this thread has come to its end. Out of line: it belongs to the
/// worker.
void root_coroutine_done() noexcept;

class PromiseBase {
 public:
  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> self) const noexcept {
      PromiseBase& promise = self.promise();
      if (promise.continuation_) return transfer_to(promise.continuation_);
      if (promise.is_task_root_) root_coroutine_done();
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { error_ = std::current_exception(); }

  template <class Awaitable>
  decltype(auto) await_transform(Awaitable&& awaitable) {
    using A = std::remove_cvref_t<Awaitable>;
    if constexpr (Op<A>) {
      if constexpr (std::is_lvalue_reference_v<Awaitable> || std::is_const_v<Awaitable>) {
        return OpAwaiter<A>(awaitable);
      } else {
        return OpAwaiter<A&>(awaitable);
      }
    } else {
      return std::forward<Awaitable>(awaitable);
    }
  }

  static void* operator new(std::size_t size) { return allocate_block(size); }
  static void operator delete(void* frame, std::size_t size) noexcept {
    release_block(frame, size);
  }

  void set_continuation(std::coroutine_handle<> handle) noexcept { continuation_ = handle; }
  void set_task_root() noexcept { is_task_root_ = true; }
  [[nodiscard]] std::coroutine_handle<> continuation() const noexcept { return continuation_; }

 protected:
  [[gnu::always_inline]] void rethrow_if_failed() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::coroutine_handle<> continuation_{};
  std::exception_ptr error_{};
  bool is_task_root_ = false;
};

template <class T>
class Promise : public PromiseBase {
  // Frames are allocated without regard to alignment, and dumps look for the promise at its usual
  // place.
  static_assert(alignof(Stored<T>) <= alignof(std::max_align_t),
                "Coro<T>: over-aligned results are not supported; return a pointer to one");

 public:
  Coro<T> get_return_object() noexcept;

  template <class U = T>
  void return_value(U&& value) {
    if constexpr (std::is_reference_v<T>) {
      value_.emplace(std::addressof(value));
    } else {
      value_.emplace(std::forward<U>(value));
    }
  }
  T take() {
    rethrow_if_failed();
    if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(**value_);
    } else {
      return std::move(*value_);
    }
  }

 private:
  std::optional<Stored<T>> value_;
};

template <>
class Promise<void> : public PromiseBase {
 public:
  Coro<void> get_return_object() noexcept;
  void return_void() const noexcept {}
  void take() const { rethrow_if_failed(); }
};

}  // namespace detail

template <class T = void>
class [[nodiscard]] Coro {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;
  using Value = T;

  Coro() = default;  // empty, like one moved from
  explicit Coro(Handle handle) noexcept : handle_(handle) {}
  Coro(Coro&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Coro& operator=(Coro other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Coro() {
    if (handle_) handle_.destroy();
  }

  class Awaiter {
   public:
    explicit Awaiter(Handle handle) noexcept : handle_(handle) {}
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) const noexcept {
      handle_.promise().set_continuation(caller);
      return detail::transfer_to(handle_);
    }
    T await_resume() const { return handle_.promise().take(); }

   private:
    Handle handle_;
  };
  Awaiter operator co_await() && noexcept { return Awaiter(checked()); }

  [[nodiscard]] Handle checked() const noexcept {
    WEFT_CHECK(handle_ && !handle_.done(), "this Coro was moved from or has already run");
    return handle_;
  }
  [[nodiscard]] Handle handle() const noexcept { return handle_; }

 private:
  Handle handle_{};
};

template <class T>
Coro<T> detail::Promise<T>::get_return_object() noexcept {
  return Coro<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Coro<void> detail::Promise<void>::get_return_object() noexcept {
  return Coro<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

template <class T>
inline constexpr bool is_coro = false;
template <class T>
inline constexpr bool is_coro<Coro<T>> = true;

namespace detail {

/// Runs a coroutine to its end on the calling flow, which has a stack.
template <class T>
T drive(const Coro<T>& coro) {
  run_coroutine(coro.checked());
  WEFT_CHECK(coro.handle().done(), "a coroutine awaited something that is not a weft operation");
  return coro.handle().promise().take();
}

}  // namespace detail

/// Calls a coroutine from a fiber or a plain thread and waits for its result.
template <class T>
T await(Coro<T> coro) {
  Current* here = current();
  if (here != nullptr && here->wait != nullptr) {
    WEFT_CHECK(here->wait->flow() != Wait::Flow::coroutine,
               "weft::await() inside a coroutine would block its worker; use co_await");
    return detail::drive(coro);
  }
  std::optional<Outcome<T>> outcome;
  auto body = [&] { outcome.emplace(Outcome<T>::of([&]() -> T { return detail::drive(coro); })); };
  detail::on_plain_thread([](void* f) { (*static_cast<decltype(body)*>(f))(); }, &body);
  return std::move(*outcome).value();
}

namespace detail {
/// Of a coroutine that is driven by a fiber, or by a thread that has nobody to yield to.
void yield_of_driver();
/// Puts the running coroutine task last in turn. Gives what to go on with.
[[nodiscard]] std::coroutine_handle<> yield_coroutine(std::coroutine_handle<> handle) noexcept;
}  // namespace detail

/// co_await next_turn(): lets everybody else who is ready run first. The coroutine's yield().
struct next_turn {
  bool await_ready() const {
    const Task& task = *this_task();
    task.throw_if_cancelled();
    if (task.flow() == Wait::Flow::coroutine) return false;
    detail::yield_of_driver();
    return true;
  }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> handle) const noexcept {
    return detail::yield_coroutine(handle);
  }
  void await_resume() const { this_task()->throw_if_cancelled(); }
};

}  // namespace weft

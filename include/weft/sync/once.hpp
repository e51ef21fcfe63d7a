/// Once and Lazy: what is to be done by the first who needs it.
///
///     weft::Once once;
///     once.run([] { open_everything(); });              // the others wait until it has
///     co_await once.co_run([]() -> Coro<> { ... });
///
///     weft::Lazy<Config> config([] { return load(); });
///     const Config& c = config.get();                   // co_await config.co_get()
///
/// If it throws, or is cancelled, the error goes to whoever ran it, and the next in line tries.
#pragma once

#include <weft/sync/mutex.hpp>

#include <atomic>
#include <functional>
#include <optional>

namespace weft {

class Once {
 public:
  template <class F>
  void run(F f) {
    if (done()) return;
    const Mutex::Guard guard = mutex_.lock();
    if (done()) return;
    f();
    finish();
  }
  /// `f` returns a Coro.
  template <class F>
  Coro<void> co_run(F f) {
    if (done()) co_return;
    const Mutex::Guard guard = co_await mutex_.lock_op();
    if (done()) co_return;
    co_await f();
    finish();
  }
  [[nodiscard]] bool done() const noexcept {
    return done_.load(std::memory_order_acquire);  // acquire: partner is finish()
  }

 private:
  void finish() noexcept { done_.store(true, std::memory_order_release); }  // release: see done()

  Atomic<bool> done_{false};
  Mutex mutex_;
};

template <class T>
class Lazy {
 public:
  /// `make` gives a T, in the task that first asks.
  explicit Lazy(std::function<T()> make) : make_(std::move(make)) {}

  const T& get() {
    once_.run([&] { value_.emplace(make_()); });
    return *value_;
  }
  /// In a coroutine; `make` must not wait then.
  Coro<const T&> co_get() {
    co_await once_.co_run([this]() -> Coro<void> {
      value_.emplace(make_());
      co_return;
    });
    co_return *value_;
  }
  [[nodiscard]] bool ready() const noexcept { return once_.done(); }

 private:
  Once once_;
  std::function<T()> make_;
  std::optional<T> value_;
};

}  // namespace weft

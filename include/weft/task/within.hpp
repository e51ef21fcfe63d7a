/// within(options, body): runs a body inside a scope of its own, and says how it ended.
///
///     Outcome<Page> page = within({.deadline = now() + 1s}, [&](Scope& s) {
///       auto a = s.spawn(fetch_left);
///       auto b = s.spawn(fetch_right);
///       return merge(a.get(), b.get());
///     });
///
/// The body is part of the scope: a deadline, a cancel() or a failing child interrupts its own
/// waits too. Returns when the body and all children have ended. Cancellation of this scope ends
/// here, as the outcome; cancellation from outside passes through as `Cancelled`. Under
/// OnFailure::isolate children's errors stay with their handles.
///
/// With a body that is a coroutine, the result is a Coro: `co_await within({}, [&](Scope& s) ->
/// Coro<int> {...})`.
#pragma once

#include <weft/task/io.hpp>

namespace weft {

namespace detail {

/// The steps shared by both kinds of body.
class Within {
 public:
  explicit Within(const ScopeOptions& options) : scope_(Scope::OfOwner{}, options) {}

  [[nodiscard]] Scope& scope() noexcept { return scope_; }

  /// The body is done; children that cannot matter any more are told to stop.
  template <class T>
  void body_ended(const Outcome<T>& outcome) noexcept {
    if (outcome.failed()) scope_.body_failed(outcome.error());
    if (outcome.cancelled()) scope_.cancel(outcome.reason());
  }
  void wait_for_children() { scope_.wait_for_children(); }

  /// After the children: what the whole thing gave.
  template <class T>
  Outcome<T> result(Outcome<T> body) {
    scope_.leave();
    if (body.cancelled()) current()->wait->throw_if_cancelled();
    if (std::exception_ptr error = scope_.take_error()) return Outcome<T>::failure(error);
    return body;
  }

 private:
  Scope scope_;
};

template <class T, class F>
Coro<Outcome<T>> within_coro(ScopeOptions options, F body) {
  Within within(options);
  std::optional<Outcome<T>> outcome;
  try {
    if constexpr (std::is_void_v<T>) {
      co_await body(within.scope());
      outcome.emplace(Outcome<T>::success());
    } else {
      outcome.emplace(Outcome<T>::success(co_await body(within.scope())));
    }
  } catch (...) {
    outcome.emplace(Outcome<T>::caught());
  }
  within.body_ended(*outcome);
  if (within.scope().children() > 0) {
    Shield shield;
    co_await within.scope().empty_op();
  }
  co_return within.result(std::move(*outcome));
}

}  // namespace detail

template <class F>
auto within(ScopeOptions options, F body) {
  using R = std::invoke_result_t<F&, Scope&>;
  if constexpr (is_coro<R>) {
    return detail::within_coro<typename R::Value>(options, std::move(body));
  } else {
    detail::Within within(options);
    auto outcome = Outcome<R>::of([&]() -> R { return body(within.scope()); });
    within.body_ended(outcome);
    within.wait_for_children();
    return within.result(std::move(outcome));
  }
}

/// within() without children: `body()` under a deadline `limit` from now.
template <class F>
  requires std::invocable<F&>
auto timeout(Duration limit, F body) {
  using R = std::invoke_result_t<F&>;
  const ScopeOptions options{.deadline = now() + limit, .name = "timeout"};
  if constexpr (is_coro<R>) {
    return within(options, [f = std::move(body)](Scope&) mutable { return f(); });
  } else {
    return within(options, [&](Scope&) -> R { return body(); });
  }
}

}  // namespace weft

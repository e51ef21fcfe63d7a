/// Futures: what is computed from now on, and asked for later.
///
///     Future<Page> page = async([&] { return fetch(url); });
///     const Page& p = page.get();                          // in a coroutine: co_await page
///
///     auto [a, b] = all(async(left), async(right)).get();
///     auto r = race(named<"near">(async(near)), named<"far">(async(far))).get();
///     if (r.is<"near">()) use(r.get<"near">());
///
/// async() spawns into the innermost scope that includes the caller (enclosing_scope()), or into
/// one that is named: under a Shield, say, which does not reach what is spawned outside of it. That
/// scope joins it: no future needs to be waited for, and none outlives what it works on, if that
/// outlives the scope. An error stays with the future: it does not cancel the siblings, and if
/// nobody holds the future any more it goes to the Io's on_unhandled.
///
/// Futures are copied freely: all copies see the same result. A value is moved out of one that is
/// itself moved (`std::move(f).get()`, `co_await async(f)`, or given to a combination as an
/// rvalue), and then nobody else may ask; else it is copied, or looked at.
///
/// Combinations give futures, so they can be combined, waited for by many, and cancelled, which
/// cancels what they are made of:
///
///     all(a, b, ...)          the values of all. The first one that does not succeed stops the
///                             others, and its error is the result.
///     all_settled(a, b, ...)  the outcomes of all, whatever they are.
///     any(a, b, ...)          the first value; the others are stopped. NoneSucceeded if there is
///                             none.
///     race(a, b, ...)         the first one to end, in whatever way; the others are stopped. If
///                             several have ended already, the first of them.
///
/// They also take a std::vector of futures. They do not wait for those they stop: the scope does.
/// In a tuple or variant, void is std::monostate and T& is std::reference_wrapper<T>.
///
/// A combination is a task with a child for each part that is still running. Rejected: one wait
/// for any number of tasks. It would need arms that live on the heap, and save a few hundred
/// nanoseconds where something else takes microseconds.
#pragma once

#include <weft/task/io.hpp>
#include <weft/wait/named.hpp>

#include <span>
#include <vector>

namespace weft {

template <class F>
[[nodiscard]] auto async(Scope& scope, F f, SpawnOptions options = {}) {
  options.isolated = true;
  return scope.spawn(std::move(f), options).share();
}
template <class F>
[[nodiscard]] auto async(F f, SpawnOptions options = {}) {
  return async(enclosing_scope(), std::move(f), options);
}

/// What any() throws. errors(): in the order of the futures; null for those that were cancelled.
class NoneSucceeded : public std::runtime_error {
 public:
  explicit NoneSucceeded(std::vector<std::exception_ptr> errors);
  [[nodiscard]] std::span<const std::exception_ptr> errors() const noexcept { return errors_; }

 private:
  std::vector<std::exception_ptr> errors_;
};

namespace detail {
/// How a value is kept in a tuple, vector or variant.
template <class T>
using Kept = std::conditional_t<std::is_reference_v<T>,
                                std::reference_wrapper<std::remove_reference_t<T>>, CaseValue<T>>;
}  // namespace detail

/// The first of a list.
template <class T>
struct Winner {
  std::size_t index;
  detail::Kept<T> value;
};

namespace detail {

template <class F>
inline constexpr bool is_future = false;
template <class T>
inline constexpr bool is_future<Future<T>> = true;
template <class F>
concept AnyFuture = is_future<std::remove_cvref_t<F>>;

/// The tasks behind a combination's futures, which it holds itself.
class Parts {
 public:
  explicit Parts(std::vector<Task*> tasks) noexcept : tasks_(std::move(tasks)) {}
  Parts(Parts&&) noexcept = default;
  Parts& operator=(Parts&&) = delete;
  /// Whatever still runs is stopped.
  ~Parts();

  static constexpr std::size_t none = ~std::size_t{0};
  enum class Counts : std::uint8_t { any, success, failure, nothing };
  /// The first to end in a way that counts; none if all have ended in other ways.
  [[nodiscard]] Coro<std::size_t> first(Counts counts);
  [[nodiscard]] std::vector<std::exception_ptr> errors() const;

 private:
  std::vector<Task*> tasks_;
};

/// Of a future that has succeeded; else throws. `F` says whether it may be moved out.
template <class F>
auto kept_value(std::remove_reference_t<F>& future) {
  using T = typename std::remove_cvref_t<F>::Value;
  if constexpr (std::is_void_v<T>) {
    future.outcome().value();
    return std::monostate{};
  } else if constexpr (std::is_lvalue_reference_v<F> && std::is_reference_v<T>) {
    return Kept<T>(future.outcome().value());
  } else if constexpr (std::is_lvalue_reference_v<F>) {
    static_assert(std::is_copy_constructible_v<T>,
                  "the value of this future cannot be copied: std::move() the future");
    return T(future.outcome().value());
  } else {
    return Kept<T>(future.take_outcome().value());
  }
}
template <class F>
auto kept_outcome(std::remove_reference_t<F>& future) {
  if constexpr (std::is_lvalue_reference_v<F>) {
    return future.outcome();
  } else {
    return future.take_outcome();
  }
}

/// The futures of a combination; Fs are references for those that must stay as they are.
template <class... Fs>
struct Pack {
  std::tuple<std::remove_cvref_t<Fs>...> futures;

  template <class T>
  using ValueOfFuture = Kept<typename std::remove_cvref_t<T>::Value>;
  using Values = std::tuple<ValueOfFuture<Fs>...>;
  using Outcomes = std::tuple<Outcome<typename std::remove_cvref_t<Fs>::Value>...>;
  using OneOf = std::variant<ValueOfFuture<Fs>...>;

  [[nodiscard]] std::vector<Task*> tasks() const {
    return std::apply([](auto&... f) { return std::vector<Task*>{f.task()...}; }, futures);
  }
  Values values() {
    return with_each([]<class F>(auto& f) { return kept_value<F>(f); },
                     [](auto&&... v) { return Values(std::move(v)...); });
  }
  Outcomes outcomes() {
    return with_each([]<class F>(auto& f) { return kept_outcome<F>(f); },
                     [](auto&&... v) { return Outcomes(std::move(v)...); });
  }
  OneOf one(std::size_t wanted) { return one_from<0>(wanted); }

 private:
  template <class Each, class Join>
  auto with_each(Each each, Join join) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return join(each.template operator()<Fs>(std::get<I>(futures))...);
    }(std::index_sequence_for<Fs...>{});
  }
  template <std::size_t I>
  OneOf one_from(std::size_t wanted) {
    if constexpr (I + 1 < sizeof...(Fs)) {
      if (wanted != I) return one_from<I + 1>(wanted);
    }
    using F = std::tuple_element_t<I, std::tuple<Fs...>>;
    return OneOf(std::in_place_index<I>, kept_value<F>(std::get<I>(futures)));
  }
};

/// F: Future<T>, or Future<T>& if it must stay as it is.
template <class F>
struct FutureList {
  using T = typename std::remove_cvref_t<F>::Value;
  std::vector<std::remove_cvref_t<F>> futures;

  using Values = std::conditional_t<std::is_void_v<T>, void, std::vector<Kept<T>>>;
  using Outcomes = std::vector<Outcome<T>>;
  using OneOf = Winner<T>;

  [[nodiscard]] std::vector<Task*> tasks() const {
    std::vector<Task*> tasks;
    tasks.reserve(futures.size());
    for (auto& f : futures) tasks.push_back(f.task());
    return tasks;
  }
  Values values() {
    if constexpr (std::is_void_v<T>) {
      for (auto& f : futures) f.outcome().value();
    } else {
      Values values;
      values.reserve(futures.size());
      for (auto& f : futures) values.push_back(kept_value<F>(f));
      return values;
    }
  }
  Outcomes outcomes() {
    Outcomes outcomes;
    outcomes.reserve(futures.size());
    for (auto& f : futures) outcomes.push_back(kept_outcome<F>(f));
    return outcomes;
  }
  OneOf one(std::size_t wanted) { return {wanted, kept_value<F>(futures.at(wanted))}; }
};

// The parts are known from the start, so that a combination that is cancelled before it began stops
// them too.
template <class Futures>
auto all_of(Futures futures) {
  using R = typename Futures::Values;
  Parts tasks(futures.tasks());
  return async([futures = std::move(futures), parts = std::move(tasks)]() mutable -> Coro<R> {
    const std::size_t bad = co_await parts.first(Parts::Counts::failure);
    if (bad != Parts::none) static_cast<void>(futures.one(bad));  // throws
    co_return futures.values();
  });
}
template <class Futures>
auto all_settled_of(Futures futures) {
  using R = typename Futures::Outcomes;
  Parts tasks(futures.tasks());
  return async([futures = std::move(futures), parts = std::move(tasks)]() mutable -> Coro<R> {
    co_await parts.first(Parts::Counts::nothing);
    co_return futures.outcomes();
  });
}
template <class Futures>
auto any_of(Futures futures) {
  using R = typename Futures::OneOf;
  Parts tasks(futures.tasks());
  return async([futures = std::move(futures), parts = std::move(tasks)]() mutable -> Coro<R> {
    const std::size_t good = co_await parts.first(Parts::Counts::success);
    if (good == Parts::none) throw NoneSucceeded(parts.errors());
    co_return futures.one(good);
  });
}
template <class R, class Futures>
auto race_of(Futures futures) {
  Parts tasks(futures.tasks());
  return async([futures = std::move(futures), parts = std::move(tasks)]() mutable -> Coro<R> {
    const std::size_t first = co_await parts.first(Parts::Counts::any);
    if (first == Parts::none) throw std::invalid_argument("race() of no futures has no winner");
    co_return R(futures.one(first));
  });
}

}  // namespace detail

template <detail::AnyFuture... Fs>
[[nodiscard]] auto all(Fs&&... futures) {
  return detail::all_of(detail::Pack<Fs...>{{std::forward<Fs>(futures)...}});
}
template <detail::AnyFuture... Fs>
[[nodiscard]] auto all_settled(Fs&&... futures) {
  return detail::all_settled_of(detail::Pack<Fs...>{{std::forward<Fs>(futures)...}});
}
template <detail::AnyFuture... Fs>
  requires(sizeof...(Fs) > 0)
[[nodiscard]] auto any(Fs&&... futures) {
  return detail::any_of(detail::Pack<Fs...>{{std::forward<Fs>(futures)...}});
}
template <detail::AnyFuture... Fs>
  requires(sizeof...(Fs) > 0)
[[nodiscard]] auto race(Fs&&... futures) {
  using Pack = detail::Pack<Fs...>;
  return detail::race_of<typename Pack::OneOf>(Pack{{std::forward<Fs>(futures)...}});
}
/// Named futures are moved from; to keep one, name a copy of it.
template <Name... names, class... Ts>
  requires(sizeof...(Ts) > 0)
[[nodiscard]] auto race(Named<names, Future<Ts>>... futures) {
  using Pack = detail::Pack<Future<Ts>...>;
  using R = Raced<typename Pack::OneOf, names...>;
  return detail::race_of<R>(Pack{{std::move(futures.value)...}});
}

template <class T>
[[nodiscard]] auto all(std::vector<Future<T>>&& futures) {
  return detail::all_of(detail::FutureList<Future<T>>{std::move(futures)});
}
template <class T>
[[nodiscard]] auto all(const std::vector<Future<T>>& futures) {
  return detail::all_of(detail::FutureList<Future<T>&>{futures});
}
template <class T>
[[nodiscard]] auto all_settled(std::vector<Future<T>>&& futures) {
  return detail::all_settled_of(detail::FutureList<Future<T>>{std::move(futures)});
}
template <class T>
[[nodiscard]] auto all_settled(const std::vector<Future<T>>& futures) {
  return detail::all_settled_of(detail::FutureList<Future<T>&>{futures});
}
/// Of none: NoneSucceeded.
template <class T>
[[nodiscard]] auto any(std::vector<Future<T>>&& futures) {
  return detail::any_of(detail::FutureList<Future<T>>{std::move(futures)});
}
template <class T>
[[nodiscard]] auto any(const std::vector<Future<T>>& futures) {
  return detail::any_of(detail::FutureList<Future<T>&>{futures});
}
/// Of none: std::invalid_argument.
template <class T>
[[nodiscard]] auto race(std::vector<Future<T>>&& futures) {
  return detail::race_of<Winner<T>>(detail::FutureList<Future<T>>{std::move(futures)});
}
template <class T>
[[nodiscard]] auto race(const std::vector<Future<T>>& futures) {
  return detail::race_of<Winner<T>>(detail::FutureList<Future<T>&>{futures});
}

}  // namespace weft

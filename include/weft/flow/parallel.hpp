/// Several flows at a time: parallel, race. See flow.hpp.
///
/// Each runs as a child task in a scope of this step. The first that ends in an error, or
/// cancelled, stops the others, and so does the winner of a race; the step ends when all have
/// ended. Those around it are not touched.
#pragma once

#include <weft/flow/flow.hpp>
#include <weft/sync/future.hpp>

namespace weft {

namespace flow_detail {

/// The children of one step.
class Together {
 public:
  explicit Together(std::string_view name) : scope_({.name = name}) {}

  [[nodiscard]] Scope& scope() noexcept { return scope_; }
  /// A child's flow was cancelled by itself: then all are.
  void cancelled(CancelReason reason) noexcept {
    auto none = CancelReason::none;
    reason_.compare_exchange_strong(none, reason);
    scope_.cancel(reason);
  }
  /// True for the first: the others are stopped.
  [[nodiscard]] bool wins() noexcept {
    if (won_.exchange(true)) return false;
    scope_.cancel();
    return true;
  }
  /// The task of one may be killed, too.
  template <class T>
  Coro<Outcome<T>> part(Coro<Outcome<T>> running) {
    try {
      co_return co_await std::move(running);
    } catch (const Cancelled& c) {
      cancelled(c.reason());
      throw;
    }
  }
  /// What a part should have left behind; if it is not there it never began.
  template <class V>
  static V&& present(std::optional<V>& result) {
    if (!result) throw Cancelled(CancelReason::killed);
    return std::move(*result);
  }
  [[nodiscard]] bool won() const noexcept { return won_.load(); }
  /// Waits for all. Throws the first error, and Cancelled if a child's flow was.
  [[nodiscard]] Coro<void> end();

 private:
  Atomic<CancelReason> reason_{CancelReason::none};
  Atomic<bool> won_{false};
  Scope scope_;
};

/// Runs one, and keeps its value.
template <class T>
Coro<void> run_into(Flow<T> flow, Together& together, std::optional<detail::Kept<T>>& result) {
  Outcome<T> outcome = co_await together.part(flow.outcome());
  if (outcome.cancelled()) {
    together.cancelled(outcome.reason());
  } else if constexpr (std::is_void_v<T>) {
    outcome.value();
    result.emplace();
  } else {
    result.emplace(std::move(outcome).value());
  }
}

template <class T>
using ValuesOf = std::conditional_t<std::is_void_v<T>, void, std::vector<detail::Kept<T>>>;

template <class T>
Coro<void> run_list(const std::vector<Flow<T>>& flows, std::size_t limit, Slot& slot) {
  std::vector<std::optional<detail::Kept<T>>> results(flows.size());
  Atomic<std::size_t> next{0};
  Together together("parallel");
  for (std::size_t i = 0; i < std::min(limit, flows.size()); ++i) {
    together.scope().spawn([&]() -> Coro<> {
      for (std::size_t k = next.fetch_add(1); k < flows.size(); k = next.fetch_add(1)) {
        co_await run_into(flows[k], together, results[k]);
      }
    });
  }
  co_await together.end();
  if constexpr (std::is_void_v<T>) {
    for (auto& result : results) Together::present(result);
    slot.set<void>();
  } else {
    ValuesOf<T> values;
    values.reserve(results.size());
    for (auto& result : results) values.push_back(Together::present(result));
    slot.set<ValuesOf<T>>(std::move(values));
  }
}

template <class... Ts>
Coro<void> run_tuple(const std::tuple<Flow<Ts>...>& flows, Slot& slot) {
  std::tuple<std::optional<detail::Kept<Ts>>...> results;
  Together together("parallel");
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (together.scope().spawn(run_into(std::get<I>(flows), together, std::get<I>(results))), ...);
  }(std::index_sequence_for<Ts...>{});
  co_await together.end();
  std::apply(
      [&](auto&... result) {
        slot.set<std::tuple<detail::Kept<Ts>...>>(Together::present(result)...);
      },
      results);
}

/// `put` fills the slot with the winner's value.
template <class T, class Put>
Coro<void> run_racer(Flow<T> flow, Together& together, Slot& slot, Put put) {
  Outcome<T> outcome = co_await flow.outcome();
  if (!together.wins()) co_return;
  if (outcome.cancelled()) {
    slot.cancel(outcome.reason());
  } else if (outcome.failed()) {
    slot.fail(outcome.error());
  } else if constexpr (std::is_void_v<T>) {
    put(std::monostate{});
  } else {
    put(std::move(outcome).value());
  }
}

template <class... Ts>
Coro<void> run_race(const std::tuple<Flow<Ts>...>& flows, Slot& slot) {
  using OneOf = std::variant<detail::Kept<Ts>...>;
  Together together("race");
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    (together.scope().spawn(run_racer(std::get<I>(flows), together, slot,
                                      [&slot]<class V>(V&& value) {
                                        slot.set<OneOf>(std::in_place_index<I>,
                                                        std::forward<V>(value));
                                      })),
     ...);
  }(std::index_sequence_for<Ts...>{});
  co_await together.end();
  if (!together.won()) throw Cancelled(CancelReason::killed);  // all of them
}

template <class T>
Coro<void> run_race_of_list(const std::vector<Flow<T>>& flows, Slot& slot) {
  if (flows.empty()) throw std::invalid_argument("race() of no flows has no winner");
  Together together("race");
  for (std::size_t i = 0; i < flows.size(); ++i) {
    together.scope().spawn(run_racer(flows[i], together, slot, [&slot, i]<class V>(V&& value) {
      slot.set<Winner<T>>(Winner<T>{i, std::forward<V>(value)});
    }));
  }
  co_await together.end();
  if (!together.won()) throw Cancelled(CancelReason::killed);  // all of them
}

}  // namespace flow_detail

namespace flow {

/// At most `limit` at a time; unlimited by default.
template <class T>
[[nodiscard]] auto parallel(std::vector<Flow<T>> flows, std::size_t limit = ~std::size_t{0}) {
  WEFT_CHECK(limit > 0, "parallel() with a limit of 0 would never begin");
  return flow_detail::leaf<flow_detail::ValuesOf<T>>(
      [flows = std::move(flows), limit](flow_detail::Slot& slot) {
        return flow_detail::Step::after(flow_detail::run_list(flows, limit, slot));
      });
}
template <class... Ts>
  requires(sizeof...(Ts) > 0)
[[nodiscard]] auto parallel(Flow<Ts>... flows) {
  return flow_detail::leaf<std::tuple<detail::Kept<Ts>...>>(
      [flows = std::tuple(std::move(flows)...)](flow_detail::Slot& slot) {
        return flow_detail::Step::after(flow_detail::run_tuple(flows, slot));
      });
}

/// A std::variant; its index says who has won.
template <class... Ts>
  requires(sizeof...(Ts) > 0)
[[nodiscard]] auto race(Flow<Ts>... flows) {
  return flow_detail::leaf<std::variant<detail::Kept<Ts>...>>(
      [flows = std::tuple(std::move(flows)...)](flow_detail::Slot& slot) {
        return flow_detail::Step::after(flow_detail::run_race(flows, slot));
      });
}
template <class T>
[[nodiscard]] auto race(std::vector<Flow<T>> flows) {
  return flow_detail::leaf<Winner<T>>([flows = std::move(flows)](flow_detail::Slot& slot) {
    return flow_detail::Step::after(flow_detail::run_race_of_list(flows, slot));
  });
}

}  // namespace flow
}  // namespace weft

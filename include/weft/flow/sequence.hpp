/// Sequence<T>: values one after the other, each made when somebody asks for it.
///
///     auto totals = seq::of(orders)                        // a channel
///                 | seq::filter([](const Order& o) { return o.open; })
///                 | seq::parallel_map(8, [](Order o) { return price(o); })
///                 | seq::chunk(100);
///     for (auto& hundred : totals) store(hundred);            // in a fiber
///     while (auto hundred = co_await totals.co_next()) ...    // in a coroutine
///
/// A sequence is read once, from one task at a time. Nothing happens before the first value is
/// asked for, and nothing is made that nobody asks for, except by the steps that say so: buffer,
/// merge and parallel_map (sequence_parallel.hpp) work ahead, by tasks in the scope around whoever
/// first asks, as far as they have room. A sequence that is dropped stops them.
///
/// An error in a step comes out where the next value was asked for, and ends the sequence. A read
/// that is cancelled or timed out does not: the next one goes on, though what a function was
/// working on is lost.
///
/// Functions given to a sequence may return a value, a Coro or an operation, as those given to a
/// flow.
///
///     seq::from(vector)  seq::of(channel)  seq::count(n)  seq::generate(f)
///     | map(f)  | filter(f)  | take(n)  | take_while(f)  | chunk(n)      zip(a, b)
///     .next()  .co_next()  .collect()  .co_collect()  .for_each(f)  range-for
#pragma once

#include <weft/flow/flow.hpp>
#include <weft/sync/channel.hpp>

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

namespace weft {

namespace flow_detail {

template <class T>
class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;
  virtual Coro<std::optional<T>> next() = 0;
};

// Coroutines that do not know the function: what a frame holds should have a name of its own.
template <Op O>
Coro<ResultOf<O>> run_op(O op) {
  co_return co_await std::move(op);
}
template <class T>
Coro<T> run_flow(Flow<T> flow) {
  co_return co_await flow();
}
template <class T>
Coro<T> give(T value) {
  co_return value;
}
inline Coro<void> give() {
  co_return;
}

/// Calls f; the coroutine gives what comes of that. What is passed must outlive it.
template <class F, class... Args>
Coro<ProducedBy<std::invoke_result_t<F&, Args...>>> produce(F& f, Args&&... args) {
  using R = std::invoke_result_t<F&, Args...>;
  if constexpr (is_coro<R>) {
    return std::invoke(f, std::forward<Args>(args)...);
  } else if constexpr (Op<R>) {
    return run_op(std::invoke(f, std::forward<Args>(args)...));
  } else if constexpr (is_flow<R>) {
    return run_flow(std::invoke(f, std::forward<Args>(args)...));
  } else if constexpr (std::is_void_v<R>) {
    std::invoke(f, std::forward<Args>(args)...);
    return give();
  } else {
    return give<R>(std::invoke(f, std::forward<Args>(args)...));
  }
}

}  // namespace flow_detail

template <class T>
class [[nodiscard]] Sequence {
 public:
  using Value = T;
  using Source = std::unique_ptr<flow_detail::Source<T>>;

  explicit Sequence(Source source) noexcept : source_(std::move(source)) {}

  /// The next value; nothing at the end, and from then on.
  Coro<std::optional<T>> co_next() {
    if (!source_) co_return std::nullopt;
    std::optional<T> value;
    try {
      value = co_await source_->next();
    } catch (const Cancelled&) {
      throw;  // it concerns the reader; the next one may go on
    } catch (...) {
      source_.reset();
      throw;
    }
    if (!value) source_.reset();
    co_return value;
  }
  std::optional<T> next() { return await(co_next()); }

  /// All that is left.
  Coro<std::vector<T>> co_collect() {
    std::vector<T> all;
    while (auto value = co_await co_next()) all.push_back(*std::move(value));
    co_return all;
  }
  std::vector<T> collect() { return await(co_collect()); }
  template <class F>
  Coro<void> co_for_each(F f) {
    while (auto value = co_await co_next()) co_await flow_detail::produce(f, *std::move(value));
  }
  template <class F>
  void for_each(F f) {
    await(co_for_each(std::move(f)));
  }

  class Iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Sequence& sequence) : sequence_(&sequence), value_(sequence.next()) {}
    T& operator*() noexcept { return *value_; }
    Iterator& operator++() {
      value_ = sequence_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const noexcept { return !value_.has_value(); }

   private:
    Sequence* sequence_;
    std::optional<T> value_;
  };
  [[nodiscard]] Iterator begin() { return Iterator(*this); }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  Source source_;
};

namespace flow_detail {

template <class T, class F>
auto operator|(Sequence<T>&& input, Operator<F> op) {
  return op.apply(std::move(input));
}

/// next() by a coroutine function with a state.
template <class T, class State, class F>
class SourceOf final : public Source<T> {
 public:
  SourceOf(State state, F f) : state_(std::move(state)), f_(std::move(f)) {}
  Coro<std::optional<T>> next() override { return f_(state_); }

 private:
  State state_;
  F f_;
};
template <class T, class State, class F>
Sequence<T> sequence_of(State state, F f) {
  return Sequence<T>(std::make_unique<SourceOf<T, State, F>>(std::move(state), std::move(f)));
}

template <class T, class F>
struct StepState {
  Sequence<T> input;
  F f;
};
template <class T>
struct CountState {
  Sequence<T> input;
  std::size_t count;
};

}  // namespace flow_detail

namespace seq {

template <class T>
[[nodiscard]] Sequence<T> from(std::vector<T> values) {
  struct State {
    std::vector<T> values;
    std::size_t at = 0;
  };
  return flow_detail::sequence_of<T>(State{std::move(values)},
                                     [](State& s) -> Coro<std::optional<T>> {
                                       if (s.at == s.values.size()) co_return std::nullopt;
                                       co_return std::move(s.values[s.at++]);
                                     });
}
/// Until the channel is closed and empty. It must outlive the sequence.
template <class T>
[[nodiscard]] Sequence<T> of(Channel<T>& channel) {
  return flow_detail::sequence_of<T>(
      &channel, [](Channel<T>* c) -> Coro<std::optional<T>> { co_return co_await c->recv_op(); });
}
/// 0, 1, ..., n - 1.
[[nodiscard]] inline Sequence<std::uint64_t> count(std::uint64_t n) {
  struct State {
    std::uint64_t next;
    std::uint64_t end;
  };
  return flow_detail::sequence_of<std::uint64_t>(
      State{0, n}, [](State& s) -> Coro<std::optional<std::uint64_t>> {
        if (s.next == s.end) co_return std::nullopt;
        co_return s.next++;
      });
}
/// f() gives an optional: nothing ends the sequence.
template <class F>
[[nodiscard]] auto generate(F f) {
  using T = typename flow_detail::ProducedBy<std::invoke_result_t<F&>>::value_type;
  return flow_detail::sequence_of<T>(
      std::move(f), [](F& g) -> Coro<std::optional<T>> { return flow_detail::produce(g); });
}

template <class F>
[[nodiscard]] auto map(F f) {
  return flow_detail::Operator{[f = std::move(f)]<class T>(Sequence<T>&& input) mutable {
    using U = flow_detail::ProducedBy<std::invoke_result_t<F&, T>>;
    using State = flow_detail::StepState<T, F>;
    return flow_detail::sequence_of<U>(
        State{std::move(input), std::move(f)}, [](State& s) -> Coro<std::optional<U>> {
          auto value = co_await s.input.co_next();
          if (!value) co_return std::nullopt;
          co_return co_await flow_detail::produce(s.f, *std::move(value));
        });
  }};
}
/// Those for which f(const T&) is true.
template <class F>
[[nodiscard]] auto filter(F f) {
  return flow_detail::Operator{[f = std::move(f)]<class T>(Sequence<T>&& input) mutable {
    using State = flow_detail::StepState<T, F>;
    return flow_detail::sequence_of<T>(
        State{std::move(input), std::move(f)}, [](State& s) -> Coro<std::optional<T>> {
          for (;;) {
            auto value = co_await s.input.co_next();
            if (!value || co_await flow_detail::produce(s.f, std::as_const(*value))) {
              co_return value;
            }
          }
        });
  }};
}
template <class F>
[[nodiscard]] auto take_while(F f) {
  return flow_detail::Operator{[f = std::move(f)]<class T>(Sequence<T>&& input) mutable {
    using State = flow_detail::StepState<T, F>;
    return flow_detail::sequence_of<T>(
        State{std::move(input), std::move(f)}, [](State& s) -> Coro<std::optional<T>> {
          auto value = co_await s.input.co_next();
          if (value && !co_await flow_detail::produce(s.f, std::as_const(*value))) value.reset();
          co_return value;
        });
  }};
}
/// The first n. Does not ask for more.
[[nodiscard]] inline auto take(std::size_t n) {
  return flow_detail::Operator{[n]<class T>(Sequence<T>&& input) {
    using State = flow_detail::CountState<T>;
    return flow_detail::sequence_of<T>(State{std::move(input), n},
                                       [](State& s) -> Coro<std::optional<T>> {
                                         if (s.count == 0) co_return std::nullopt;
                                         auto value = co_await s.input.co_next();
                                         --s.count;
                                         co_return value;
                                       });
  }};
}
/// Vectors of n; the last one may be shorter.
[[nodiscard]] inline auto chunk(std::size_t n) {
  WEFT_CHECK(n > 0, "chunk(0) would never end");
  return flow_detail::Operator{[n]<class T>(Sequence<T>&& input) {
    struct State {
      Sequence<T> input;
      std::size_t count;
      std::vector<T> values{};  // here, so that a read that is cancelled loses nothing
    };
    return flow_detail::sequence_of<std::vector<T>>(
        State{std::move(input), n}, [](State& s) -> Coro<std::optional<std::vector<T>>> {
          while (s.values.size() < s.count) {
            auto value = co_await s.input.co_next();
            if (!value) break;
            s.values.push_back(*std::move(value));
          }
          if (s.values.empty()) co_return std::nullopt;
          co_return std::exchange(s.values, {});
        });
  }};
}
/// The first of each, the second of each, ...; ends with the shortest.
template <class... Ts>
[[nodiscard]] auto zip(Sequence<Ts>... inputs) {
  struct State {
    std::tuple<Sequence<Ts>...> inputs;
    std::tuple<std::optional<Ts>...> values{};  // of a row that is not complete yet
  };
  using Row = std::tuple<Ts...>;
  return flow_detail::sequence_of<Row>(
      State{{std::move(inputs)...}}, [](State& s) -> Coro<std::optional<Row>> {
        bool complete = true;
        auto step = [&]<std::size_t I>(std::integral_constant<std::size_t, I>) -> Coro<void> {
          auto& value = std::get<I>(s.values);
          if (complete && !value) value = co_await std::get<I>(s.inputs).co_next();
          complete = complete && value.has_value();
        };
        co_await [&]<std::size_t... I>(std::index_sequence<I...>) -> Coro<void> {
          (co_await step(std::integral_constant<std::size_t, I>{}), ...);
        }(std::index_sequence_for<Ts...>{});
        if (!complete) co_return std::nullopt;
        auto row = std::exchange(s.values, {});
        co_return std::apply([](auto&... v) { return Row(*std::move(v)...); }, row);
      });
}

}  // namespace seq
}  // namespace weft

/// Flow<T>: a computation that has not begun, put together from smaller ones.
///
///     Flow<Page> page = flow::call([=] { return fetch(url); })
///                     | flow::timeout(1s)
///                     | flow::retry({.most = 3, .delay = 10ms})
///                     | flow::recover([](auto&) { return Page{}; });
///
///     Outcome<Page> o = page.run();        // in a fiber; on a plain thread one thing at a time
///     Page p = co_await page();            // in a coroutine; throws if there is no page
///     auto handle = scope.spawn(page);     // as a task
///     Page p = block_on(page);             // on a loop of its own
///
/// Building a flow runs nothing. Running it runs it, each time anew; a flow can be copied, and be
/// run by many at a time. It ends with a value, an error (something was thrown), or cancelled. That
/// is not an error, and passes by everything that deals with errors: map and bind go on with
/// values, recover, retry and fallback with errors, map_outcome and finally with all three.
///
/// Everything a flow does happens in the task that runs it; only parallel and race have children,
/// and those end before they do. Cancelling the task cancels the flow: it looks before and after
/// every step, and every wait in it ends.
///
/// Functions given to a flow may return a plain value, or something that is to be run for one: a
/// Flow, a Coro, or an operation (such as channel.recv_op()). They are called once per run, by one
/// run at a time or by several at once: what they change must be made for that.
///
///     success(v)  fail<T>(error)  cancelled<T>()      already decided
///     call(f)                                         what f gives
///     delay(d)                                        later
///     parallel(flows, limit)                          all; the first error stops the rest
///     race(a, b, ...)                                 the first to end, in whatever way
///
///     | map(f)  | bind(f)                 on with the value
///     | recover(f)                        on after an error: f(exception_ptr)
///     | map_outcome(f)                    on in any case: f(Outcome<T>)
///     | fallback(other)                   another flow, after an error or a timeout
///     | retry(policy)                     again, after an error or a timeout
///     | timeout(d)                        cancelled, with the reason `timeout`, if it takes longer
///     | repeat(n)                         n times, as long as it succeeds; the last value
///     | finally(f)                        calls f(), however it ended
#pragma once

#include <weft/flow/machine.hpp>
#include <weft/wait/perform.hpp>

#include <functional>
#include <memory>

namespace weft {

template <class T>
class [[nodiscard]] Flow {
 public:
  using Value = T;

  explicit Flow(flow_detail::NodeRef node) noexcept : node_(std::move(node)) {}

  /// Runs it: the value; else throws the error, or Cancelled.
  Coro<T> operator()() const { return run_for_value(*this); }
  /// Runs it: how it ended. If the task that runs it has been cancelled, throws that.
  Coro<Outcome<T>> outcome() const { return run_for_outcome(*this); }
  Outcome<T> run() const { return await(outcome()); }

  [[nodiscard]] const flow_detail::NodeRef& node() const noexcept { return node_; }

 private:
  // By value: the flow lives as long as it runs.
  static Coro<T> run_for_value(Flow flow) {
    flow_detail::Slot slot;
    co_await flow_detail::run(flow.checked(), slot);
    if (slot.failed()) std::rethrow_exception(slot.error());
    if (slot.cancelled()) throw Cancelled(slot.reason());
    co_return slot.template take<T>();
  }
  static Coro<Outcome<T>> run_for_outcome(Flow flow) {
    flow_detail::Slot slot;
    co_await flow_detail::run(flow.checked(), slot);
    if (slot.cancelled()) current()->wait->throw_if_cancelled();
    co_return slot.template outcome<T>();
  }

  [[nodiscard]] const flow_detail::Node& checked() const noexcept {
    WEFT_CHECK(node_.get() != nullptr, "this Flow was moved from");
    return *node_.get();
  }
  flow_detail::NodeRef node_;
};

template <class T>
inline constexpr bool is_flow = false;
template <class T>
inline constexpr bool is_flow<Flow<T>> = true;

namespace flow_detail {

/// The value that comes of what a function returned.
template <class R>
struct Produced {
  using Type = R;
};
template <class T>
struct Produced<Flow<T>> {
  using Type = T;
};
template <class T>
struct Produced<Coro<T>> {
  using Type = T;
};
template <class R>
  requires Op<R>
struct Produced<R> {
  using Type = ResultOf<R>;
};
template <class R>
using ProducedBy = typename Produced<R>::Type;

/// Keeps the arguments of a call as long as the coroutine it gives, which may refer to them. The
/// function is not named here: what a frame holds should have a name of its own.
template <class R, class... Args>
using Start = R (*)(void* f, std::tuple<Args...>& args);

template <class T, class... Args>
Coro<T> run_held(void* f, Start<Coro<T>, Args...> start, std::tuple<Args...> args) {
  co_return co_await start(f, args);
}
template <Op O, class... Args>
Coro<ResultOf<O>> wait_held(void* f, Start<O, Args...> start, std::tuple<Args...> args) {
  co_return co_await start(f, args);
}

template <class T>
Coro<void> run_coro(Slot& slot, Coro<T> coro) {
  if constexpr (std::is_void_v<T>) {
    co_await std::move(coro);
    slot.set<void>();
  } else if constexpr (std::is_reference_v<T>) {
    T value = co_await std::move(coro);
    slot.set<T>(std::addressof(value));
  } else {
    slot.set<T>(co_await std::move(coro));
  }
}

/// How a kept argument is passed: a constant one as such, others are given away.
template <class A>
using Passed = std::conditional_t<std::is_const_v<A>, A&, A&&>;

/// Calls f, and goes on with what it gave. Args: values, or references to what lives on.
template <class F, class... Args>
Step call_step(Slot& slot, F& f, Args... args) {
  using R = std::invoke_result_t<F&, Passed<Args>...>;
  if constexpr (is_flow<R>) {
    return Step::instead(std::invoke(f, static_cast<Passed<Args>>(args)...).node());
  } else if constexpr (is_coro<R> || Op<R>) {
    const Start<R, Args...> start = [](void* function, std::tuple<Args...>& held) {
      return std::apply(
          [&](auto&... arg) {
            return std::invoke(*static_cast<F*>(function), static_cast<Passed<Args>>(arg)...);
          },
          held);
    };
    std::tuple<Args...> held(static_cast<Args&&>(args)...);
    void* const function = std::addressof(f);
    if constexpr (is_coro<R>) {
      return Step::after(
          run_coro(slot, run_held<typename R::Value, Args...>(function, start, std::move(held))));
    } else {
      return Step::after(run_coro(slot, wait_held<R, Args...>(function, start, std::move(held))));
    }
  } else {
    slot.set_result<R>([&]() -> R { return std::invoke(f, static_cast<Passed<Args>>(args)...); });
    return Step::done();
  }
}
/// The same with the value in the slot, if it is not void.
template <class T, class F>
Step call_with_value(Slot& slot, F& f) {
  if constexpr (std::is_void_v<T>) {
    slot.take<void>();
    return call_step(slot, f);
  } else {
    return call_step<F, T>(slot, f, slot.take<T>());
  }
}
template <class T, class F>
struct CalledWith {
  using Type = std::invoke_result_t<F&, T>;
};
template <class F>
struct CalledWith<void, F> {
  using Type = std::invoke_result_t<F&>;
};
template <class T, class F>
using FromValue = ProducedBy<typename CalledWith<T, F>::Type>;

/// begin() by a function, which may have another node to run.
template <class B>
class Leaf final : public Node {
 public:
  explicit Leaf(B begin, NodeRef other = {}) : other_(std::move(other)), begin_(std::move(begin)) {}
  Step begin(Slot& slot, Frame&) const override {
    if constexpr (std::invocable<B&, Slot&, const NodeRef&>) {
      return begin_(slot, other_);
    } else {
      return begin_(slot);
    }
  }

 private:
  void let_go(const Node*& dying) noexcept override { let_go_of(other_, dying); }
  NodeRef other_;
  mutable B begin_;
};
template <class T, class B>
Flow<T> leaf(B begin, NodeRef other = {}) {
  return Flow<T>(NodeRef(new Leaf<B>(std::move(begin), std::move(other))));
}

/// Runs its input, then a function, which may run the input again, or another node.
template <class B>
class After final : public Node {
 public:
  After(NodeRef input, NodeRef other, B then)
      : input_(std::move(input)), other_(std::move(other)), then_(std::move(then)) {}
  Step begin(Slot&, Frame&) const override { return Step::first(input_); }
  Step then(Slot& slot, Frame& frame) const override {
    if constexpr (std::invocable<B&, Slot&, Frame&, const NodeRef&>) {
      return then_(slot, frame, input_);
    } else if constexpr (std::invocable<B&, Slot&, const NodeRef&>) {
      return then_(slot, other_);
    } else {
      return then_(slot);
    }
  }

 private:
  void let_go(const Node*& dying) noexcept override {
    let_go_of(input_, dying);
    let_go_of(other_, dying);
  }
  NodeRef input_;
  NodeRef other_;
  mutable B then_;
};
template <class U, class T, class B>
Flow<U> after(const Flow<T>& input, NodeRef other, B then) {
  return Flow<U>(NodeRef(new After<B>(input.node(), std::move(other), std::move(then))));
}
template <class U, class T, class B>
Flow<U> after(const Flow<T>& input, B then) {
  return after<U>(input, NodeRef(), std::move(then));
}

/// What stands to the right of a |: makes a flow of a flow, or a sequence of a sequence.
template <class F>
struct Operator {
  F apply;
};
template <class F>
Operator(F) -> Operator<F>;

template <class T, class F>
auto operator|(const Flow<T>& input, Operator<F> op) {
  return op.apply(input);
}
/// Two operators make one: const auto careful = timeout(1s) | retry({.most = 3});
template <class F, class G>
auto operator|(Operator<F> first, Operator<G> second) {
  return Operator{[first = std::move(first), second = std::move(second)]<class Input>(
                      Input&& input) { return std::forward<Input>(input) | first | second; }};
}

}  // namespace flow_detail

namespace flow {

template <class T>
[[nodiscard]] auto success(T value) {
  static_assert(std::is_copy_constructible_v<T>,
                "a flow may run many times: call(f), with an f that makes the value");
  return flow_detail::leaf<T>([value = std::move(value)](flow_detail::Slot& slot) {
    slot.set<T>(value);
    return flow_detail::Step::done();
  });
}
[[nodiscard]] inline Flow<void> success() {
  return flow_detail::leaf<void>([](flow_detail::Slot& slot) {
    slot.set<void>();
    return flow_detail::Step::done();
  });
}
template <class T = void>
[[nodiscard]] Flow<T> fail(std::exception_ptr error) {
  return flow_detail::leaf<T>([error = std::move(error)](flow_detail::Slot& slot) {
    slot.fail(error);
    return flow_detail::Step::done();
  });
}
template <class T = void, class E>
[[nodiscard]] Flow<T> fail(E error) {
  return fail<T>(std::make_exception_ptr(std::move(error)));
}
template <class T = void>
[[nodiscard]] Flow<T> cancelled(CancelReason reason = CancelReason::requested) {
  return flow_detail::leaf<T>([reason](flow_detail::Slot& slot) {
    slot.cancel(reason);
    return flow_detail::Step::done();
  });
}
template <class F>
[[nodiscard]] auto call(F f) {
  using T = flow_detail::ProducedBy<std::invoke_result_t<F&>>;
  return flow_detail::leaf<T>([f = std::move(f)](flow_detail::Slot& slot) mutable {
    return flow_detail::call_step(slot, f);
  });
}

template <class F>
[[nodiscard]] auto map(F f) {
  return flow_detail::Operator{[f = std::move(f)]<class T>(const Flow<T>& input) {
    using U = flow_detail::FromValue<T, F>;
    return flow_detail::after<U>(input, [f](flow_detail::Slot& slot) mutable {
      return slot.ok() ? flow_detail::call_with_value<T>(slot, f) : flow_detail::Step::done();
    });
  }};
}
/// map, where f gives a Flow, a Coro or an operation: so that the code says what it means.
template <class F>
[[nodiscard]] auto bind(F f) {
  return map(std::move(f));
}
/// f(const std::exception_ptr&) gives a value in place of the error.
template <class F>
[[nodiscard]] auto recover(F f) {
  return flow_detail::Operator{[f = std::move(f)]<class T>(const Flow<T>& input) {
    using R = std::invoke_result_t<F&, const std::exception_ptr&>;
    static_assert(std::is_convertible_v<flow_detail::ProducedBy<R>, T> ||
                      std::is_same_v<flow_detail::ProducedBy<R>, T>,
                  "recover(f): f must give what the flow would have given");
    return flow_detail::after<T>(input, [f](flow_detail::Slot& slot) mutable {
      if (!slot.failed()) return flow_detail::Step::done();
      const std::exception_ptr error = slot.error();
      if constexpr (std::is_same_v<flow_detail::ProducedBy<R>, T>) {
        return flow_detail::call_step<F, const std::exception_ptr>(slot, f, error);
      } else {
        static_assert(!is_coro<R> && !Op<R> && !is_flow<R>, "recover(f): of exactly that type");
        auto as_t = [&](const std::exception_ptr& e) -> T { return f(e); };
        return flow_detail::call_step<decltype(as_t), const std::exception_ptr>(slot, as_t, error);
      }
    });
  }};
}
/// f(Outcome<T>) gives what to go on with, whatever came.
template <class F>
[[nodiscard]] auto map_outcome(F f) {
  return flow_detail::Operator{[f = std::move(f)]<class T>(const Flow<T>& input) {
    using U = flow_detail::ProducedBy<std::invoke_result_t<F&, Outcome<T>>>;
    return flow_detail::after<U>(input, [f](flow_detail::Slot& slot) mutable {
      return flow_detail::call_step(slot, f, slot.outcome<T>());
    });
  }};
}
template <class T>
[[nodiscard]] auto fallback(Flow<T> other) {
  return flow_detail::Operator{[other = std::move(other)](const Flow<T>& input) {
    return flow_detail::after<T>(input, other.node(),
                                 [](flow_detail::Slot& slot, const flow_detail::NodeRef& node) {
                                   if (!slot.can_be_mended()) return flow_detail::Step::done();
                                   return flow_detail::Step::instead(node);
                                 });
  }};
}
/// Also when the flow is cancelled; f must not wait. What f throws is the result.
template <class F>
[[nodiscard]] auto finally(F f) {
  return flow_detail::Operator{[f = std::move(f)]<class T>(const Flow<T>& input) {
    return flow_detail::after<T>(input, [f](flow_detail::Slot&) mutable {
      f();
      return flow_detail::Step::done();
    });
  }};
}
/// `times` at least 1; it ends early if it does not succeed.
[[nodiscard]] inline auto repeat(std::uint64_t times) {
  WEFT_CHECK(times > 0, "repeat(0) would give no value");
  return flow_detail::Operator{[times]<class T>(const Flow<T>& input) {
    return flow_detail::after<T>(input, [times](flow_detail::Slot& slot, flow_detail::Frame& frame,
                                                const flow_detail::NodeRef& again) {
      if (!slot.ok() || ++frame.times >= times) return flow_detail::Step::done();
      return flow_detail::Step::first(again);
    });
  }};
}

}  // namespace flow
}  // namespace weft

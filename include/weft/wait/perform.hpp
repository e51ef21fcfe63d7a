/// perform(op): wait for an operation, from a fiber or a plain thread. In a coroutine, `co_await
/// op`.
///
///     Message m = perform(inbox.recv_op());
///     auto first = select(inbox.recv_op(), sleep_op(1s));    // std::variant: index() says who won
///
/// Throws `Cancelled` when the calling task is cancelled, before anything is taken. The fast path
/// polls before it builds a suspension.
#pragma once

#include <weft/wait/combine.hpp>
#include <weft/wait/suspension.hpp>

namespace weft {

namespace detail {

/// Lets a plain thread wait: gives it an Io of its own for the time of `body`. Defined by
/// sched/inline.
void on_plain_thread(void (*body)(void*), void* argument);

template <Op O>
[[gnu::noinline]] ResultOf<O> wait_for(Wait& wait, O& op) {
  Suspension<O> suspension;
  do {
    if (suspension.publish(wait, op)) wait.suspend();
  } while (!suspension.settled(wait, op));
  return suspension.finish(wait, op);
}

template <Op O>
[[gnu::noinline]] ResultOf<O> wait_on_plain_thread(O& op) {
  using R = ResultOf<O>;
  struct Call {
    O& op;
    std::optional<Outcome<R>> outcome;
  } call{op, {}};
  on_plain_thread(
      [](void* argument) {
        auto& c = *static_cast<Call*>(argument);
        c.outcome.emplace(Outcome<R>::of([&]() -> R { return wait_for(*current()->wait, c.op); }));
      },
      &call);
  return std::move(*call.outcome).value();
}

}  // namespace detail

template <Op O>
ResultOf<O> perform(O op) {
  Current* here = current();
  Wait* wait = here == nullptr ? nullptr : here->wait;
  if (wait != nullptr) {
    branch::point(op);
    if constexpr (branch::hints<O>) {
      if (here->turn_is_over()) wait->give_way();
    }
    wait->throw_if_cancelled();
  }
  if (const auto k = branch::poll(op)) return branch::take(op, *k);
  if (wait == nullptr) return detail::wait_on_plain_thread(op);
  return detail::wait_for(*wait, op);
}

/// Waits for the first of several operations; the others are withdrawn before it returns.
template <Op... Ops>
auto select(Ops... ops) {
  return perform(race(std::move(ops)...));
}

}  // namespace weft

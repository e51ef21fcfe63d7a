/// perform(op): wait for an operation, from a fiber or a plain thread. In a coroutine, `co_await
/// op`.
///
///     Message m = perform(inbox.recv_op());
///     auto first = select(inbox.recv_op(), sleep_op(1s));    // std::variant: index() says who won
///
/// Throws `Cancelled` when the calling task is cancelled, before anything is taken. The fast path
/// polls before it builds a suspension.
///
/// The op stays where the caller has made it, and the result is made where the caller wants it: so
/// only take() is compiled into the caller, and all that comes before it once per kind of
/// operation. (Small structs that are passed through a call in registers are put together in memory
/// piece by piece and read back whole, which stalls the processor: half the time of a channel.)
#pragma once

#include <weft/wait/combine.hpp>
#include <weft/wait/suspension.hpp>

namespace weft {

namespace detail {

/// Lets a plain thread wait: gives it an Io of its own for the time of `body`. Defined by
/// sched/inline.
void on_plain_thread(void (*body)(void*), void* argument);

template <Op O>
[[gnu::noinline]] std::size_t wait_for(Wait& wait, O& op) {
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
        c.outcome.emplace(Outcome<R>::of(
            [&]() -> R { return branch::take(c.op, wait_for(*current()->wait, c.op)); }));
      },
      &call);
  return std::move(*call.outcome).value();
}

inline constexpr std::size_t nothing_to_wait_on = ~std::size_t{0};

/// Returns once it can be taken: which of its branches. Or that this is a plain thread, and it
/// would have to wait.
template <Op O>
[[gnu::noinline]] std::size_t come_true(O& op) {
  Current* here = current();
  Wait* wait = here == nullptr ? nullptr : here->wait;
  if (wait != nullptr) {
    branch::point(op);
    if constexpr (branch::takes_turns<O>) {
      if (here->turn_is_over()) wait->give_way();
    }
    wait->throw_if_cancelled();
    if constexpr (branch::helps<O>) {
      op.help();
      wait->throw_if_cancelled();
    }
  }
  if (std::size_t k; branch::looks_ready(op) && branch::ready(op, k)) return k;
  if (wait != nullptr) return wait_for(*wait, op);
  if constexpr (requires { op.run_here(); }) {
    op.run_here();
    return 0;
  } else {
    return nothing_to_wait_on;
  }
}

}  // namespace detail

template <Op O>
[[gnu::always_inline]] inline ResultOf<O> perform(O&& op) {
  const std::size_t k = detail::come_true(op);
  if (k == detail::nothing_to_wait_on) [[unlikely]]
    return detail::wait_on_plain_thread(op);
  return branch::take(op, k);
}
/// Of a copy: the same op can be performed again.
template <Op O>
ResultOf<O> perform(const O& op) {
  return perform(O(op));
}

/// Waits for the first of several operations; the others are withdrawn before it returns.
template <Op... Ops>
auto select(Ops... ops) {
  return perform(race(std::move(ops)...));
}

}  // namespace weft

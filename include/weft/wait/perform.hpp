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
///
/// Suspending happens in the caller too, between two calls: after a switch the processor expects
/// returns to the calls of another fiber, and each `ret` to somewhere else costs 20 cycles. So
/// there is none: the switch jumps back to where suspend() was called (stack/context.hpp).
#pragma once

#include <weft/wait/combine.hpp>
#include <weft/wait/suspension.hpp>

#include <memory>

namespace weft {

namespace detail {

/// Lets a plain thread wait: gives it an Io of its own for the time of `body`. Defined by
/// sched/inline.
void on_plain_thread(void (*body)(void*), void* argument);

/// What a wait needs of its caller's frame; most operations do not wait. Made by start_waiting(),
/// and never destroyed: when the wait is over, nothing is left to clean up (finish() checks it).
template <Op O>
union Room {
  Room() noexcept {}
  ~Room() {}
  struct Waiting {
    explicit Waiting(Wait& waiter) noexcept : wait(&waiter) {}
    Wait* wait;
    Suspension<O> suspension;
  } waiting;
};

inline constexpr std::size_t nothing_to_wait_on = ~std::size_t{0};
inline constexpr std::size_t must_suspend = nothing_to_wait_on - 1;

/// The branch that can be taken; or must_suspend, and then go_on().
template <Op O>
[[gnu::always_inline]] inline std::size_t publish(O& op, Room<O>& room) {
  auto& [wait, suspension] = room.waiting;
  do {
    if (suspension.publish(*wait, op)) return must_suspend;
  } while (!suspension.settled(*wait, op));
  return suspension.finish(*wait, op);
}
/// The same; or nothing_to_wait_on: this is a plain thread.
template <Op O>
[[gnu::noinline]] std::size_t start_waiting(O& op, Room<O>& room) {
  if (Current* const here = current(); here != nullptr && here->wait != nullptr) [[likely]] {
    std::construct_at(&room.waiting, *here->wait);
    return publish(op, room);
  }
  if constexpr (requires { op.run_here(); }) {
    op.run_here();
    return 0;
  } else {
    return nothing_to_wait_on;
  }
}
template <Op O>
[[gnu::noinline]] std::size_t go_on(O& op, Room<O>& room) {
  auto& [wait, suspension] = room.waiting;
  if constexpr (branch::hints<O>) {
    if (!suspension.settled(*wait, op)) return publish(op, room);
  }
  return suspension.finish(*wait, op);
}

/// On a thread that has an Io of its own by now.
template <Op O>
std::size_t wait_here(O& op) {
  Room<O> room;
  std::size_t k = start_waiting(op, room);
  while (k == must_suspend) {
    room.waiting.wait->suspend();
    k = go_on(op, room);
  }
  return k;
}

/// f(), on this thread, with an Io of its own.
template <class F>
[[gnu::noinline]] std::invoke_result_t<F&> call_on_plain_thread(F f) {
  using R = std::invoke_result_t<F&>;
  struct Call {
    F& f;
    std::optional<Outcome<R>> outcome;
  } call{f, {}};
  try {
    on_plain_thread(
        [](void* argument) {
          auto& c = *static_cast<Call*>(argument);
          c.outcome.emplace(Outcome<R>::of(c.f));
        },
        &call);
  } catch (...) {  // a deadlock, say; if it has come to a good end nevertheless, that counts
    if (!call.outcome || !call.outcome->ok()) throw;
  }
  return std::move(*call.outcome).value();
}

/// Which of its branches can be taken now; if none, start_waiting().
template <Op O>
[[gnu::noinline]] std::size_t look(O& op, Room<O>& room) {
  if (std::size_t k; branch::looks_ready(op) && branch::ready(op, k)) return k;
  return start_waiting(op, room);
}
/// The same for somebody who is watched, has been cancelled, or has to give way or help.
template <Op O>
[[gnu::noinline]] std::size_t begin_with_care(O& op, Room<O>& room) {
  Current* const here = current();
  Wait& wait = *here->wait;
  branch::point(op);
  if constexpr (branch::takes_turns<O>) {
    if (here->turn_is_over()) wait.give_way();
  }
  wait.throw_if_cancelled();
  if constexpr (branch::helps<O>) {
    static_cast<void>(branch::help(op));  // a stack has given way already
    wait.throw_if_cancelled();
  }
  return look(op, room);
}
/// What most take. It calls nothing but at its end, and so has nothing to save.
template <Op O>
[[gnu::noinline]] std::size_t begin(O& op, Room<O>& room) {
  if (Current* const here = current(); here != nullptr && here->wait != nullptr) [[likely]] {
    if (branch::takes_turns<O> || branch::helps<O> || simulated() || here->wait->cancelled())
      return begin_with_care(op, room);
    if (branch::quick(op)) return 0;
  }
  return look(op, room);
}

}  // namespace detail

template <Op O>
[[gnu::always_inline]] inline ResultOf<O> perform(O&& op) {
  detail::Room<std::remove_reference_t<O>> room;
  std::size_t k = branch::at_once(op) ? 0 : detail::begin(op, room);
  while (k >= detail::must_suspend) [[unlikely]] {
    if (k != detail::nothing_to_wait_on) [[likely]] {
      room.waiting.wait->suspend();
      k = detail::go_on(op, room);
    } else if constexpr (branch::has_at_once<std::remove_reference_t<O>>) {
      // A single take(), after either: its result need not be in memory.
      k = detail::call_on_plain_thread([&] { return detail::wait_here(op); });
    } else {
      return detail::call_on_plain_thread(
          [&]() -> ResultOf<O> { return branch::take(op, detail::wait_here(op)); });
    }
  }
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

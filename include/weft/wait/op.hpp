/// Operations: cold values that say what to wait for.
///
/// Building or dropping an Op does nothing. To add a new kind of waiting, write a type with these
/// members; no scheduler knows or cares:
///
///     struct Result                    what the wait gives (an alias; void is fine)
///     static constexpr Reason reason   a word for dumps
///     object()    identity of the thing waited on: the order in which a select publishes. May be
///                 asked before anything else; none if that is not known yet
///     try_now()   complete without waiting? If true, take() follows.
///     arm(Arm&)   publish the arm in the object's queue, under its lock, or find yourself ready:
///                   waiting  published; whoever makes the object ready will claim the arm
///                   won      ready after all: claimed our own wait (arm.claim()), then took
///                   lost     our own claim failed: another case has been claimed meanwhile
///                   retry    we claimed ourselves, then the peer's claim failed: nothing was taken
///                 It may throw, but not once it has claimed.
///     disarm(Arm&)  mandatory, cheap, noexcept; after it nobody can reach the Arm. The arm may
///     already have been
///                   unlinked by a claimant that lost.
///     take()      once, after winning: the result
///     outside     optional, static constexpr bool: it is about the outside world. An op around
///                 others that has confirm() passes it on
///     confirm()   optional, noexcept; for objects whose wakers can only hint ("readable now").
///                 Called in the waiter once it has won: does the thing itself. False: a false
///                 alarm, or not all done yet; nothing is lost, and all is published again.
///     looks_ready()  optional, noexcept, cheap: may try_now() succeed? A glimpse without a lock;
///                 only what looks ready is polled
///     at_once()   optional, noexcept, in line: does it, if that is one step which nobody else need
///                 know of. Tried before all else, where nobody watches; if true, take() follows
///     quick()     optional, noexcept: does it, if it concerns nobody else and takes a few lines
///                 that call nothing. Tried before try_now(), where nobody watches
///     help()      optional: called before it is polled, if the waiter waits for nothing else.
///                 Others may run meanwhile, and bring about what is waited for. If it says true
///                 (it may be void), they will when the waiter, a coroutine, has given way
///     run_here()  optional: a thread that may block can simply do it; then take() follows
///
/// The op does not move between arm() and the end of the suspension, so peers may write through
/// arm.slot.
///
/// Composite operations (race, map, guard) are trees whose leaves are such types. They expose their
/// leaves as numbered *branches*, so that a select of selects still publishes all leaves in one
/// global order.
#pragma once

#include <weft/wait/point.hpp>
#include <weft/wait/wait.hpp>

#include <concepts>
#include <optional>

namespace weft {

enum class Armed : std::uint8_t { waiting, won, lost, retry };

/// One thing to wait for.
template <class O>
concept LeafOp = requires(O op, Arm& arm) {
  typename O::Result;
  requires std::same_as<std::remove_cv_t<decltype(O::reason)>, Reason>;
  { op.object() } -> std::same_as<ObjectId>;
  { op.try_now() } -> std::same_as<bool>;
  { op.arm(arm) } -> std::same_as<Armed>;
  requires noexcept(op.disarm(arm));
  { op.take() } -> std::same_as<typename O::Result>;
};

/// Several things to wait for, of which one will happen. `poll()` gives the branch that completed
/// at once.
template <class O>
concept BranchOp = requires(O op, Arm& arm, std::size_t k) {
  typename O::Result;
  { O::branches } -> std::convertible_to<std::size_t>;
  { op.poll() } -> std::same_as<std::optional<std::size_t>>;
  { op.object(k) } -> std::same_as<ObjectId>;
  { op.reason_of(k) } -> std::same_as<Reason>;
  { op.arm(k, arm) } -> std::same_as<Armed>;
  requires noexcept(op.disarm(k, arm));
  { op.take(k) } -> std::same_as<typename O::Result>;
  { O::hints } -> std::convertible_to<bool>;  // may need confirm(k)?
};

template <class O>
concept Op = LeafOp<O> || BranchOp<O>;

template <Op O>
using ResultOf = typename O::Result;

/// Both kinds of operation seen as branches.
namespace branch {

template <Op O>
consteval std::size_t count_of() {
  if constexpr (BranchOp<O>) {
    return O::branches;
  } else {
    return 1;
  }
}
template <Op O>
inline constexpr std::size_t count = count_of<O>();

/// Complete without waiting? Then it is branch k.
template <Op O>
[[gnu::always_inline]] inline bool ready(O& op, std::size_t& k) {
  if constexpr (BranchOp<O>) {
    const std::optional<std::size_t> polled = op.poll();
    k = polled.value_or(0);
    return polled.has_value();
  } else {
    k = 0;
    return op.try_now();
  }
}
/// The same out of line, for those who poll several.
template <Op O>
std::optional<std::size_t> poll(O& op) {
  std::size_t k;
  return ready(op, k) ? std::optional(k) : std::nullopt;
}
template <Op O>
inline constexpr bool has_at_once = requires(O op) { op.at_once(); };
/// Is it done, before anything else is looked at?
template <Op O>
[[nodiscard, gnu::always_inline]] inline bool at_once(O& op) noexcept {
  if constexpr (has_at_once<O>) {
    static_assert(noexcept(op.at_once()));
    const Current* const here = current();
    return here != nullptr && here->wait != nullptr && !detail::simulated() &&
           !here->wait->cancelled() && op.at_once();
  } else {
    return false;
  }
}
/// The same, where it is known already that nobody watches and nothing is cancelled.
template <Op O>
[[nodiscard, gnu::always_inline]] inline bool quick(O& op) noexcept {
  if constexpr (requires { op.quick(); }) {
    static_assert(noexcept(op.quick()));
    return op.quick();
  } else {
    return false;
  }
}
template <Op O>
inline constexpr bool helps = requires(O op) { op.help(); };
/// May it ask a coroutine to give way?
template <Op O>
inline constexpr bool gives_turn = requires(O op) {
  { op.help() } -> std::same_as<bool>;
};
/// True: the waiter has to give way now.
template <Op O>
[[gnu::always_inline]] inline bool help(O& op) {
  if constexpr (gives_turn<O>) {
    return op.help();
  } else {
    if constexpr (helps<O>) op.help();
    return false;
  }
}
template <Op O>
[[gnu::always_inline]] inline bool looks_ready(O& op) noexcept {
  if constexpr (requires { op.looks_ready(); }) {
    return op.looks_ready();
  } else {
    return true;
  }
}
template <Op O>
[[gnu::always_inline]] inline ObjectId object(O& op, std::size_t k) {
  if constexpr (BranchOp<O>) {
    return op.object(k);
  } else {
    return op.object();
  }
}
template <Op O>
[[gnu::always_inline]] inline Reason reason(O& op, std::size_t k) {
  if constexpr (BranchOp<O>) {
    return op.reason_of(k);
  } else {
    return O::reason;
  }
}
template <Op O>
[[gnu::always_inline]] inline Armed arm(O& op, std::size_t k, Arm& arm) {
  if constexpr (BranchOp<O>) {
    return op.arm(k, arm);
  } else {
    return op.arm(arm);
  }
}
template <Op O>
[[gnu::always_inline]] inline void disarm(O& op, std::size_t k, Arm& arm) noexcept {
  if constexpr (BranchOp<O>) {
    op.disarm(k, arm);
  } else {
    op.disarm(arm);
  }
}
template <Op O>
[[gnu::always_inline]] inline ResultOf<O> take(O& op, std::size_t k) {
  if constexpr (BranchOp<O>) {
    return op.take(k);
  } else {
    return op.take();
  }
}

template <class O>
consteval bool outside_of() {
  if constexpr (requires { O::outside; }) {
    return O::outside;
  } else {
    return false;
  }
}
template <class O>
inline constexpr bool outside = outside_of<O>();

/// Before it is polled: the task is about to do this. What several things are waited for by is not
/// known before, and could be any.
template <Op O>
[[gnu::noinline]] void point_of(O& op) noexcept {
  if constexpr (LeafOp<O>) {
    detail::point({.object = op.object(), .what = O::reason.name, .outside = outside<O>});
  } else {
    detail::point({.what = "select"});
  }
}
template <Op O>
[[gnu::always_inline]] inline void point(O& op) noexcept {
  if (detail::simulated()) [[unlikely]]
    point_of(op);
}

template <Op O>
consteval bool hints_of() {
  if constexpr (BranchOp<O>) {
    return O::hints;
  } else {
    return requires(O op) { op.confirm(); };
  }
}
template <Op O>
inline constexpr bool hints = hints_of<O>();

/// Something outside that is ready again and again? See Current::turn_is_over().
template <Op O>
inline constexpr bool takes_turns = hints<O> && outside<O>;

template <Op O>
bool confirm(O& op, std::size_t k) noexcept {
  if constexpr (!hints<O>) {
    return true;
  } else if constexpr (BranchOp<O>) {
    static_assert(noexcept(op.confirm(k)), "confirm() keeps its errors for take()");
    return op.confirm(k);
  } else {
    static_assert(noexcept(op.confirm()), "confirm() keeps its errors for take()");
    return op.confirm();
  }
}

}  // namespace branch
}  // namespace weft

/// Combinators: operations made of operations.
///
///     race(a, b, c)     the first of several; Result is a std::variant whose index says which
///     first_of(a, b)    the same, but when several are ready the first named wins
///     map(op, f)        the result passed through f, in the waiter, after it has won
///     guard(f)          an operation built by f when somebody starts to wait for it
///     always(v)         ready at once       never()   never ready
///
/// All are cold, all nest, and a nested race still takes part in one global publishing order.
#pragma once

#include <weft/wait/op.hpp>

#include <array>
#include <cstdint>
#include <functional>
#include <tuple>
#include <variant>

namespace weft {

namespace detail {

template <class R>
using CaseValue = std::conditional_t<std::is_void_v<R>, std::monostate, R>;

/// f(k, op): the member of a pack of operations that owns branch k, with k made local to it.
template <class R, std::size_t I = 0, class Tuple, class F>
R with_branch(Tuple& ops, std::size_t k, F&& f) {
  constexpr std::size_t here = branch::count<std::tuple_element_t<I, Tuple>>;
  if constexpr (I + 1 == std::tuple_size_v<Tuple>) {
    return f.template operator()<I>(std::get<I>(ops), k);
  } else {
    if (k < here) return f.template operator()<I>(std::get<I>(ops), k);
    return with_branch<R, I + 1>(ops, k - here, std::forward<F>(f));
  }
}

enum class Start : std::uint8_t { chosen, first };

template <Start start, Op... Ops>
class RaceOp {
 public:
  using Result = std::variant<CaseValue<ResultOf<Ops>>...>;
  static constexpr std::size_t branches = (branch::count<Ops> + ...);
  static constexpr bool hints = (branch::hints<Ops> || ...);
  static constexpr bool outside = (branch::outside<Ops> || ...);

  explicit RaceOp(Ops... ops) : ops_(std::move(ops)...) {}

  std::optional<std::size_t> poll() {
    std::array<std::uint16_t, sizeof...(Ops)> promising;
    std::uint32_t n = 0;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((branch::looks_ready(std::get<I>(ops_)) ? void(promising[n++] = I) : void()), ...);
    }(std::index_sequence_for<Ops...>{});
    const std::uint32_t from = start == Start::chosen && n > 1 ? choose(n) : 0;
    for (std::uint32_t i = 0; i < n; ++i) {
      const std::uint32_t at = from + i;
      if (auto k = poll_case(promising[at < n ? at : at - n])) return k;
    }
    return std::nullopt;
  }
  ObjectId object(std::size_t k) {
    return with_branch<ObjectId>(
        ops_, k, []<std::size_t>(auto& op, std::size_t j) { return branch::object(op, j); });
  }
  Reason reason_of(std::size_t k) {
    return with_branch<Reason>(
        ops_, k, []<std::size_t>(auto& op, std::size_t j) { return branch::reason(op, j); });
  }
  Armed arm(std::size_t k, Arm& arm) {
    return with_branch<Armed>(
        ops_, k, [&]<std::size_t>(auto& op, std::size_t j) { return branch::arm(op, j, arm); });
  }
  void disarm(std::size_t k, Arm& arm) noexcept {
    with_branch<void>(ops_, k,
                      [&]<std::size_t>(auto& op, std::size_t j) { branch::disarm(op, j, arm); });
  }
  bool confirm(std::size_t k) noexcept {
    return with_branch<bool>(
        ops_, k, []<std::size_t>(auto& op, std::size_t j) { return branch::confirm(op, j); });
  }
  Result take(std::size_t k) {
    return with_branch<Result>(ops_, k, []<std::size_t I>(auto& op, std::size_t j) -> Result {
      if constexpr (std::is_void_v<ResultOf<std::remove_reference_t<decltype(op)>>>) {
        branch::take(op, j);
        return Result(std::in_place_index<I>);
      } else {
        return Result(std::in_place_index<I>, branch::take(op, j));
      }
    });
  }

 private:
  std::optional<std::size_t> poll_case(std::size_t wanted) {
    std::optional<std::size_t> won;
    std::size_t offset = 0;
    const auto visit = [&](std::size_t index, auto& op) {
      if (index != wanted) {
        offset += branch::count<std::remove_reference_t<decltype(op)>>;
        return false;
      }
      if (const auto k = branch::poll(op)) won = offset + *k;
      return true;
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      static_cast<void>((visit(I, std::get<I>(ops_)) || ...));
    }(std::index_sequence_for<Ops...>{});
    return won;
  }

  std::tuple<Ops...> ops_;
};

template <Op Inner, class F>
class MapOp {
  using Given = ResultOf<Inner>;
  static auto result_of() {
    if constexpr (std::is_void_v<Given>) {
      return std::type_identity<std::invoke_result_t<F&>>{};
    } else {
      return std::type_identity<std::invoke_result_t<F&, Given>>{};
    }
  }

 public:
  using Result = typename decltype(result_of())::type;
  static constexpr std::size_t branches = branch::count<Inner>;
  static constexpr bool hints = branch::hints<Inner>;
  static constexpr bool outside = branch::outside<Inner>;

  MapOp(Inner op, F f) : op_(std::move(op)), f_(std::move(f)) {}

  std::optional<std::size_t> poll() { return branch::poll(op_); }
  ObjectId object(std::size_t k) { return branch::object(op_, k); }
  Reason reason_of(std::size_t k) { return branch::reason(op_, k); }
  Armed arm(std::size_t k, Arm& arm) { return branch::arm(op_, k, arm); }
  void disarm(std::size_t k, Arm& arm) noexcept { branch::disarm(op_, k, arm); }
  bool confirm(std::size_t k) noexcept { return branch::confirm(op_, k); }
  Result take(std::size_t k) {
    if constexpr (std::is_void_v<Given>) {
      branch::take(op_, k);
      return std::invoke(f_);
    } else {
      return std::invoke(f_, branch::take(op_, k));
    }
  }

 private:
  Inner op_;
  F f_;
};

template <class F>
class GuardOp {
  using Inner = std::invoke_result_t<F&>;
  static_assert(Op<Inner>, "guard(f): f must return an operation");

 public:
  using Result = ResultOf<Inner>;
  static constexpr std::size_t branches = branch::count<Inner>;
  static constexpr bool hints = branch::hints<Inner>;
  static constexpr bool outside = branch::outside<Inner>;

  explicit GuardOp(F f) : f_(std::move(f)) {}

  // Waiting always starts with a poll, so this is where the operation comes into being.
  std::optional<std::size_t> poll() {
    inner_.emplace(f_());
    return branch::poll(*inner_);
  }
  ObjectId object(std::size_t k) { return branch::object(*inner_, k); }
  Reason reason_of(std::size_t k) { return branch::reason(*inner_, k); }
  Armed arm(std::size_t k, Arm& arm) { return branch::arm(*inner_, k, arm); }
  void disarm(std::size_t k, Arm& arm) noexcept { branch::disarm(*inner_, k, arm); }
  bool confirm(std::size_t k) noexcept { return branch::confirm(*inner_, k); }
  Result take(std::size_t k) { return branch::take(*inner_, k); }

 private:
  F f_;
  std::optional<Inner> inner_;
};

template <class T>
class AlwaysOp {
 public:
  using Result = T;
  static constexpr Reason reason{"always"};

  explicit AlwaysOp(T value) : value_(std::move(value)) {}
  ObjectId object() const noexcept { return ObjectId::none; }
  bool try_now() const noexcept { return true; }
  Armed arm(Arm& arm) noexcept { return arm.claim() ? Armed::won : Armed::lost; }
  void disarm(Arm&) noexcept {}
  T take() { return std::move(value_); }

 private:
  T value_;
};

}  // namespace detail

template <Op... Ops>
  requires(sizeof...(Ops) > 0)
[[nodiscard]] auto race(Ops... ops) {
  return detail::RaceOp<detail::Start::chosen, Ops...>(std::move(ops)...);
}

template <Op... Ops>
  requires(sizeof...(Ops) > 0)
[[nodiscard]] auto first_of(Ops... ops) {
  return detail::RaceOp<detail::Start::first, Ops...>(std::move(ops)...);
}

template <Op O, class F>
[[nodiscard]] auto map(O op, F f) {
  return detail::MapOp<O, F>(std::move(op), std::move(f));
}

template <class F>
[[nodiscard]] auto guard(F f) {
  return detail::GuardOp<F>(std::move(f));
}

template <class T>
[[nodiscard]] auto always(T value) {
  return detail::AlwaysOp<T>(std::move(value));
}

/// Never ready. `Result` is what its case would have given.
template <class R = void>
class NeverOp {
 public:
  using Result = R;
  static constexpr Reason reason{"never"};

  ObjectId object() const noexcept { return ObjectId::none; }
  bool try_now() const noexcept { return false; }
  Armed arm(Arm&) noexcept { return Armed::waiting; }
  void disarm(Arm&) noexcept {}
  [[noreturn]] R take() { std::abort(); }
};

template <class R = void>
[[nodiscard]] NeverOp<R> never() {
  return {};
}

}  // namespace weft

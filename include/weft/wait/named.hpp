/// Names for the cases of a race, so that the code that reads its result does not count them.
///
///     auto r = perform(race(named<"job">(jobs.recv_op()), named<"late">(sleep_op(1s))));
///     if (r.is<"late">()) return;
///     work(r.get<"job">());
///     log("{} won", r.name());
///
/// A name that is not among the cases does not compile. Futures are named the same way
/// (sync/future.hpp).
#pragma once

#include <weft/wait/combine.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace weft {

/// A string as a template argument.
template <std::size_t N>
struct Name {
  consteval Name(const char (&text)[N]) { std::copy_n(text, N, chars); }
  [[nodiscard]] constexpr std::string_view view() const noexcept { return {chars, N - 1}; }
  char chars[N]{};
};

/// A case of a race, with its name.
template <Name name, class X>
struct Named {
  X value;
};
template <Name name, class X>
[[nodiscard]] auto named(X value) {
  return Named<name, X>{std::move(value)};
}

/// Of a race of named cases: which one won, and what it gave.
template <class Variant, Name... names>
class Raced {
 public:
  explicit Raced(Variant value) : value_(std::move(value)) {}

  [[nodiscard]] std::size_t index() const noexcept { return value_.index(); }
  [[nodiscard]] std::string_view name() const noexcept { return all_[index()]; }
  template <Name wanted>
  [[nodiscard]] bool is() const noexcept {
    return index() == index_of<wanted>();
  }
  /// Throws std::bad_variant_access if another one has won.
  template <Name wanted>
  [[nodiscard]] decltype(auto) get() & {
    return std::get<index_of<wanted>()>(value_);
  }
  template <Name wanted>
  [[nodiscard]] decltype(auto) get() && {
    return std::get<index_of<wanted>()>(std::move(value_));
  }
  template <Name wanted>
  [[nodiscard]] decltype(auto) get() const& {
    return std::get<index_of<wanted>()>(value_);
  }
  [[nodiscard]] Variant& value() noexcept { return value_; }

 private:
  static constexpr std::array<std::string_view, sizeof...(names)> all_{names.view()...};

  template <Name wanted>
  static consteval std::size_t index_of() {
    constexpr auto found = std::find(all_.begin(), all_.end(), wanted.view());
    static_assert(found != all_.end(), "no case of this race has that name");
    return static_cast<std::size_t>(found - all_.begin());
  }
  static consteval bool all_differ() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      if (std::find(all_.begin() + static_cast<std::ptrdiff_t>(i) + 1, all_.end(), all_[i]) !=
          all_.end()) {
        return false;
      }
    }
    return true;
  }
  static_assert(all_differ(), "two cases of a race have the same name");

  Variant value_;
};

template <Name... names, Op... Ops>
  requires(sizeof...(Ops) > 0)
[[nodiscard]] auto race(Named<names, Ops>... cases) {
  return map(race(std::move(cases.value)...), []<class Variant>(Variant value) {
    return Raced<Variant, names...>(std::move(value));
  });
}

}  // namespace weft

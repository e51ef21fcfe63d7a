/// Watch: a value of which only the latest counts.
///
///     weft::Watch<Config> config(load());
///     config.set(changed);                                  // wakes all who watch
///
///     auto seen = config.get();                             // the value and its version
///     seen = config.changed(seen.version);                  // the next one: waits if there is
///     none auto r = select(config.changed_op(seen.version), jobs.recv_op());
///
/// Who is slow misses values in between, never the last. After close() `changed` gives what was not
/// seen yet, and then nothing.
#pragma once

#include <weft/sync/turnstile.hpp>

#include <cstdint>
#include <optional>

namespace weft {

template <class T>
class Watch : public Turnstile<Watch<T>> {
 public:
  explicit Watch(T value) : value_(std::move(value)) {}
  ~Watch() = default;

  struct Seen {
    T value;
    std::uint64_t version;
  };

  void set(T value) {
    this->change([&] {
      value_ = std::move(value);
      ++version_;
    });
  }
  /// f(T&) changes it in place. It must not wait.
  template <class F>
  void update(F f) {
    this->change([&] {
      f(value_);
      ++version_;
    });
  }
  void close() noexcept {
    this->change([&] { closed_ = true; });
  }

  [[nodiscard]] Seen get() const {
    return this->look([&] { return Seen{value_, version_}; });
  }

  static constexpr bool in_order = false;
  struct Request {
    std::uint64_t seen;
  };
  struct Changed {
    using Result = std::optional<Seen>;
    static constexpr Reason reason{"watch"};
    static Result result(Watch& watch, const Request& request) {
      Seen now = watch.get();
      if (now.version <= request.seen) return std::nullopt;
      return now;
    }
  };
  [[nodiscard]] auto changed_op(std::uint64_t seen) {
    return PassOp<Watch, Changed>(*this, {seen});
  }
  /// The latest, as soon as it is later than `seen`. Nothing: closed.
  std::optional<Seen> changed(std::uint64_t seen) { return perform(changed_op(seen)); }

 private:
  friend Turnstile<Watch>;
  [[nodiscard]] bool may_pass(const Request& request) const noexcept {
    return version_ > request.seen || closed_;
  }
  void let_pass(const Request&) noexcept {}

  T value_;
  std::uint64_t version_ = 0;
  bool closed_ = false;
};

}  // namespace weft

/// Watch: a value of which only the latest counts.
///
///     weft::Watch<Config> config(load());
///     config.set(changed);                         // wakes all who watch
///     config.update([](Config& c) { c.limit *= 2; });
///
///     auto seen = config.get();                    // *seen: the value; seen.version
///     while (auto next = config.changed(seen.version)) { seen = *next; apply(*seen); }
///     auto r = select(config.changed_op(seen.version), jobs.recv_op());
///
/// Who is slow misses values in between, never the last. After close() `changed` gives what was not
/// seen yet, and then nothing. A value that has been seen stays as it was: it is shared, not
/// copied, and never changed in place.
#pragma once

#include <weft/sync/turnstile.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace weft {

template <class T>
class Watch : public Turnstile<Watch<T>> {
 public:
  explicit Watch(T value) : value_(std::make_shared<const T>(std::move(value))) {}
  ~Watch() = default;

  struct Seen {
    std::shared_ptr<const T> value;
    std::uint64_t version;
    const T& operator*() const noexcept { return *value; }
    const T* operator->() const noexcept { return value.get(); }
  };

  void set(T value) {
    auto next = std::make_shared<const T>(std::move(value));
    this->change([&] { publish(next); });
  }
  /// f(T&) changes a copy of the latest value. It is called again if somebody else was faster.
  template <class F>
  void update(F f) {
    for (;;) {
      const Seen seen = get();
      auto next = std::make_shared<T>(*seen);
      f(*next);
      std::shared_ptr<const T> done = std::move(next);
      const bool latest = this->change([&] {
        if (version_ != seen.version) return false;
        publish(done);
        return true;
      });
      if (latest) return;
    }
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
  /// Leaves the old one to the caller: it must not die under the lock.
  void publish(std::shared_ptr<const T>& next) noexcept {
    value_.swap(next);
    ++version_;
  }

  std::shared_ptr<const T> value_;
  std::uint64_t version_ = 0;
  bool closed_ = false;
};

}  // namespace weft

/// Durations and instants. An instant is a count of nanoseconds on the clock of one Io; whether
/// that clock is the machine's or a virtual one is the Io's business, and there is no way to read a
/// clock without an Io.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <limits>

namespace weft {

using Duration = std::chrono::nanoseconds;

class Instant {
 public:
  constexpr Instant() = default;
  constexpr explicit Instant(Duration since_epoch) : ns_(since_epoch.count()) {}

  /// Later than every other instant: "no deadline".
  static constexpr Instant never() {
    return Instant(Duration(std::numeric_limits<std::int64_t>::max()));
  }

  [[nodiscard]] constexpr std::int64_t ns() const { return ns_; }
  [[nodiscard]] constexpr bool is_never() const { return *this == never(); }

  /// Saturates: an instant plus a very long duration is never().
  friend constexpr Instant operator+(Instant instant, Duration d) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(instant.ns_, d.count(), &sum)) {
      return d.count() > 0 ? never() : Instant(Duration(std::numeric_limits<std::int64_t>::min()));
    }
    return Instant(Duration(sum));
  }
  friend constexpr Duration operator-(Instant a, Instant b) { return Duration(a.ns_ - b.ns_); }
  friend constexpr auto operator<=>(Instant, Instant) = default;

 private:
  std::int64_t ns_ = 0;
};

}  // namespace weft

#include <weft/base/time.hpp>

#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace std::chrono_literals;

constexpr Instant earliest{Duration(std::numeric_limits<std::int64_t>::min())};

TEST(Time, AddingSaturatesAtBothEnds) {
  static_assert(Instant::never() + 1ns == Instant::never());
  static_assert(Instant::never() + Duration::max() == Instant::never());
  static_assert(Instant(1ns) + Duration::max() == Instant::never());
  static_assert(Instant(0ns) + Duration::max() == Instant::never());
  static_assert((Instant(-1ns) + Duration::max()).ns() == Duration::max().count() - 1);
  static_assert(earliest + Duration(-1) == earliest);
  static_assert(Instant(-2ns) + Duration::min() == earliest);
  static_assert(Instant(0ns) + Duration::min() == earliest);
}

TEST(Time, OrdinaryArithmetic) {
  static_assert(Instant(5ms) + 3ms == Instant(8ms));
  static_assert(Instant(5ms) + -3ms == Instant(2ms));
  static_assert(Instant(5ms) - Instant(3ms) == 2ms);
  static_assert(Instant(3ms) - Instant(5ms) == -2ms);
  static_assert(Instant{} == Instant(0ns));
  static_assert(Instant(7ns).ns() == 7);
}

TEST(Time, NeverIsLaterThanEverything) {
  static_assert(Instant::never().is_never());
  static_assert(!Instant{}.is_never());
  static_assert(Instant(Duration::max() - 1ns) < Instant::never());
  static_assert(earliest < Instant{});
  static_assert(Instant(-1ns) < Instant(0ns));
}

}  // namespace
}  // namespace weft

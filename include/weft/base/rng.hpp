/// Small seeded generators. Both are fixed for ever: the same seed gives the same sequence on every
/// machine, compiler and release, because recorded seeds must stay meaningful.
#pragma once

#include <cstdint>

namespace weft {

/// Spreads a seed: neighbouring seeds give unrelated values (splitmix64).
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// xorshift64*: one word of state, never zero.
class Rng {
 public:
  constexpr explicit Rng(std::uint64_t seed) : state_(mix(seed)) {
    if (state_ == 0) state_ = 1;
  }

  constexpr std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1dULL;
  }

  /// Uniform in [0, n), n > 0, by multiplication (no division, bias below 2^-32 for n below 2^32).
  constexpr std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>(((next() >> 32) * n) >> 32);
  }

 private:
  std::uint64_t state_;
};

}  // namespace weft

/// A histogram of latencies with buckets of constant relative width: adding is a few instructions,
/// and a percentile is right within 1/32 of its value.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace weft::bench {

class Latency {
 public:
  void add(std::uint64_t ns) {
    ++buckets_[bucket_of(ns)];
    ++count_;
  }

  [[nodiscard]] std::uint64_t count() const { return count_; }

  /// The lower end of the bucket in which the given fraction of all values is reached; 0 if empty.
  [[nodiscard]] std::uint64_t percentile_ns(double fraction) const {
    const auto wanted = static_cast<std::uint64_t>(static_cast<double>(count_) * fraction);
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen > wanted) return lower_end(i);
    }
    return 0;
  }

 private:
  static constexpr unsigned sub_bits = 5;
  static constexpr std::uint64_t sub_count = std::uint64_t{1} << sub_bits;

  // Values below 2 * sub_count have a bucket each; above, every power of two is cut into
  // sub_count buckets. The two meet without a gap.
  static std::size_t bucket_of(std::uint64_t ns) {
    if (ns < sub_count) return ns;
    const auto shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - sub_bits;
    return (shift << sub_bits) + (ns >> shift);
  }

  static std::uint64_t lower_end(std::size_t bucket) {
    if (bucket < 2 * sub_count) return bucket;
    const std::size_t shift = (bucket >> sub_bits) - 1;
    return (sub_count + bucket % sub_count) << shift;
  }

  std::array<std::uint64_t, (64 - sub_bits + 1) << sub_bits> buckets_{};
  std::uint64_t count_ = 0;
};

}  // namespace weft::bench

// Sort: divide and conquer on every core. A fork is a plain call, unless another worker has time.
#include <weft/weft.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

namespace {

void quick_sort(std::span<std::uint32_t> values) {
  if (values.size() < 512) {
    std::ranges::sort(values);
    return;
  }
  const auto small = values.first(values.size() / 2);
  const auto large = values.subspan(small.size());
  std::ranges::nth_element(values, large.begin());
  weft::both([&] { quick_sort(small); }, [&] { quick_sort(large); });
}

}  // namespace

int main() {
  std::vector<std::uint32_t> values(1'000'000);
  std::uint32_t number = 1;
  for (auto& value : values) value = number = number * 1'664'525 + 1'013'904'223;

  weft::Pool pool({.report_stuck_after = weft::Duration::zero()});  // it computes, and is meant to
  pool.run([&] {
    const weft::Instant start = weft::now();
    quick_sort(values);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(weft::now() - start);
    std::printf("a million numbers in %lld ms\n", static_cast<long long>(ms.count()));
  });
  const bool sorted = std::ranges::is_sorted(values);
  std::printf("on %zu worker(s); %s\n", pool.workers(), sorted ? "sorted" : "not sorted");
  return sorted ? 0 : 1;
}

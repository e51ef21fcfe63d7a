// Sort: divide and conquer on every core. A fork is a plain call, unless another worker has time.
#include <weft/weft.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <span>
#include <vector>

namespace {

void merge_sort(std::span<std::uint32_t> values) {
  if (values.size() < 512) {
    std::ranges::sort(values);
    return;
  }
  const auto front = values.first(values.size() / 2);
  const auto back = values.subspan(front.size());
  weft::both([&] { merge_sort(front); }, [&] { merge_sort(back); });
  std::ranges::inplace_merge(values, values.begin() + static_cast<std::ptrdiff_t>(front.size()));
}

}  // namespace

int main() {
  std::vector<std::uint32_t> values(1'000'000);
  std::uint32_t number = 1;
  for (auto& value : values) value = number = number * 1'664'525 + 1'013'904'223;

  weft::Pool pool;
  pool.run([&] {
    const weft::Instant start = weft::now();
    merge_sort(values);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(weft::now() - start);
    std::printf("a million numbers in %lld ms\n", static_cast<long long>(ms.count()));
  });
  const bool sorted = std::ranges::is_sorted(values);
  std::printf("on %zu worker(s); %s\n", pool.workers(), sorted ? "sorted" : "not sorted");
  return sorted ? 0 : 1;
}

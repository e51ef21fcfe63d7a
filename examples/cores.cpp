// Cores: a tree of tasks on every core. Ten children each, a million leaves; each sums its part.
#include <weft/weft.hpp>

#include <array>
#include <cstdio>

namespace {

std::int64_t sum(std::int64_t first, std::int64_t count) {
  if (count == 1) return first;
  weft::Scope scope;
  std::array<weft::JoinHandle<std::int64_t>, 10> parts;
  for (auto& part : parts) {
    part = scope.spawn([first, count] { return sum(first, count / 10); });
    first += count / 10;
  }
  std::int64_t total = 0;
  for (auto& part : parts) total += part.get();
  return total;
}

}  // namespace

int main() {
  weft::Pool pool;
  const std::int64_t total = pool.run([] {
    const weft::Instant start = weft::now();
    const std::int64_t result = sum(0, 1'000'000);
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(weft::now() - start);
    std::printf("a million fibers in %lld ms\n", static_cast<long long>(ms.count()));
    return result;
  });
  std::printf("on %zu worker(s), the sum is %lld\n", pool.workers(), static_cast<long long>(total));
  return total == 499'999'500'000 ? 0 : 1;
}

// Trees of plain calls: what forking and joining would cost if it cost nothing. Two workers are two
// threads that take one branch, or half of the branches, each.
#include "limit.hpp"

#include <array>
#include <thread>
#include <utility>

namespace limit {

namespace {

using namespace suite;

[[gnu::noinline]] int fib_of(int n) {
  asm volatile("");  // or the compiler remembers what it has called before
  return n < 2 ? n : fib_of(n - 1) + fib_of(n - 2);
}
Result fib(const Run& run) {
  const auto n = static_cast<int>(run.size);
  int result = 0;
  int next = 1;
  for (int i = 0; i < n; ++i) result = std::exchange(next, result + next);
  const auto start = Clock::now();
  int got = 0;
  if (run.workers == 1) {
    got = fib_of(n);
  } else {
    int right = 0;
    std::jthread other([&] { right = fib_of(n - 2); });
    got = fib_of(n - 1);
    other.join();
    got += right;
  }
  const double ns = ns_since(start);
  expect(got == result, "the tree's result");
  return ns / (next - 1);
}

[[gnu::noinline]] std::int64_t skynet_of(std::int64_t number, std::int64_t leaves) {
  asm volatile("");
  if (leaves == 1) return number;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < 10; ++i) sum += skynet_of(number + i * leaves / 10, leaves / 10);
  return sum;
}
Result skynet(const Run& run) {
  const auto leaves = static_cast<std::int64_t>(run.size);
  const auto branches = [&](std::int64_t first, std::int64_t last) {
    std::int64_t sum = 0;
    for (std::int64_t i = first; i < last; ++i) sum += skynet_of(i * leaves / 10, leaves / 10);
    return sum;
  };
  const auto start = Clock::now();
  std::int64_t sum = 0;
  if (run.workers == 1) {
    sum = branches(0, 10);
  } else {
    std::int64_t half = 0;
    std::jthread other([&] { half = branches(5, 10); });
    sum = branches(0, 5);
    other.join();
    sum += half;
  }
  const double ms = ms_since(start);
  expect(sum == leaves * (leaves - 1) / 2, "the tree's result");
  return ms;
}

constexpr std::array benchmarks{
    Benchmark{"fib", "ns/call", 40, &fib},
    Benchmark{"skynet_1m", "ms", 1'000'000, &skynet},
};

}  // namespace

std::span<const Benchmark> calls() {
  return benchmarks;
}

}  // namespace limit

// With the least that a switch between stacks can do: yielding in a fixed circle, starting
// something on a stack that lies ready, handing over a value.
#include "limit.hpp"
#include "stack/bare_switch.hpp"

#include <array>
#include <cstdint>
#include <memory>

namespace limit {

#if defined(__x86_64__)

namespace {

using namespace suite;

using bare::Context;
using bare::jump;

class Stack {
 public:
  /// A context that starts `entry`, which never returns.
  Context start(void (*entry)()) {
    const auto top = reinterpret_cast<std::uintptr_t>(bytes_.get()) + size;
    // As after a call: the stack pointer is 8 below a multiple of 16.
    return {reinterpret_cast<void*>((top & ~std::uintptr_t{15}) - 72), nullptr,
            reinterpret_cast<void*>(entry)};
  }

 private:
  static constexpr std::size_t size = 16 << 10;
  std::unique_ptr<char[]> bytes_ = std::make_unique<char[]>(size);
};

// One thread uses these, and functions that start on a new stack take no arguments.
constexpr std::size_t most = 101;
std::array<Context, most> ring;
std::size_t ring_size = 0;
std::size_t at = 0;

void next_in_ring() {
  Context& from = ring[at];
  at = at + 1 == ring_size ? 0 : at + 1;
  jump(from, ring[at]);
}

/// So many contexts go round; this thread is the first.
template <std::size_t contexts>
Result go_round(const Run& run) {
  std::array<Stack, contexts - 1> stacks;
  ring_size = contexts;
  at = 0;
  for (std::size_t i = 1; i < contexts; ++i) {
    ring[i] = stacks[i - 1].start([] {
      for (;;) next_in_ring();
    });
  }
  const auto start = Clock::now();
  for (std::size_t i = 0; i < run.size / contexts; ++i) next_in_ring();
  return per(start, run.size);
}

Context here;
Context there;
volatile std::size_t slot;

Result two_way(const Run& run) {
  Stack stack;
  there = stack.start([] {
    for (;;) jump(there, here);
  });
  const auto start = Clock::now();
  for (std::size_t i = 0; i < run.size / 2; ++i) jump(here, there);
  return per(start, run.size);
}

Result spawn_join(const Run& run) {
  Stack stack;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < run.size; ++i) {
    there = stack.start([] { jump(there, here); });
    jump(here, there);
  }
  return per(start, run.size);
}

Result pingpong(const Run& run) {
  Stack stack;
  there = stack.start([] {
    for (;;) {
      slot = slot + 1;
      jump(there, here);
    }
  });
  slot = 0;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < run.size; ++i) jump(here, there);
  const double ns = per(start, run.size);
  expect(slot == run.size, "an answer is missing");
  return ns;
}

constexpr std::array benchmarks{
    Benchmark{"switch", "ns", 50'000'000, &two_way},
    Benchmark{"yield", "ns", 50'000'000, &go_round<2>},
    Benchmark{"yield_100", "ns", 50'000'000, &go_round<100>},
    Benchmark{"spawn_join", "ns", 20'000'000, &spawn_join},
    Benchmark{"chan_pingpong", "ns", 20'000'000, &pingpong},
};

}  // namespace

std::span<const Benchmark> switches() {
  return benchmarks;
}

#else

std::span<const suite::Benchmark> switches() {
  return {};  // written for one processor only
}

#endif

}  // namespace limit

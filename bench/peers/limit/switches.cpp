// Three words and a jump: the least that a switch between stacks can do. With them: yielding in a
// fixed circle, starting something on a stack that lies ready, handing over a value.
#include "limit.hpp"

#include <array>
#include <cstdint>
#include <memory>

namespace limit {

#if defined(__x86_64__)

namespace {

using namespace suite;

struct Context {
  void* sp;
  void* fp;
  void* pc;
};

[[gnu::always_inline]] inline void jump(Context& from, Context& to) {
  Context* save = &from;
  Context* load = &to;
  asm volatile(
      "leaq 1f(%%rip), %%rax\n\t"
      "movq %%rsp, 0(%0)\n\tmovq %%rbp, 8(%0)\n\tmovq %%rax, 16(%0)\n\t"
      "movq 0(%1), %%rsp\n\tmovq 8(%1), %%rbp\n\tjmpq *16(%1)\n1:\n\t"
      : "+D"(save), "+S"(load)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory",
        "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
        "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}

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

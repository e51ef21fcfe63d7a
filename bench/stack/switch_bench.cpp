// What one switch costs, against two references written in assembly here:
//   bare_minimal  three words and a jump: the least that any switch can do
//   bare_abi      what the ABI says a switch must keep, literally: six registers, MXCSR, x87
//   control word
// Ours: `context` is the bare switch, `strand` adds exception state and floating-point control.
#include <weft/stack/stack_pool.hpp>
#include <weft/stack/strand.hpp>

#include "stack/bare_switch.hpp"

#include <benchmark/benchmark.h>

extern "C" {
void bare_abi_switch(void** save_sp, void* load_sp);
}

asm(R"(
    .text
    .globl bare_abi_switch
    .type bare_abi_switch, @function
bare_abi_switch:
    .cfi_startproc
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    leaq -8(%rsp), %rsp
    stmxcsr (%rsp)
    fnstcw 4(%rsp)
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    ldmxcsr (%rsp)
    fldcw 4(%rsp)
    leaq 8(%rsp), %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmpq *%rcx
    .cfi_endproc
    .size bare_abi_switch, . - bare_abi_switch
)");

namespace {

using namespace weft::stack;

StackPool& pool() {
  static StackPool stacks;
  return stacks;
}

// Each benchmark makes two switches per iteration and reports the time of one.
void finish(benchmark::State& state, Stack stack) {
  state.SetItemsProcessed(2 * state.iterations());
  pool().give(stack);
}

bare::Context minimal_here, minimal_there;

void bare_minimal(benchmark::State& state) {
  const Stack stack = pool().take();
  auto entry = +[] {
    for (;;) bare::jump(minimal_there, minimal_here);
  };
  minimal_there = {stack.top() - 72, nullptr, reinterpret_cast<void*>(entry)};
  for (auto _ : state) bare::jump(minimal_here, minimal_there);
  finish(state, stack);
}
BENCHMARK(bare_minimal);

void* abi_here;
void* abi_there;

void bare_abi(benchmark::State& state) {
  const Stack stack = pool().take();
  auto entry = +[] {
    for (;;) bare_abi_switch(&abi_there, abi_here);
  };
  auto** words = reinterpret_cast<void**>(stack.top() - 128);
  const FloatControl control = read_float_control();
  auto* saved = reinterpret_cast<std::uint32_t*>(words);
  saved[0] = control.mxcsr;
  saved[1] = control.x87;
  words[7] = reinterpret_cast<void*>(entry);
  abi_there = words;
  for (auto _ : state) bare_abi_switch(&abi_here, abi_there);
  finish(state, stack);
}
BENCHMARK(bare_abi);

Context context_here, context_there;

void context(benchmark::State& state) {
  const Stack stack = pool().take();
  context_there = make_context(stack.top(), [](void*) {
    for (;;) switch_context(context_there, context_here, nullptr);
  });
  for (auto _ : state) switch_context(context_here, context_there, nullptr);
  finish(state, stack);
}
BENCHMARK(context);

Strand strand_here, strand_there;
ThreadState this_thread;

void strand(benchmark::State& state) {
  const Stack stack = pool().take();
  this_thread = ThreadState::capture();
  strand_there.context = make_context(stack.top(), [](void*) {
    for (;;) switch_strand(strand_there, strand_here, this_thread, nullptr);
  });
  for (auto _ : state) switch_strand(strand_here, strand_there, this_thread, nullptr);
  finish(state, stack);
}
BENCHMARK(strand);

}  // namespace

BENCHMARK_MAIN();

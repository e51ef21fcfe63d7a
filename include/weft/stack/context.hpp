/// The bare context switch: three words saved, three loaded, one jump.
///
/// `switch_context(from, to, argument)` saves where the caller is into `from` and continues `to`;
/// it returns when somebody switches back to `from`, with the argument of that switch. The clobber
/// list makes the compiler save exactly those registers that are live at this place; only the stack
/// pointer, the frame pointer (which cannot be clobbered) and the address to continue at are saved
/// here. Continuing by an indirect jump rather than `ret` keeps the return predictor out of it (2.3
/// ns against 12 ns on Ice Lake).
///
/// Nothing is pushed, so the red zone stays intact. Unwinders see a parked context as the function
/// that called the switch, at its label; a fresh context starts in `weft_context_entry`, whose
/// unwind information says that nothing lies below.
///
/// Not here: exception state, floating-point control words, sanitizers. See strand.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::stack {

struct Context {
  void* sp = nullptr;
  void* fp = nullptr;
  void* pc = nullptr;
};

/// A context that will call `entry(argument of the first switch)` on the stack that ends at `top`.
/// `entry` never returns.
[[nodiscard]] Context make_context(void* top, void (*entry)(void*)) noexcept;

#if defined(__x86_64__)

#if defined(__AVX512F__)
#define WEFT_AVX512_CLOBBERS                                                                    \
  , "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",   \
      "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5", \
      "k6", "k7"
#else
#define WEFT_AVX512_CLOBBERS
#endif

[[gnu::always_inline]] inline void* switch_context(Context& from, const Context& to,
                                                   void* argument) noexcept {
  Context* save = &from;
  const Context* load = &to;
  asm volatile(
      "leaq 1f(%%rip), %%rax\n\t"
      "movq %%rsp, 0(%[save])\n\t"
      "movq %%rbp, 8(%[save])\n\t"
      "movq %%rax, 16(%[save])\n\t"
      "movq 0(%[load]), %%rsp\n\t"
      "movq 8(%[load]), %%rbp\n\t"
      "jmpq *16(%[load])\n"
      "1:\n\t"
      : [save] "+D"(save), [load] "+S"(load), [argument] "+d"(argument)
      :
      : "rax", "rbx", "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc",
        "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)", "st(3)", "st(4)",
        "st(5)", "st(6)", "st(7)" WEFT_AVX512_CLOBBERS);
  return argument;
}
#undef WEFT_AVX512_CLOBBERS

#elif defined(__aarch64__)

[[gnu::always_inline]] inline void* switch_context(Context& from, const Context& to,
                                                   void* argument) noexcept {
  register Context* save asm("x0") = &from;
  register const Context* load asm("x1") = &to;
  register void* passed asm("x2") = argument;
  asm volatile(
      "adr x9, 1f\n\t"
      "mov x10, sp\n\t"
      "stp x10, x29, [x0]\n\t"
      "str x9, [x0, #16]\n\t"
      "ldp x10, x29, [x1]\n\t"
      "ldr x9, [x1, #16]\n\t"
      "mov sp, x10\n\t"
      "br x9\n"
      "1: hint #36\n\t"  // bti j: a valid target of the jump where branch targets are enforced
      : "+r"(save), "+r"(load), "+r"(passed)
      :
      : "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16",
        "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30",
        "memory", "cc", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
        "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
        "v25", "v26", "v27", "v28", "v29", "v30", "v31");
  return passed;
}

#else
#error "weft has no context switch for this architecture yet: x86-64 and aarch64 are supported"
#endif

#if defined(__x86_64__)
/// A switch for the end of a function: whoever switches back to `from`, with an argument, calls
/// arrived(argument) there and then goes on in the caller's caller; by a jump as well, where a
/// function with a switch in its middle would return. No float control is looked at.
extern "C" void weft_switch_away(Context& from, const Context& to, void* argument,
                                 void (*arrived)(void*)) noexcept;
#endif

}  // namespace weft::stack

/// Three words and a jump: the least that a switch between stacks can do.
#pragma once

#if defined(__x86_64__)

namespace bare {

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

}  // namespace bare

#endif

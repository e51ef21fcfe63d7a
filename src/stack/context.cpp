#include <weft/stack/context.hpp>

// The first instructions of every fresh context: the function to call lies at the top of the stack,
// the argument comes in the register that switch_context passes it in. The return address is
// declared undefined, which is how unwinders (gdb, perf, C++ exceptions, backtrace) know that this
// is the end.
//
// And weft_switch_away, of which context.hpp tells. Its frame is an ordinary one, to unwinders too;
// the word that keeps it aligned holds `arrived`.
#if defined(__x86_64__)
asm(R"(
    .text
    .globl weft_context_entry
    .hidden weft_context_entry
    .type weft_context_entry, @function
    .p2align 4
weft_context_entry:
    .cfi_startproc
    .cfi_undefined rip
    endbr64
    movq %rdx, %rdi
    movq (%rsp), %rax
    xorl %ebp, %ebp
    call *%rax
    ud2
    .cfi_endproc
    .size weft_context_entry, . - weft_context_entry

    .globl weft_switch_away
    .hidden weft_switch_away
    .type weft_switch_away, @function
    .p2align 4
weft_switch_away:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register rbp
    pushq %rbx
    .cfi_offset rbx, -24
    pushq %r12
    .cfi_offset r12, -32
    pushq %r13
    .cfi_offset r13, -40
    pushq %r14
    .cfi_offset r14, -48
    pushq %r15
    .cfi_offset r15, -56
    pushq %rcx
    leaq 1f(%rip), %rax
    movq %rsp, 0(%rdi)
    movq %rbp, 8(%rdi)
    movq %rax, 16(%rdi)
    movq 0(%rsi), %rsp
    movq 8(%rsi), %rbp
    jmpq *16(%rsi)
1:
    movq %rdx, %rdi
    call *(%rsp)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    .cfi_def_cfa rsp, 8
    popq %rcx
    .cfi_def_cfa_offset 0
    .cfi_register rip, rcx
    jmpq *%rcx
    .cfi_endproc
    .size weft_switch_away, . - weft_switch_away
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .globl weft_context_entry
    .hidden weft_context_entry
    .type weft_context_entry, %function
    .p2align 4
weft_context_entry:
    .cfi_startproc
    .cfi_undefined x30
    hint #36
    mov x0, x2
    ldr x9, [sp]
    mov x29, xzr
    mov x30, xzr
    blr x9
    brk #0
    .cfi_endproc
    .size weft_context_entry, . - weft_context_entry
)");
#endif

extern "C" void weft_context_entry() noexcept;

namespace weft::stack {

Context make_context(void* top, void (*entry)(void*)) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(top) & ~std::uintptr_t{15};
  auto* words = reinterpret_cast<void**>(address) - 2;
  words[0] = reinterpret_cast<void*>(entry);
  words[1] = nullptr;
  return Context{words, nullptr, reinterpret_cast<void*>(&weft_context_entry)};
}

}  // namespace weft::stack

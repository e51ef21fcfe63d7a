#include <weft/stack/context.hpp>

// The first instructions of every fresh context: the function to call lies at the top of the stack,
// the argument comes in the register that switch_context passes it in. The return address is
// declared undefined, which is how unwinders (gdb, perf, C++ exceptions, backtrace) know that this
// is the end.
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

#include <weft/stack/backtrace.hpp>

#include "stack/symbols.hpp"

#include <cstdint>
#include <cstdio>
#include <utility>

#include <unwind.h>

// weft_backtrace_bridge(context, collect) calls collect(context). During that call its unwind
// information describes not its caller but the parked context, which the first argument points to,
// kept in a slot of the bridge's frame:
//
//     stack pointer (the CFA)  = *(slot + 0)       a value: DW_CFA_def_cfa_expression
//     frame pointer            saved at slot + 8   an address: DW_CFA_expression
//     return address           saved at slot + 16
//
// The compiler saved all other registers in the parked function's own frame (switch_context
// clobbers them), where the unwinder finds them.
#if defined(__x86_64__)
asm(R"(
    .text
    .globl weft_backtrace_bridge
    .hidden weft_backtrace_bridge
    .type weft_backtrace_bridge, @function
    .p2align 4
weft_backtrace_bridge:
    .cfi_startproc
    endbr64
    pushq %rbp
    .cfi_def_cfa_offset 16
    .cfi_offset rbp, -16
    movq %rsp, %rbp
    .cfi_def_cfa_register rbp
    pushq %rdi
    subq $8, %rsp
    .cfi_remember_state
    # CFA: breg6 (rbp) -8, deref, deref
    .cfi_escape 0x0f, 4, 0x76, 0x78, 0x06, 0x06
    # register 6 (rbp), then 16 (rip): breg6 -8, deref, plus_uconst
    .cfi_escape 0x10, 6, 5, 0x76, 0x78, 0x06, 0x23, 8
    .cfi_escape 0x10, 16, 5, 0x76, 0x78, 0x06, 0x23, 16
    call *%rsi
    .cfi_restore_state
    leave
    .cfi_def_cfa rsp, 8
    .cfi_restore rbp
    ret
    .cfi_endproc
    .size weft_backtrace_bridge, . - weft_backtrace_bridge
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .globl weft_backtrace_bridge
    .hidden weft_backtrace_bridge
    .type weft_backtrace_bridge, %function
    .p2align 4
weft_backtrace_bridge:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-32]!
    .cfi_def_cfa_offset 32
    .cfi_offset x29, -32
    .cfi_offset x30, -24
    mov x29, sp
    .cfi_def_cfa_register x29
    str x0, [sp, #16]
    .cfi_remember_state
    // CFA: breg29 (x29) 16, deref, deref
    .cfi_escape 0x0f, 4, 0x8d, 16, 0x06, 0x06
    // register 29, then 30: breg29 16, deref, plus_uconst
    .cfi_escape 0x10, 29, 5, 0x8d, 16, 0x06, 0x23, 8
    .cfi_escape 0x10, 30, 5, 0x8d, 16, 0x06, 0x23, 16
    blr x1
    .cfi_restore_state
    ldp x29, x30, [sp], #32
    .cfi_restore x29
    .cfi_restore x30
    .cfi_def_cfa sp, 0
    ret
    .cfi_endproc
    .size weft_backtrace_bridge, . - weft_backtrace_bridge
)");
#endif

extern "C" void weft_backtrace_bridge(const weft::stack::Context* parked,
                                      void (*collect)(const weft::stack::Context*)) noexcept;
extern "C" void weft_context_entry() noexcept;

namespace weft::stack {
namespace {

static_assert(offsetof(Context, sp) == 0 && offsetof(Context, fp) == 8 &&
              offsetof(Context, pc) == 16);

#if defined(__x86_64__)
constexpr int frame_pointer_register = 6;
#elif defined(__aarch64__)
constexpr int frame_pointer_register = 29;
#endif

std::uintptr_t to_number(const void* p) noexcept {
  return reinterpret_cast<std::uintptr_t>(p);
}

bool is_context_entry(const void* function) noexcept {
  return function == reinterpret_cast<const void*>(&weft_context_entry);
}

/// Return addresses on the stack may be signed (-mbranch-protection); the unwinder takes care of
/// it.
void* without_signature(void* pc) noexcept {
#if defined(__aarch64__)
  register void* address asm("x30") = pc;
  asm("hint #7" : "+r"(address));  // xpaclri; does nothing where signatures do not exist
  return address;
#else
  return pc;
#endif
}

/// Derived from Context so that the bridge's argument leads back to it.
struct Walk : Context {
  std::span<void*> out;
  std::size_t count = 0;
  std::uintptr_t top = 0;       // of the parked stack
  std::uintptr_t frame_sp = 0;  // of the newest frame seen
  std::uintptr_t frame_fp = 0;
  bool arrived = false;   // at the parked stack
  bool complete = false;  // all there is, or all that `out` can hold

  Walk(const Context& parked, const Stack& stack, std::span<void*> addresses) noexcept
      : Context(parked), out(addresses), top(to_number(stack.top())) {}

  void add(void* address) noexcept {
    out[count++] = address;
    complete = count == out.size();
  }
};

_Unwind_Reason_Code see_parked_frame(_Unwind_Context* frame, void* argument) {
  auto& walk = *static_cast<Walk*>(argument);
  const std::uintptr_t frame_pc = _Unwind_GetIP(frame);
  const std::uintptr_t frame_sp = _Unwind_GetCFA(frame);
  if (!walk.arrived) {
    // The collector's own frames come first.
    if (frame_pc != to_number(walk.pc) || frame_sp != to_number(walk.sp)) return _URC_NO_REASON;
    walk.arrived = true;
  } else if (frame_pc == 0 || frame_sp < walk.frame_sp || frame_sp >= walk.top) {
    return _URC_END_OF_STACK;
  } else if (is_context_entry(reinterpret_cast<const void*>(_Unwind_GetRegionStart(frame)))) {
    walk.complete = true;
    return _URC_END_OF_STACK;
  }
  walk.frame_sp = frame_sp;
  walk.frame_fp = _Unwind_GetGR(frame, frame_pointer_register);
  walk.add(reinterpret_cast<void*>(frame_pc));
  return walk.complete ? _URC_END_OF_STACK : _URC_NO_REASON;
}

void unwind_parked(const Context* parked) {
  auto* walk = const_cast<Walk*>(static_cast<const Walk*>(parked));
  _Unwind_Backtrace(&see_parked_frame, walk);
}

/// From where the unwinder gave up. The sanitizers must not look: this is another strand's stack,
/// and a frame pointer may be anything where code was built without.
__attribute__((no_sanitize("address", "thread", "undefined"))) void follow_frame_pointers(
    Walk& walk) noexcept {
  std::uintptr_t lowest = walk.frame_sp;
  std::uintptr_t fp = walk.frame_fp;
  while (!walk.complete && fp % sizeof(void*) == 0 && fp >= lowest &&
         fp <= walk.top - 2 * sizeof(void*)) {
    void* const* frame = reinterpret_cast<void* const*>(fp);  // the caller's, the return address
    void* const pc = without_signature(frame[1]);
    if (pc == nullptr || is_context_entry(_Unwind_FindEnclosingFunction(pc))) return;
    walk.add(pc);
    lowest = fp + 2 * sizeof(void*);
    fp = to_number(frame[0]);
  }
}

struct OwnWalk {
  std::span<void*> out;
  std::size_t count = 0;
  bool first = true;
};

_Unwind_Reason_Code see_own_frame(_Unwind_Context* frame, void* argument) {
  auto& walk = *static_cast<OwnWalk*>(argument);
  if (std::exchange(walk.first, false)) return _URC_NO_REASON;  // capture_backtrace
  const auto pc = _Unwind_GetIP(frame);
  if (pc == 0 || walk.count == walk.out.size() ||
      is_context_entry(reinterpret_cast<const void*>(_Unwind_GetRegionStart(frame)))) {
    return _URC_END_OF_STACK;
  }
  walk.out[walk.count++] = reinterpret_cast<void*>(pc);
  return _URC_NO_REASON;
}

std::string hex(std::uintptr_t number) {
  char text[2 + 2 * sizeof number + 1];
  std::snprintf(text, sizeof text, "0x%zx", number);
  return text;
}

}  // namespace

std::size_t capture_backtrace(const Context& parked, const Stack& stack,
                              std::span<void*> out) noexcept {
  const bool fresh = is_context_entry(parked.pc);
  if (parked.pc == nullptr || fresh || !stack.contains(parked.sp) || out.empty()) return 0;
  Walk walk(parked, stack, out);
  weft_backtrace_bridge(&walk, &unwind_parked);
  if (!walk.arrived) {
    walk.frame_sp = to_number(parked.sp);
    walk.frame_fp = to_number(parked.fp);
    walk.add(parked.pc);
  }
  follow_frame_pointers(walk);
  return walk.count;
}

[[gnu::noinline]] std::size_t capture_backtrace(std::span<void*> out) noexcept {
  OwnWalk walk{out};
  _Unwind_Backtrace(&see_own_frame, &walk);
  return walk.count;
}

std::string describe_address(const void* pc) {
  const Place place = find_place(to_number(pc) - 1);
  if (!place.function.empty()) return place.function + "+" + hex(place.function_offset + 1);
  if (!place.module.empty()) return place.module + "+" + hex(place.module_offset + 1);
  return hex(to_number(pc));
}

std::string describe_function(const void* entry) {
  const Place place = find_place(to_number(entry));
  if (!place.function.empty()) {
    return place.function + (place.function_offset == 0 ? "" : "+" + hex(place.function_offset));
  }
  if (!place.module.empty()) return place.module + "+" + hex(place.module_offset);
  return hex(to_number(entry));
}

}  // namespace weft::stack

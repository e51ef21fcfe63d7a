/// Where is a parked strand, and how did it get there?
///
///     std::array<void*, 64> trace;
///     const auto depth = capture_backtrace(strand.context, stack, trace);
///     for (void* pc : std::span(trace).first(depth)) std::puts(describe_address(pc).c_str());
///
///     parse(std::string const&)+0x1c
///     read_all(int) [coroutine]+0x8f
///     libfoo.so+0x1234
///
/// Capturing neither allocates nor writes to the parked stack, so it works on one that is almost
/// full and leaves the high-water mark alone. The collector runs on the caller's stack below a
/// small assembly function whose unwind information tells a story: that it was called by the parked
/// strand, from the place where that is parked. The unwinder follows it across. Where code has no
/// unwind information, frame pointers are followed as long as they stay inside the stack.
///
/// Any thread may capture. Describing allocates, reads files, and blocks the thread meanwhile: it
/// is for dumps and reports, and not for signal handlers.
///
/// Rejected: running the collector on the parked stack. It needs room there, must preserve the red
/// zone, and dirties pages, of which a dump of many tasks would then leave a few per task.
#pragma once

#include <weft/stack/context.hpp>
#include <weft/stack/stack_pool.hpp>

#include <cstddef>
#include <span>
#include <string>

namespace weft::stack {

/// Return addresses of a context parked on `stack`, innermost first, beginning with the place where
/// it will continue; returns how many. None for a context that never ran. The strand must not run
/// meanwhile.
[[nodiscard]] std::size_t capture_backtrace(const Context& parked, const Stack& stack,
                                            std::span<void*> out) noexcept;
/// Of the caller.
[[nodiscard]] std::size_t capture_backtrace(std::span<void*> out) noexcept;

/// The function that a captured address lies in: "parse(int)+0x1c", static functions and lambdas
/// included; or else "libfoo.so+0x1234", or "0x1234". A captured address is where a call returns
/// to, so the byte before it decides: after a call that never returns, another function may begin.
[[nodiscard]] std::string describe_address(const void* pc);
/// The same for the address of a function rather than a place in one: "parse(int)".
[[nodiscard]] std::string describe_function(const void* entry);

}  // namespace weft::stack

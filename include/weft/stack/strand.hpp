/// A strand of control: a context plus everything else the language ties to "the current thread".
///
/// `switch_strand` moves the calling thread from one strand to another:
///   - C++ exception state. The ABI keeps a per-thread list of caught exceptions and a count of
///   uncaught ones
///     (__cxa_eh_globals). Swapped, so that a switch inside a catch block and a rethrow after
///     moving to another thread work. The address of the thread's globals is looked up once per
///     thread, not per switch (10 ns).
///   - Floating-point control. <cfenv> changes the x87 control word and MXCSR together, and reading
///   the former is
///     nearly free (0.3 ns) while reading the latter costs as much as five switches on some
///     processors (stmxcsr, 5 ns on Zen 4). So the x87 word is the tripwire: when it differs from
///     what the thread started with, both are saved, reset, and restored on return. Code that
///     changes MXCSR alone, with intrinsics, says so by `keep_float_control`. On aarch64 there is
///     one register and it is always compared.
///   - Sanitizers' idea of the current stack (sanitizer.hpp).
#pragma once

#include <weft/stack/context.hpp>
#include <weft/stack/sanitizer.hpp>

namespace weft::stack {

/// The layout of __cxa_eh_globals, fixed by the Itanium C++ ABI, section 2.2.2.
struct ExceptionState {
  void* caught = nullptr;
  std::uintptr_t uncaught = 0;  // unsigned int and padding, copied together
};

struct FloatControl {
  std::uint32_t mxcsr = 0;  // fpcr on aarch64
  std::uint16_t x87 = 0;
};
[[nodiscard]] FloatControl read_float_control() noexcept;
void write_float_control(const FloatControl& control) noexcept;

/// What a thread contributes: where its exception state is, and its floating-point control at the
/// start.
struct ThreadState {
  ExceptionState* exceptions = nullptr;
  FloatControl control{};

  /// Of the calling thread.
  static ThreadState capture() noexcept;
};

struct Strand {
  Context context;
  ExceptionState exceptions;
  FloatControl control;
  bool keep_float_control = false;  // also when only MXCSR was changed
  SanitizerStrand sanitizer;
};

namespace detail {

[[gnu::always_inline]] inline bool float_control_changed(const FloatControl& normal) noexcept {
#if defined(__x86_64__)
  std::uint16_t x87;
  asm volatile("fnstcw %0" : "=m"(x87));
  return x87 != normal.x87;
#elif defined(__aarch64__)
  std::uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  return static_cast<std::uint32_t>(fpcr) != normal.mxcsr;
#endif
}

}  // namespace detail

/// Undoes what a task that ends on this thread did to floating-point control.
inline void reset_float_control(const ThreadState& thread) noexcept {
  if (detail::float_control_changed(thread.control)) [[unlikely]] {
    write_float_control(thread.control);
  }
}

/// `thread` is the calling thread's. Returns the argument passed by whoever switches back, possibly
/// on another thread. `ends`: the strand will not be continued.
[[gnu::always_inline]] inline void* switch_strand(Strand& from, Strand& to, ThreadState& thread,
                                                  void* argument, bool ends = false) noexcept {
  from.exceptions = *thread.exceptions;
  *thread.exceptions = to.exceptions;
  const bool own_control = detail::float_control_changed(thread.control) || from.keep_float_control;
  if (own_control) [[unlikely]] {
    from.control = read_float_control();
    write_float_control(thread.control);
  }
  before_switch(from.sanitizer, to.sanitizer, ends);
  argument = switch_context(from.context, to.context, argument);
  after_switch(from.sanitizer);
  if (own_control) [[unlikely]]
    write_float_control(from.control);
  return argument;
}

/// For the end of a function, see weft_switch_away(). Not everywhere, and not if `from` has changed
/// floating-point control, which somebody must restore afterwards.
[[gnu::always_inline]] inline bool can_switch_away(const Strand& from,
                                                   const ThreadState& thread) noexcept {
#if defined(__x86_64__) && !defined(WEFT_ASAN) && !defined(WEFT_TSAN)
  return !detail::float_control_changed(thread.control) && !from.keep_float_control;
#else
  static_cast<void>(from);
  static_cast<void>(thread);
  return false;
#endif
}
[[gnu::always_inline]] inline void switch_strand_away(Strand& from, Strand& to, ThreadState& thread,
                                                      void* argument,
                                                      void (*arrived)(void*)) noexcept {
#if defined(__x86_64__)
  from.exceptions = *thread.exceptions;
  *thread.exceptions = to.exceptions;
  weft_switch_away(from.context, to.context, argument, arrived);
#else
  arrived(switch_strand(from, to, thread, argument));
#endif
}

}  // namespace weft::stack

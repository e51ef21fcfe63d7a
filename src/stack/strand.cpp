#include <weft/stack/strand.hpp>

#include <cxxabi.h>

namespace weft::stack {

static_assert(sizeof(ExceptionState) == 2 * sizeof(void*));

FloatControl read_float_control() noexcept {
  FloatControl control;
#if defined(__x86_64__)
  asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(control.mxcsr), "=m"(control.x87));
#elif defined(__aarch64__)
  std::uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  control.mxcsr = static_cast<std::uint32_t>(fpcr);
#endif
  return control;
}

void write_float_control(const FloatControl& control) noexcept {
#if defined(__x86_64__)
  asm volatile("ldmxcsr %0\n\tfldcw %1" : : "m"(control.mxcsr), "m"(control.x87));
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" : : "r"(std::uint64_t{control.mxcsr}));
#endif
}

ThreadState ThreadState::capture() noexcept {
  return ThreadState{reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals()),
                     read_float_control()};
}

}  // namespace weft::stack

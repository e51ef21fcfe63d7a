/// Tells AddressSanitizer and ThreadSanitizer about strands. Empty without them.
///
/// ASan needs the bounds of the stack that is switched to and keeps a "fake stack" per strand; TSan
/// sees every strand as a thread of its own.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define WEFT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_ASAN 1
#elif __has_feature(thread_sanitizer)
#define WEFT_TSAN 1
#endif
#endif

#if defined(WEFT_ASAN)
#include <sanitizer/common_interface_defs.h>
#elif defined(WEFT_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace weft::stack {

#if defined(WEFT_ASAN)

struct SanitizerStrand {
  void* fake_stack = nullptr;
  const void* bottom = nullptr;
  std::size_t size = 0;
};
inline void before_switch(SanitizerStrand& from, SanitizerStrand& to, bool ends) noexcept {
  __sanitizer_start_switch_fiber(ends ? nullptr : &from.fake_stack, to.bottom, to.size);
}
inline void after_switch(SanitizerStrand& now) noexcept {
  __sanitizer_finish_switch_fiber(now.fake_stack, nullptr, nullptr);
}

#elif defined(WEFT_TSAN)

struct SanitizerStrand {
  void* fiber = nullptr;
};
inline void before_switch(SanitizerStrand&, SanitizerStrand& to, bool) noexcept {
  __tsan_switch_to_fiber(to.fiber, 0);
}
inline void after_switch(SanitizerStrand&) noexcept {}

#else

struct SanitizerStrand {};
inline void before_switch(SanitizerStrand&, SanitizerStrand&, bool) noexcept {}
inline void after_switch(SanitizerStrand&) noexcept {}

#endif

/// For a strand that has ended and will begin anew.
inline void restart_strand([[maybe_unused]] SanitizerStrand& strand) noexcept {
#if defined(WEFT_ASAN)
  strand.fake_stack = nullptr;  // given up when it ended
#endif
}

/// For a new strand on the given stack, before it first runs, and after it has run for the last
/// time.
void begin_strand(SanitizerStrand& strand, const void* bottom, std::size_t size) noexcept;
void end_strand(SanitizerStrand& strand) noexcept;
/// For the strand a thread is born with.
void adopt_thread(SanitizerStrand& strand) noexcept;

}  // namespace weft::stack

/// Tells AddressSanitizer and ThreadSanitizer about strands. Empty without them.
///
/// ASan needs the bounds of the stack that is switched to and keeps a "fake stack" per strand; TSan
/// sees every strand as a thread of its own.
///
/// To TSan a switch is as good as a lock: what one strand did before it, the next may rely on. On
/// several workers that is nearly right. In a simulation, where all tasks share a thread, it would
/// order everything that ever happens, and no race could be seen. So a simulation can have it
/// otherwise (`want_races`): switches order nothing; what the runtime does on a task's strand on
/// behalf of all is not looked at (Aside); and where a task really is told something by another, by
/// being started, woken or joined, that is said (published, received).
#pragma once

#include <weft/base/sanitized.hpp>

#include <atomic>
#include <cstddef>
#include <string_view>

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
inline std::atomic<bool> races_wanted{false};
/// Only while there are no strands but threads'.
inline void want_races(bool on) noexcept {
  races_wanted.store(on);
}
inline bool races_matter() noexcept {
  return races_wanted.load(std::memory_order_relaxed);  // relaxed: see above
}
/// From here on, until as many look_again(), what this strand does is the runtime's business.
void look_aside() noexcept;
void look_again() noexcept;
/// In line: TSan must not see a function that is called on one strand and returns on another.
[[gnu::always_inline]] inline void before_switch(SanitizerStrand&, SanitizerStrand& to,
                                                 bool ends) noexcept {
  if (ends) look_again();  // a strand must not end while it is not looked at
  __tsan_switch_to_fiber(to.fiber, races_matter() ? __tsan_switch_to_fiber_no_sync : 0);
}
inline void after_switch(SanitizerStrand&) noexcept {}

class Aside {
 public:
  Aside() noexcept { look_aside(); }
  Aside(const Aside&) = delete;
  Aside& operator=(const Aside&) = delete;
  ~Aside() { look_again(); }
};
/// By which a report is to call it; if races matter.
void name_strand(const SanitizerStrand& strand, std::string_view name);
/// All that strands which have ended did, the caller may rely on, and so may all that begin from
/// now on: they can be the same to TSan, to which making one is expensive. Until then no two are.
void forget_ended_strands() noexcept;
/// What has been done so far, whoever has received this may rely on. Not while Aside.
inline void published(const void* what) noexcept {
  if (races_matter()) __tsan_release(const_cast<void*>(what));
}
inline void received(const void* what) noexcept {
  if (races_matter()) __tsan_acquire(const_cast<void*>(what));
}

#else

struct SanitizerStrand {};
inline void before_switch(SanitizerStrand&, SanitizerStrand&, bool) noexcept {}
inline void after_switch(SanitizerStrand&) noexcept {}

#endif

#if !defined(WEFT_TSAN)
inline void want_races(bool) noexcept {}
constexpr bool races_matter() noexcept {
  return false;
}
inline void look_aside() noexcept {}
inline void look_again() noexcept {}
struct Aside {
  Aside() noexcept {}  // not trivial: it is not an unused variable
};
inline void name_strand(const SanitizerStrand&, std::string_view) noexcept {}
inline void forget_ended_strands() noexcept {}
inline void published(const void*) noexcept {}
inline void received(const void*) noexcept {}
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

#include <weft/stack/sanitizer.hpp>

#if defined(WEFT_ASAN)
#include <pthread.h>
#endif

namespace weft::stack {

void begin_strand([[maybe_unused]] SanitizerStrand& strand, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] std::size_t size) noexcept {
#if defined(WEFT_ASAN)
  strand.bottom = bottom;
  strand.size = size;
#elif defined(WEFT_TSAN)
  strand.fiber = __tsan_create_fiber(0);
#endif
}

void end_strand([[maybe_unused]] SanitizerStrand& strand) noexcept {
#if defined(WEFT_TSAN)
  __tsan_destroy_fiber(strand.fiber);
  strand.fiber = nullptr;
#endif
}

void adopt_thread([[maybe_unused]] SanitizerStrand& strand) noexcept {
#if defined(WEFT_ASAN)
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return;
  void* bottom = nullptr;
  pthread_attr_getstack(&attributes, &bottom, &strand.size);
  strand.bottom = bottom;
  pthread_attr_destroy(&attributes);
#elif defined(WEFT_TSAN)
  strand.fiber = __tsan_get_current_fiber();
#endif
}

}  // namespace weft::stack

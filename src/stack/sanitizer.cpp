#include <weft/stack/sanitizer.hpp>

#include <deque>
#include <string>
#include <vector>

#if defined(WEFT_ASAN)
#include <pthread.h>
#endif

#if defined(WEFT_TSAN)
extern "C" {
// Of ThreadSanitizer, in none of its headers.
void AnnotateIgnoreReadsBegin(const char* file, int line);  // and writes
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
}
#endif

namespace weft::stack {

#if defined(WEFT_TSAN)

namespace {

/// Where races matter, of the one thread that then has strands.
struct Resting {
  std::deque<void*> ended;
  std::vector<void*> forgotten;
};
Resting& resting() {
  static Resting& all = *new Resting;
  return all;
}

}  // namespace

void forget_ended_strands() noexcept {
  auto& [ended, forgotten] = resting();
  forgotten.insert(forgotten.end(), ended.begin(), ended.end());
  ended.clear();
}

void name_strand(const SanitizerStrand& strand, std::string_view name) {
  __tsan_set_fiber_name(strand.fiber, std::string(name).c_str());
}

void look_aside() noexcept {
  if (!races_matter()) return;
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
}
void look_again() noexcept {
  if (!races_matter()) return;
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#endif

void begin_strand([[maybe_unused]] SanitizerStrand& strand, [[maybe_unused]] const void* bottom,
                  [[maybe_unused]] std::size_t size) noexcept {
#if defined(WEFT_ASAN)
  strand.bottom = bottom;
  strand.size = size;
#elif defined(WEFT_TSAN)
  // TSan knows 8,128 at a time. What needs more strands than this gets those that ended first:
  // races between the two that share one are not seen then.
  constexpr std::size_t most = 6'000;
  auto& [ended, forgotten] = resting();
  if (races_matter() && !forgotten.empty()) {
    strand.fiber = forgotten.back();
    forgotten.pop_back();
  } else if (races_matter() && ended.size() >= most) {
    strand.fiber = ended.front();
    ended.pop_front();
  } else {
    strand.fiber = __tsan_create_fiber(0);
  }
#endif
}

void end_strand([[maybe_unused]] SanitizerStrand& strand) noexcept {
#if defined(WEFT_TSAN)
  if (races_matter()) {
    resting().ended.push_back(strand.fiber);
  } else {
    __tsan_destroy_fiber(strand.fiber);
  }
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

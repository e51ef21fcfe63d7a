#include "support/allocations.hpp"

#include <weft/stack/sanitizer.hpp>
#include <weft/task/blocks.hpp>

#include <atomic>
#include <cstdlib>
#include <new>

#if !defined(WEFT_ASAN) && !defined(WEFT_TSAN)

namespace {

std::atomic<std::int64_t> live{0};

void* counted(std::size_t size, std::size_t alignment) {
  void* block = alignment <= alignof(std::max_align_t)
                    ? std::malloc(size == 0 ? 1 : size)
                    : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (block == nullptr) throw std::bad_alloc();
  live.fetch_add(1, std::memory_order_relaxed);  // relaxed: a counter
  return block;
}

void uncounted(void* block) noexcept {
  if (block == nullptr) return;
  live.fetch_sub(1, std::memory_order_relaxed);  // relaxed: a counter
  std::free(block);
}

}  // namespace

void* operator new(std::size_t size) {
  return counted(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* block) noexcept {
  uncounted(block);
}
void operator delete(void* block, std::size_t) noexcept {
  uncounted(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
  uncounted(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
  uncounted(block);
}

std::int64_t weft::test::live_allocations() noexcept {
  // relaxed: a counter
  return live.load(std::memory_order_relaxed) +
         static_cast<std::int64_t>(weft::BlockCache::in_use());
}

#else

std::int64_t weft::test::live_allocations() noexcept {
  return 0;
}

#endif

/// Recycled memory for task blocks and coroutine frames.
///
/// Each worker keeps short lists of freed blocks by size, so that spawning in a steady state does
/// not reach malloc. A block may be freed on any thread; one without a worker gives it back to
/// malloc. Blocks are plain `operator new` memory, so nothing has to be returned to where it came
/// from. Under AddressSanitizer nothing is recycled: a stale pointer must be found, not reused.
#pragma once

#include <weft/stack/sanitizer.hpp>
#include <weft/wait/wait.hpp>

#include <array>
#include <cstddef>
#include <new>

namespace weft {

class BlockCache {
 public:
  static constexpr std::size_t granule = 32;

  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  ~BlockCache();

  [[nodiscard]] void* allocate(std::size_t size) {
    const std::size_t k = class_of(size);
    if (!recycle || k > classes) return ::operator new(size);
    Shelf& shelf = shelves_[k];
    if (shelf.first == nullptr) return ::operator new(k * granule);
    Free* block = shelf.first;
    shelf.first = block->next;
    --shelf.count;
    return block;
  }
  void release(void* block, std::size_t size) noexcept {
    const std::size_t k = class_of(size);
    if (!recycle || k > classes || shelves_[k].count >= most_kept) {
      ::operator delete(block);
      return;
    }
    Shelf& shelf = shelves_[k];
    shelf.first = ::new (block) Free{shelf.first};
    ++shelf.count;
  }

 private:
#if defined(WEFT_ASAN)
  static constexpr bool recycle = false;
#else
  static constexpr bool recycle = true;
#endif
  static constexpr std::size_t classes = 32;  // up to 1 KiB
  static constexpr std::size_t most_kept = 1024;

  struct Free {
    Free* next;
  };
  struct Shelf {
    Free* first = nullptr;
    std::size_t count = 0;
  };
  static std::size_t class_of(std::size_t size) noexcept { return (size + granule - 1) / granule; }

  std::array<Shelf, classes + 1> shelves_{};
};

/// From the calling thread's worker if it has one.
[[nodiscard]] inline void* allocate_block(std::size_t size) {
  if (const Current* here = current()) return here->blocks->allocate(size);
  // The block may be released on a worker, which files it under its rounded size.
  return ::operator new((size + BlockCache::granule - 1) / BlockCache::granule *
                        BlockCache::granule);
}
inline void release_block(void* block, std::size_t size) noexcept {
  if (const Current* here = current()) {
    here->blocks->release(block, size);
  } else {
    ::operator delete(block);
  }
}

}  // namespace weft

/// Recycled memory for task blocks and coroutine frames.
///
/// Each worker keeps short lists of freed blocks by size, so that spawning in a steady state does
/// not reach malloc. A block may be freed on any thread; one without a worker gives it back to
/// malloc. Blocks are plain `operator new` memory, so nothing has to be returned to where it came
/// from. Under AddressSanitizer nothing is recycled: a stale pointer must be found, not reused.
#pragma once

#include <array>
#include <cstddef>

namespace weft {

class BlockCache {
 public:
  static constexpr std::size_t granule = 32;

  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  ~BlockCache();

  [[nodiscard]] void* allocate(std::size_t size);
  void release(void* block, std::size_t size) noexcept;

 private:
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
[[nodiscard]] void* allocate_block(std::size_t size);
void release_block(void* block, std::size_t size) noexcept;

}  // namespace weft

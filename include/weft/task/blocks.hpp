/// Recycled memory for task blocks and coroutine frames.
///
/// Each worker keeps a few freed blocks by size, so that spawning in a steady state touches nothing
/// but its own memory. Workers that free more than they allocate, and the other way round, balance
/// through a depot, to which blocks move in batches: one spawns a million tasks, another runs them.
/// Threads without a worker use the depot itself.
///
///     worker:  active ──full──▶ spare ──there is one──▶ depot ◀──▶ threads without a worker
///              active ◀─empty── spare ◀──there is none── depot ◀── new memory
///
/// Fresh memory comes from the machine in large pieces, and stays with the depot: what a program
/// has once needed for its tasks it keeps for tasks. Large blocks are malloc's. Under
/// AddressSanitizer all are: a stale pointer must be found, not reused.
///
/// Rejected: malloc for each block, with a cache of freed ones before it. A thread that frees what
/// another has allocated fights for that one's arena, and new blocks come one by one: a million
/// tasks took 1.6 times as long on one worker, and 2.1 times as long on two.
#pragma once

#include <weft/wait/wait.hpp>

#include <array>
#include <cstddef>
#include <utility>

namespace weft {

class BlockCache {
 public:
  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  ~BlockCache();

  [[nodiscard]] void* allocate(std::size_t size) {
    const std::size_t k = class_of(size);
    if (k > kept) return allocate_elsewhere(size);
    Shelf& shelf = shelves_[k];
    if (shelf.active == nullptr) refill(shelf, k);
    Free* block = shelf.active;
    shelf.active = block->next;
    --shelf.count;
    return block;
  }
  void release(void* block, std::size_t size) noexcept {
    const std::size_t k = class_of(size);
    if (k > kept) {
      release_elsewhere(block, size);
      return;
    }
    Shelf& shelf = shelves_[k];
    if (shelf.count == batch) make_room(shelf, k);
    shelf.active = ::new (block) Free{.next = shelf.active};
    ++shelf.count;
  }

  /// For threads without a worker, and for blocks that are too large.
  [[nodiscard]] static void* allocate_elsewhere(std::size_t size);
  static void release_elsewhere(void* block, std::size_t size) noexcept;

  /// Blocks that are not in the depot, among them those that workers keep.
  [[nodiscard]] static std::size_t in_use() noexcept;
  /// From the first block on, all come from malloc.
  static void keep_none() noexcept { kept = 0; }

 private:
  friend class BlockDepot;
  static constexpr std::size_t granule = 32;
  static constexpr std::size_t classes = 64;  // up to 2 KiB
  static constexpr std::size_t batch = 64;
  /// Classes that are: none where a sanitizer is to see who used which memory when.
  static std::size_t kept;

  struct Free {
    Free* next;
    Free* next_batch = nullptr;
  };
  struct Shelf {
    Free* active = nullptr;
    std::size_t count = 0;  // of active ones
    Free* spare = nullptr;  // a whole batch
  };
  static std::size_t class_of(std::size_t size) noexcept { return (size + granule - 1) / granule; }

  static void refill(Shelf& shelf, std::size_t k);
  static void make_room(Shelf& shelf, std::size_t k) noexcept;

  std::array<Shelf, classes + 1> shelves_{};
};

/// From the calling thread's worker if it has one.
[[nodiscard, gnu::always_inline]] inline void* allocate_block(std::size_t size) {
  const Current* here = current();
  return here != nullptr ? here->blocks->allocate(size) : BlockCache::allocate_elsewhere(size);
}
[[gnu::always_inline]] inline void release_block(void* block, std::size_t size) noexcept {
  if (const Current* here = current()) {
    here->blocks->release(block, size);
  } else {
    BlockCache::release_elsewhere(block, size);
  }
}

}  // namespace weft

#include <weft/task/blocks.hpp>

#include <weft/stack/sanitizer.hpp>
#include <weft/task/worker.hpp>

#include <new>

namespace weft {

namespace {
#if defined(WEFT_ASAN)
constexpr bool recycle = false;
#else
constexpr bool recycle = true;
#endif
}  // namespace

BlockCache::~BlockCache() {
  for (Shelf& shelf : shelves_) {
    while (shelf.first != nullptr) {
      Free* block = shelf.first;
      shelf.first = block->next;
      ::operator delete(block);
    }
  }
}

void* BlockCache::allocate(std::size_t size) {
  const std::size_t k = class_of(size);
  if (!recycle || k > classes) return ::operator new(size);
  Shelf& shelf = shelves_[k];
  if (shelf.first == nullptr) return ::operator new(k * granule);
  Free* block = shelf.first;
  shelf.first = block->next;
  --shelf.count;
  return block;
}

void BlockCache::release(void* block, std::size_t size) noexcept {
  const std::size_t k = class_of(size);
  if (!recycle || k > classes || shelves_[k].count >= most_kept) {
    ::operator delete(block);
    return;
  }
  Shelf& shelf = shelves_[k];
  shelf.first = ::new (block) Free{shelf.first};
  ++shelf.count;
}

void* allocate_block(std::size_t size) {
  if (Worker* worker = this_worker()) return worker->blocks().allocate(size);
  // The block may be released on a worker, which files it under its rounded size.
  return ::operator new((size + BlockCache::granule - 1) / BlockCache::granule *
                        BlockCache::granule);
}

void release_block(void* block, std::size_t size) noexcept {
  if (Worker* worker = this_worker()) {
    worker->blocks().release(block, size);
  } else {
    ::operator delete(block);
  }
}

}  // namespace weft

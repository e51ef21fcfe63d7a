#include <weft/task/blocks.hpp>

#include <weft/base/spinlock.hpp>
#include <weft/stack/sanitizer.hpp>

#include <cstdint>
#include <mutex>
#include <new>
#include <type_traits>

#include <sys/mman.h>

namespace weft {

/// What all workers share. It lives as long as the process: blocks are freed by threads that end
/// late.
class BlockDepot {
  using Free = BlockCache::Free;

 public:
  static BlockDepot& of_process() noexcept {
    static BlockDepot depot;
    static_assert(std::is_trivially_destructible_v<BlockDepot>);
    return depot;
  }

  [[nodiscard]] Free* take_batch(std::size_t k) {
    std::lock_guard guard(lock_);
    Free* const first = batch_from(k);
    in_use_ += BlockCache::batch;
    return first;
  }
  void give_batch(std::size_t k, Free* first) noexcept {
    std::lock_guard guard(lock_);
    put_away(rooms_[k], first);
    in_use_ -= BlockCache::batch;
  }
  [[nodiscard]] Free* take_one(std::size_t k) {
    std::lock_guard guard(lock_);
    Room& room = rooms_[k];
    if (room.loose == nullptr) {
      room.loose = batch_from(k);
      room.loose_count = BlockCache::batch;
    }
    Free* const block = room.loose;
    room.loose = block->next;
    --room.loose_count;
    ++in_use_;
    return block;
  }
  void give_one(std::size_t k, Free* block) noexcept {
    std::lock_guard guard(lock_);
    Room& room = rooms_[k];
    if (room.loose_count == BlockCache::batch) {
      put_away(room, std::exchange(room.loose, nullptr));
      room.loose_count = 0;
    }
    block->next = room.loose;
    room.loose = block;
    ++room.loose_count;
    --in_use_;
  }
  [[nodiscard]] std::size_t in_use() noexcept {
    std::lock_guard guard(lock_);
    return in_use_;
  }

 private:
  struct Room {
    Free* batches = nullptr;
    Free* loose = nullptr;
    std::size_t loose_count = 0;
  };
  static constexpr std::size_t piece = std::size_t{1} << 20;

  static void put_away(Room& room, Free* first) noexcept {
    first->next_batch = room.batches;
    room.batches = first;
  }
  [[nodiscard]] Free* batch_from(std::size_t k) {
    Room& room = rooms_[k];
    if (room.batches == nullptr) return carve(k * BlockCache::granule);
    Free* const first = room.batches;
    room.batches = first->next_batch;
    return first;
  }

  /// A batch of new blocks.
  [[nodiscard]] Free* carve(std::size_t size) {
    const std::size_t wanted = size * BlockCache::batch;
    if (left_ < wanted) {  // what is left of the old piece is given up: 12 % at most
      void* memory =
          ::mmap(nullptr, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
      next_ = static_cast<std::byte*>(memory);
      left_ = piece;
      mapped_ = next_;
    }
    std::byte* const begin = next_;
    map_ahead(begin + wanted);
    next_ += wanted;
    left_ -= wanted;
    Free* first = nullptr;
    for (std::size_t i = BlockCache::batch; i-- > 0;) {
      first = ::new (begin + i * size) Free{.next = first};
    }
    return first;
  }

  /// Whoever has used up so much will use more: pages come several at a time, which takes the
  /// machine a third less time than a fault for each. Where it cannot (before Linux 5.14), or will
  /// not, there are faults. Not more at a time: others wait for the lock.
  void map_ahead(std::byte* end) noexcept {
    constexpr std::size_t step = std::size_t{1} << 17;
    while (mapped_ < end) {
      if (carved_ >= step) ::madvise(mapped_, step, MADV_POPULATE_WRITE);
      mapped_ += step;
      carved_ += step;
    }
  }

  Spinlock lock_;
  std::array<Room, BlockCache::classes + 1> rooms_{};
  std::byte* next_ = nullptr;
  std::size_t left_ = 0;
  std::byte* mapped_ = nullptr;  // of the current piece, up to here
  std::size_t carved_ = 0;       // about, of all
  std::size_t in_use_ = 0;
};

#if defined(WEFT_ASAN)
std::size_t BlockCache::kept = 0;
#else
std::size_t BlockCache::kept = BlockCache::classes;
#endif

BlockCache::~BlockCache() {
  BlockDepot& depot = BlockDepot::of_process();
  for (std::size_t k = 1; k <= classes; ++k) {
    Shelf& shelf = shelves_[k];
    if (shelf.spare != nullptr) depot.give_batch(k, shelf.spare);
    while (Free* block = shelf.active) {
      shelf.active = block->next;
      depot.give_one(k, block);
    }
  }
}

void BlockCache::refill(Shelf& shelf, std::size_t k) {
  shelf.active = shelf.spare != nullptr ? std::exchange(shelf.spare, nullptr)
                                        : BlockDepot::of_process().take_batch(k);
  shelf.count = batch;
}

void BlockCache::make_room(Shelf& shelf, std::size_t k) noexcept {
  if (shelf.spare != nullptr) BlockDepot::of_process().give_batch(k, shelf.spare);
  shelf.spare = std::exchange(shelf.active, nullptr);
  shelf.count = 0;
}

void* BlockCache::allocate_elsewhere(std::size_t size) {
  const std::size_t k = class_of(size);
  return k > kept ? ::operator new(size) : BlockDepot::of_process().take_one(k);
}

void BlockCache::release_elsewhere(void* block, std::size_t size) noexcept {
  const std::size_t k = class_of(size);
  if (k > kept) {
    ::operator delete(block);
  } else {
    BlockDepot::of_process().give_one(k, ::new (block) Free{.next = nullptr});
  }
}

std::size_t BlockCache::in_use() noexcept {
  return BlockDepot::of_process().in_use();
}

}  // namespace weft

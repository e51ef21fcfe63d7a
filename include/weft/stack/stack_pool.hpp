/// A pool of guarded, demand-paged stacks.
///
///     weft::stack::StackPool pool({.size = 256 * 1024});
///     weft::stack::Stack stack = pool.take();   // take(1 << 20) for a task that needs more
///     start_on(stack.top());                    // grows down towards stack.bottom()
///     pool.give(stack);                         // from another stack, when nothing runs on it
///
/// Address space is reserved in chunks that grow geometrically, and memory is paid for page by page
/// as it is touched: a parked task costs the one page it stands on. A slot is a guard followed by a
/// stack:
///
///     low  [ spacer 1 page | guard 64 KiB | stack, a power of two ]  high
///           \____ traps on any access ____/ \ bottom()      top() /
///
/// The guard is installed when a slot is first handed out, and stays. There are two ways to do it.
/// MADV_GUARD_INSTALL (Linux 6.13) marks page table entries, so a million stacks stay one mapping.
/// mprotect works everywhere and costs two mappings a stack, of which vm.max_map_count allows about
/// 32,000. The pool tries the first on a real page once and believes only what it sees. The guard
/// is 64 KiB wide so that a large local array trips it even in code compiled without
/// -fstack-clash-protection. The spacer is guarded too; it makes the distance between two stacks an
/// odd number of pages, because at an even one the top pages of all stacks would compete for a few
/// sets of the TLB (with 1,000 stacks, 21 ns an access, not 7).
///
/// Stacks are reused last in, first out, so that the next task finds warm caches. Only so many
/// given-back stacks keep their pages (StackOptions::keep). When there is one too many, those of
/// the newest 64 (a sixteenth, if `keep` is small) return to the kernel with one call: a call
/// interrupts all processors that run threads of this process, and one for each stack would take 13
/// us, not 1.
///
/// take, give and stats may be called by any thread. high_water and clean concern a stack that the
/// caller has taken. The pool must outlive its stacks (checked).
///
/// Rejected: bookkeeping inside free stacks, which would touch pages (it is 16 bytes a slot,
/// elsewhere); one mapping per stack, which makes the kernel's limit ours even with cheap guards; a
/// cache per worker, as an uncontended lock costs less than the first cache miss on a cold stack.
#pragma once

#include <weft/base/spinlock.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace weft::stack {

inline constexpr std::size_t min_stack_size = std::size_t{16} << 10;
inline constexpr std::size_t max_stack_size = std::size_t{1} << 30;
inline constexpr std::size_t guard_size = std::size_t{64} << 10;

/// The size of a stack when nobody says otherwise: WEFT_STACK_SIZE ("65536", "64k", "1m", "1g"), or
/// else 256 KiB. Throws std::invalid_argument if the variable is malformed or out of bounds.
[[nodiscard]] std::size_t default_stack_size();

/// How the pages below a stack are made to trap.
enum class Guard : std::uint8_t {
  automatic,  ///< WEFT_STACK_GUARD (madvise or mprotect), or else the best that works here
  madvise,    ///< MADV_GUARD_INSTALL
  mprotect,   ///< PROT_NONE
};

[[nodiscard]] const char* to_string(Guard guard) noexcept;

struct StackOptions {
  std::size_t size = 0;  ///< of a stack taken without a size; 0: default_stack_size()
  Guard guard = Guard::automatic;
  std::size_t keep = 1024;  ///< free stacks per size that keep their pages, at most 256 MiB in all
};

/// Names a stack; owns nothing. Empty by default.
class Stack {
 public:
  Stack() = default;
  /// A stack from elsewhere (a thread's, a test's). Only a pool's own stacks can be given to it.
  Stack(std::byte* bottom, std::size_t size) noexcept
      : bottom_(bottom), size_(static_cast<std::uint32_t>(size)) {}

  [[nodiscard]] bool empty() const noexcept { return bottom_ == nullptr; }
  /// The lowest usable byte.
  [[nodiscard]] std::byte* bottom() const noexcept { return bottom_; }
  /// One past the highest usable byte; page aligned.
  [[nodiscard]] std::byte* top() const noexcept { return bottom_ + size_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// In its pool's numbering; of a stack from elsewhere it means nothing.
  [[nodiscard]] std::uint32_t number() const noexcept { return slot_; }
  [[nodiscard]] std::byte* guard_bottom() const noexcept { return bottom_ - guard_size; }

  [[nodiscard]] bool contains(const void* address) const noexcept {
    return to_number(address) - to_number(bottom_) < size_;
  }
  /// Is this an address that only an overflow of this stack would touch?
  [[nodiscard]] bool guards(const void* address) const noexcept {
    return !empty() && to_number(bottom_) - to_number(address) - 1 < guard_size;
  }

  friend bool operator==(const Stack&, const Stack&) = default;

 private:
  friend class StackPool;
  static std::uintptr_t to_number(const void* p) noexcept {
    return reinterpret_cast<std::uintptr_t>(p);
  }

  std::byte* bottom_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t slot_ = ~std::uint32_t{0};
};

struct StackStats {
  std::size_t reserved = 0;  ///< slots with address space
  std::size_t in_use = 0;    ///< taken and not given back
  std::size_t cached = 0;    ///< free, with their pages
  std::size_t bytes = 0;     ///< of address space
  Guard guard = Guard::automatic;
  std::string guard_reason;  ///< why this one, for humans
};

class StackPool {
 public:
  /// Throws std::invalid_argument for a bad size or environment, std::system_error if
  /// Guard::madvise is asked for and does not work here.
  explicit StackPool(StackOptions options = {});
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool();

  /// At least `size` bytes (0: the pool's default), rounded up to a power of two from
  /// min_stack_size on. The contents are arbitrary. Throws std::invalid_argument above
  /// max_stack_size, and std::system_error if the system has no room; the pool is then as before
  /// and works on.
  [[nodiscard]] Stack take(std::size_t size = 0);
  /// Does nothing for an empty stack. The stack must be from take() and not given back since
  /// (checked).
  void give(Stack stack) noexcept;

  /// Bytes used, counted from the top, since the memory was last clean: fresh or after clean().
  /// Right to the byte as long as the lowest byte used is not zero; a lowest page of nothing but
  /// zeros counts whole. Pages that were swapped out are not seen. On the caller's own stack it
  /// counts itself.
  [[nodiscard]] std::size_t high_water(const Stack& stack) const noexcept;
  /// Forgets the contents, and returns the memory to the kernel.
  void clean(const Stack& stack) noexcept;

  [[nodiscard]] std::size_t default_size() const noexcept { return default_size_; }
  [[nodiscard]] StackStats stats() const;

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr unsigned class_count = 17;  // 16 KiB, 32 KiB, ... 1 GiB
  struct Slot;

  /// One reservation, cut into slots of one size. A slot's number is (index of chunk << 24 | index
  /// in it).
  struct Chunk {
    std::byte* base;
    std::size_t bytes;
    std::byte* slots;  // where the first spacer begins; before it is the metadata
    std::size_t stride;
    std::uint32_t count;
    std::uint32_t stack_size;
  };

  struct FreeList {
    std::uint32_t head = none;
    std::uint32_t count = 0;
  };

  struct SizeClass {
    FreeList hot;             // with pages
    FreeList cold;            // without; rarely also without a guard, after a failure
    std::uint32_t fresh = 0;  // numbers [fresh, fresh_end) were never handed out
    std::uint32_t fresh_end = 0;
    std::uint32_t last_count = 0;  // slots of the newest chunk
    std::uint32_t keep = 0;
  };

  [[nodiscard]] Slot& slot_of(std::uint32_t number) const noexcept;
  [[nodiscard]] Stack stack_of(std::uint32_t number) const noexcept;
  void push(FreeList& list, std::uint32_t number) noexcept;
  [[nodiscard]] std::uint32_t pop(FreeList& list) noexcept;
  [[nodiscard]] std::uint32_t next_free(SizeClass& sizes) noexcept;
  void grow(SizeClass& sizes, std::size_t stack_size);
  void trim(SizeClass& sizes) noexcept;
  [[nodiscard]] Stack take_out(std::uint32_t number) noexcept;
  void put_away(std::span<const Stack> stacks) noexcept;
  void install_guard(const Stack& stack);
  [[nodiscard]] int protect(const Stack& stack) noexcept;
  Guard fall_back();
  [[noreturn]] void throw_no_guard(const Stack& stack, Guard guard, int error) const;
  [[noreturn]] void throw_no_room(std::size_t stack_size, std::size_t bytes, int error) const;

  // Fixed at construction.
  std::size_t default_size_;
  bool may_fall_back_ = false;

  std::mutex growth_;  // held by the one thread that reserves a chunk; never taken inside lock_

  mutable Spinlock lock_;  // guards all below
  Guard guard_ = Guard::automatic;
  std::string guard_reason_;
  std::array<SizeClass, class_count> classes_;
  std::vector<Chunk> chunks_;  // capacity fixed: growing it never allocates under the lock
  std::size_t in_use_ = 0;
  std::size_t protected_ = 0;     // slots guarded by mprotect
  std::size_t max_mappings_ = 0;  // vm.max_map_count as last read
};

}  // namespace weft::stack

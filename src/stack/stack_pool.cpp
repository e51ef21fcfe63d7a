#include <weft/stack/stack_pool.hpp>

#include <weft/base/check.hpp>

#include "stack/memory.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace weft::stack {
namespace {

constexpr std::size_t max_chunk_bytes = std::size_t{64} << 30;
constexpr std::uint32_t first_chunk_slots = 64;
constexpr std::size_t max_chunks = 255;  // so that no slot has the number `none`
constexpr unsigned chunk_shift = 24;
constexpr std::uint32_t index_mask = (std::uint32_t{1} << chunk_shift) - 1;
constexpr std::size_t max_kept_bytes = std::size_t{256} << 20;
/// Stacks that lose their pages with one call. More gain nothing, and keep a worker busy for longer
/// than 0.1 ms.
constexpr std::uint32_t most_at_once = 64;
std::uint32_t surplus_of(std::uint32_t keep) noexcept {
  return std::clamp(keep / 16, 1U, most_at_once);
}
/// Mappings that guards leave to the rest of the program: a process that cannot map anything cannot
/// even start a thread to report its trouble.
constexpr std::size_t spare_mappings = 1024;
constexpr std::size_t usual_max_map_count = 65530;
constexpr const char* max_map_count_path = "/proc/sys/vm/max_map_count";

std::size_t spacer_size() noexcept {
  return page_size();
}

std::byte* guard_start(const Stack& stack) noexcept {
  return stack.guard_bottom() - spacer_size();
}

std::size_t stride_for(std::size_t stack_size) noexcept {
  return spacer_size() + guard_size + stack_size;
}

/// Slots in a new chunk whose predecessor had `last`: twice as many, within bounds.
std::size_t slots_after(std::uint32_t last, std::size_t stack_size) noexcept {
  const std::size_t most = max_chunk_bytes / stride_for(stack_size);
  return std::min<std::size_t>(std::max(first_chunk_slots, 2 * last), most);
}

/// Index of the smallest class that holds `size` bytes, and a page, which may have 64 KiB.
unsigned class_index(std::size_t size) noexcept {
  size = std::max({size, min_stack_size, page_size()});
  return static_cast<unsigned>(std::bit_width((size - 1) / min_stack_size));
}

constexpr std::size_t class_size(unsigned index) noexcept {
  return min_stack_size << index;
}

void check_size(std::size_t size) {
  if (size <= max_stack_size) return;
  throw std::invalid_argument("weft: a stack of " + human_size(size) +
                              " was asked for, the largest is " + human_size(max_stack_size));
}

[[noreturn]] void throw_bad_size_variable(std::string_view value, std::string_view problem) {
  throw std::invalid_argument("weft: WEFT_STACK_SIZE='" + std::string(value) + "' " +
                              std::string(problem) +
                              "; write a size from 16k to 1g, such as 65536, 64k or 1m");
}

void drop_all_pages(std::span<const Stack> stacks) noexcept {
  std::array<iovec, most_at_once> memory;
  const auto end = std::ranges::transform(stacks, memory.begin(), [](const Stack& stack) {
                     return iovec{stack.bottom(), stack.size()};
                   }).out;
  drop_pages({memory.begin(), end});
}

struct GuardChoice {
  Guard guard;
  bool may_fall_back;
  std::string reason;
};

GuardChoice choose_guard(Guard wish) {
  std::string source = "asked for by StackOptions::guard";
  const char* variable = std::getenv("WEFT_STACK_GUARD");
  if (wish == Guard::automatic && variable != nullptr) {
    const std::string_view value = variable;
    source = "asked for by WEFT_STACK_GUARD";
    if (value == "madvise") {
      wish = Guard::madvise;
    } else if (value == "mprotect") {
      wish = Guard::mprotect;
    } else if (value != "automatic" && !value.empty()) {
      throw std::invalid_argument("weft: WEFT_STACK_GUARD='" + std::string(value) +
                                  "' is unknown; write madvise, mprotect or automatic");
    }
  }
  if (wish == Guard::mprotect) return {Guard::mprotect, false, source};
  const int error = guard_install_error();
  if (error == 0) {
    if (wish == Guard::madvise) return {Guard::madvise, false, source};
    return {Guard::madvise, true, "the kernel has MADV_GUARD_INSTALL"};
  }
  if (wish == Guard::madvise) {
    throw std::system_error(error, std::generic_category(),
                            "weft: stack guards by madvise(MADV_GUARD_INSTALL), " + source +
                                ", do not work on this kernel; use mprotect, or a kernel >= 6.13");
  }
  return {
      Guard::mprotect, false,
      "madvise(MADV_GUARD_INSTALL) does not work here: " + std::generic_category().message(error)};
}

}  // namespace

enum class SlotState : std::uint8_t { fresh, in_use, hot, trimming, cold };

/// Outside the stacks, in the chunk's first pages, and only touched for slots once used.
struct StackPool::Slot {
  std::uint32_t next;         // in its free list
  std::uint32_t valgrind_id;  // once guarded
  std::uint32_t asan_closed;  // see asan_close
  SlotState state;
  bool guarded;
};

std::size_t default_stack_size() {
  const char* variable = std::getenv("WEFT_STACK_SIZE");
  if (variable == nullptr || *variable == '\0') return std::size_t{256} << 10;
  const std::string_view text = variable;
  std::size_t size = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error == std::errc::result_out_of_range) throw_bad_size_variable(text, "is too large");
  if (error != std::errc{}) throw_bad_size_variable(text, "is not a size");
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  unsigned shift = 0;
  if (unit == "k" || unit == "K") {
    shift = 10;
  } else if (unit == "m" || unit == "M") {
    shift = 20;
  } else if (unit == "g" || unit == "G") {
    shift = 30;
  } else if (!unit.empty()) {
    throw_bad_size_variable(text, "is not a size");
  }
  if (size > max_stack_size >> shift) throw_bad_size_variable(text, "is too large");
  size <<= shift;
  if (size < min_stack_size) throw_bad_size_variable(text, "is too small");
  return size;
}

const char* to_string(Guard guard) noexcept {
  switch (guard) {
    case Guard::automatic:
      return "automatic";
    case Guard::madvise:
      return "madvise";
    case Guard::mprotect:
      return "mprotect";
  }
  return "?";
}

StackPool::StackPool(StackOptions options)
    : default_size_(options.size != 0 ? options.size : default_stack_size()) {
  static_assert(sizeof(Slot) <= 16);
  check_size(default_size_);
  GuardChoice choice = choose_guard(options.guard);
  guard_ = choice.guard;
  may_fall_back_ = choice.may_fall_back;
  guard_reason_ = std::move(choice.reason);
  for (unsigned i = 0; i < class_count; ++i) {
    classes_[i].keep =
        static_cast<std::uint32_t>(std::min(options.keep, max_kept_bytes / class_size(i)));
  }
  chunks_.reserve(max_chunks);
}

StackPool::~StackPool() {
  WEFT_CHECK(in_use_ == 0, "stack pool destroyed with ", in_use_, " stacks in use");
  for (SizeClass& sizes : classes_) {
    for (std::uint32_t number = sizes.hot.head; number != none; number = slot_of(number).next) {
      asan_open(stack_of(number).top(), slot_of(number).asan_closed);
    }
  }
  for (const Chunk& chunk : chunks_) {
    if (under_valgrind()) {
      const Slot* slots = reinterpret_cast<const Slot*>(chunk.base);
      for (std::uint32_t i = 0; i < chunk.count; ++i) {
        if (slots[i].guarded) valgrind_deregister(slots[i].valgrind_id);
      }
    }
    unreserve(chunk.base, chunk.bytes);
  }
}

Stack StackPool::take(std::size_t size) {
  if (size == 0) size = default_size_;
  check_size(size);
  const unsigned index = class_index(size);
  SizeClass& sizes = classes_[index];
  for (;;) {
    Stack stack;
    bool guarded = false;
    {
      std::lock_guard hold(lock_);
      const std::uint32_t number = next_free(sizes);
      if (number != none) {
        stack = take_out(number);
        Slot& slot = slot_of(number);
        slot.state = SlotState::in_use;
        guarded = slot.guarded;
        ++in_use_;
      }
    }
    if (stack.empty()) {
      grow(sizes, class_size(index));
      continue;
    }
    if (!guarded) install_guard(stack);
    return stack;
  }
}

void StackPool::give(Stack stack) noexcept {
  if (stack.empty()) return;
  const std::uint32_t closed = asan_close(stack.bottom(), stack.top());
  SizeClass* full = nullptr;
  {
    std::lock_guard hold(lock_);
    WEFT_CHECK(stack.slot_ >> chunk_shift < chunks_.size() && stack_of(stack.slot_) == stack,
               "stack given to a pool it is not from");
    Slot& slot = slot_of(stack.slot_);
    WEFT_CHECK(slot.state == SlotState::in_use, "stack given back twice");
    --in_use_;
    slot.state = SlotState::hot;
    slot.asan_closed = closed;
    SizeClass& sizes = classes_[class_index(stack.size())];
    push(sizes.hot, stack.slot_);
    if (sizes.hot.count > sizes.keep) full = &sizes;
  }
  if (full != nullptr) trim(*full);
}

// Apart from give(), which runs on some fiber's stack each time: these arrays take most of a page.
[[gnu::noinline]] void StackPool::trim(SizeClass& sizes) noexcept {
  std::array<Stack, most_at_once> surplus;
  std::size_t count = 0;
  {
    std::lock_guard hold(lock_);
    if (sizes.hot.count <= sizes.keep) return;  // somebody else was faster
    while (count < surplus_of(sizes.keep)) {
      const std::uint32_t number = pop(sizes.hot);
      surplus[count++] = take_out(number);
      slot_of(number).state = SlotState::trimming;  // ours alone until put_away: no call under lock
    }
  }
  drop_all_pages({surplus.data(), count});
  put_away({surplus.data(), count});
}

std::size_t StackPool::high_water(const Stack& stack) const noexcept {
  std::byte* resident = lowest_resident(stack.bottom(), stack.top());
  std::byte* used = lowest_nonzero(resident, stack.top());
  if (used - resident >= static_cast<std::ptrdiff_t>(page_size())) used = resident;
  return static_cast<std::size_t>(stack.top() - used);
}

void StackPool::clean(const Stack& stack) noexcept {
  drop_all_pages({&stack, 1});
}

StackStats StackPool::stats() const {
  StackStats stats;
  stats.guard_reason.reserve(256);  // no allocation under the lock, if it can be helped
  std::lock_guard hold(lock_);
  for (const Chunk& chunk : chunks_) {
    stats.reserved += chunk.count;
    stats.bytes += chunk.bytes;
  }
  for (const SizeClass& sizes : classes_) stats.cached += sizes.hot.count;
  stats.in_use = in_use_;
  stats.guard = guard_;
  stats.guard_reason = guard_reason_;
  return stats;
}

StackPool::Slot& StackPool::slot_of(std::uint32_t number) const noexcept {
  const Chunk& chunk = chunks_[number >> chunk_shift];
  return reinterpret_cast<Slot*>(chunk.base)[number & index_mask];
}

Stack StackPool::stack_of(std::uint32_t number) const noexcept {
  const Chunk& chunk = chunks_[number >> chunk_shift];
  std::byte* spacer = chunk.slots + chunk.stride * (number & index_mask);
  Stack stack(spacer + spacer_size() + guard_size, chunk.stack_size);
  stack.slot_ = number;
  return stack;
}

void StackPool::push(FreeList& list, std::uint32_t number) noexcept {
  slot_of(number).next = list.head;
  list.head = number;
  ++list.count;
}

std::uint32_t StackPool::pop(FreeList& list) noexcept {
  const std::uint32_t number = list.head;
  if (number == none) return none;
  list.head = slot_of(number).next;
  --list.count;
  return number;
}

/// Warm before cold before never used: fewer pages, and less address space to search in a core
/// file.
std::uint32_t StackPool::next_free(SizeClass& sizes) noexcept {
  std::uint32_t number = pop(sizes.hot);
  if (number == none) number = pop(sizes.cold);
  if (number == none && sizes.fresh != sizes.fresh_end) number = sizes.fresh++;
  return number;
}

/// It is in no list any more; what it is now, the caller says.
Stack StackPool::take_out(std::uint32_t number) noexcept {
  const Stack stack = stack_of(number);
  Slot& slot = slot_of(number);
  asan_open(stack.top(), slot.asan_closed);
  slot.asan_closed = 0;
  return stack;
}

void StackPool::put_away(std::span<const Stack> stacks) noexcept {
  std::lock_guard hold(lock_);
  for (const Stack& stack : stacks) {
    slot_of(stack.slot_).state = SlotState::cold;
    push(classes_[class_index(stack.size())].cold, stack.slot_);
  }
}

void StackPool::grow(SizeClass& sizes, std::size_t stack_size) {
  std::lock_guard only_one(growth_);
  std::size_t count = 0;
  {
    std::lock_guard hold(lock_);
    if (sizes.fresh != sizes.fresh_end) return;  // another thread was faster
    if (chunks_.size() < max_chunks) count = slots_after(sizes.last_count, stack_size);
  }
  const std::size_t stride = stride_for(stack_size);
  std::byte* base = nullptr;
  std::size_t metadata = 0;
  std::size_t bytes = 0;
  int error = count == 0 ? ENOMEM : 0;
  // A limit on address space may refuse a large chunk and still allow a small one.
  for (; count != 0; count /= 2) {
    metadata = (count * sizeof(Slot) + page_size() - 1) / page_size() * page_size();
    bytes = metadata + count * stride;
    base = reserve(bytes);
    if (base != nullptr) break;
    error = errno;
  }
  if (base == nullptr) throw_no_room(stack_size, bytes, error);

  std::lock_guard hold(lock_);
  const auto slots = static_cast<std::uint32_t>(count);
  sizes.last_count = slots;
  sizes.fresh = static_cast<std::uint32_t>(chunks_.size()) << chunk_shift;
  sizes.fresh_end = sizes.fresh + slots;
  chunks_.push_back(
      {base, bytes, base + metadata, stride, slots, static_cast<std::uint32_t>(stack_size)});
}

/// Called without the lock, on a slot that is the caller's alone. If it throws, the slot is free
/// again.
void StackPool::install_guard(const Stack& stack) {
  Guard guard = Guard::automatic;
  {
    std::lock_guard hold(lock_);
    guard = guard_;
  }
  int error = 0;
  if (guard == Guard::madvise) {
    error = guard_by_madvise(guard_start(stack), guard_size + spacer_size());
    // Some kernels refuse it for locked memory, so what worked once may fail after mlockall.
    if (error == EINVAL && may_fall_back_) guard = fall_back();
  }
  if (guard == Guard::mprotect) error = protect(stack);
  const std::uint32_t valgrind_id = error == 0 ? valgrind_register(stack.bottom(), stack.top()) : 0;
  {
    std::lock_guard hold(lock_);
    Slot& slot = slot_of(stack.slot_);
    slot.guarded = error == 0;
    slot.valgrind_id = valgrind_id;
    if (error == 0) return;
    --in_use_;
  }
  put_away({&stack, 1});
  throw_no_guard(stack, guard, error);
}

/// Guards a stack by mprotect, unless too few mappings would remain. 0 or errno.
int StackPool::protect(const Stack& stack) noexcept {
  const auto count_it = [this] {
    std::lock_guard hold(lock_);
    if (2 * (protected_ + 1) + spare_mappings > max_mappings_) return false;
    ++protected_;
    return true;
  };
  if (!count_it()) {
    // The first time, or the administrator may have raised it since.
    const std::size_t allowed = read_number(max_map_count_path, usual_max_map_count);
    {
      std::lock_guard hold(lock_);
      max_mappings_ = allowed;
    }
    if (!count_it()) return ENOMEM;
  }
  const int error = guard_by_mprotect(guard_start(stack), guard_size + spacer_size());
  if (error != 0) {
    std::lock_guard hold(lock_);
    --protected_;
  }
  return error;
}

Guard StackPool::fall_back() {
  std::string reason = "madvise(MADV_GUARD_INSTALL) was refused later on; is memory locked?";
  std::lock_guard hold(lock_);
  guard_ = Guard::mprotect;
  guard_reason_.swap(reason);
  return guard_;
}

void StackPool::throw_no_guard(const Stack& stack, Guard guard, int error) const {
  const StackStats now = stats();
  std::string text = "weft: cannot guard a stack of " + human_size(stack.size()) + " by " +
                     to_string(guard) + "; " + std::to_string(now.in_use) +
                     " stacks are in use and " + std::to_string(now.cached) + " cached";
  if (guard == Guard::mprotect) {
    const std::size_t allowed = read_number(max_map_count_path, usual_max_map_count);
    text += ". Each takes two memory mappings and vm.max_map_count is " + std::to_string(allowed) +
            ", of which " + std::to_string(spare_mappings) +
            " are left to the rest of the program. Raise it (sysctl -w vm.max_map_count=" +
            std::to_string(4 * allowed) +
            "), or use a kernel >= 6.13, where guards need no mappings, or coroutines, which have "
            "no stacks";
  }
  throw std::system_error(error, std::generic_category(), text);
}

void StackPool::throw_no_room(std::size_t stack_size, std::size_t bytes, int error) const {
  const StackStats now = stats();
  std::string text = "weft: cannot reserve address space for a stack of " + human_size(stack_size) +
                     ": mmap of " + std::to_string(bytes) + " bytes failed with " +
                     std::to_string(now.in_use) + " stacks in use and " +
                     std::to_string(now.bytes) + " bytes reserved. ";
  if (bytes == 0) {
    text += "The pool has reached its limit of " + std::to_string(max_chunks) + " reservations";
  } else if (error == EAGAIN) {
    text += "Memory is locked (mlockall): raise the limit (ulimit -l) or lock less";
  } else if (read_number("/proc/sys/vm/overcommit_memory", 0) == 2) {
    text +=
        "vm.overcommit_memory is 2, which counts address space as memory: set it to 0 or 1 (sysctl "
        "-w vm.overcommit_memory=0), raise vm.overcommit_ratio, or use smaller stacks "
        "(WEFT_STACK_SIZE) or coroutines";
  } else {
    text +=
        "Raise the limit on address space (ulimit -v) or on mappings (sysctl vm.max_map_count), "
        "or use smaller stacks (WEFT_STACK_SIZE) or coroutines";
  }
  throw std::system_error(error, std::generic_category(), text);
}

}  // namespace weft::stack

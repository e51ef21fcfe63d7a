#include "stack/memory.hpp"

#include <weft/base/unique_fd.hpp>
#include <weft/stack/sanitizer.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(WEFT_ASAN)
#include <sanitizer/asan_interface.h>
#endif

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif

namespace weft::stack {
namespace {

// Newer than the C library's headers may be.
constexpr int madv_dontneed_locked = 24;
constexpr int madv_guard_install = 102;
constexpr int pidfd_self = -10000;

int probe_guard_install() noexcept {
  const std::size_t page = page_size();
  std::byte* memory = reserve(2 * page);
  if (memory == nullptr) return errno;
  int error = guard_by_madvise(memory, page);
  if (error == 0) {
    // An emulator may accept any advice and ignore it. Let the kernel write to the page: that fails
    // with an error where our own access would be a signal.
    auto* guarded = reinterpret_cast<unsigned char*>(memory);
    if (mincore(memory + page, page, guarded) == 0) error = ENOTSUP;
  }
  unreserve(memory, 2 * page);
  return error;
}

void drop_one(void* start, std::size_t size) noexcept {
  // Mapped anew, it has no history: whoever was on it before has nothing to do with who is next.
  if (races_matter()) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (mmap(start, size, PROT_READ | PROT_WRITE, flags, -1, 0) == start) return;
  }
  if (madvise(start, size, MADV_DONTNEED) == 0) return;
  static_cast<void>(madvise(start, size, madv_dontneed_locked));  // after mlockall
}

/// With one call, and one interrupt to the other processors (Linux 6.16). False: it cannot (an
/// older kernel, locked memory), and what it has done does no harm. By pidfd_self, which older
/// kernels do not know: a descriptor of the process would, after a fork, drop the parent's pages.
bool drop_together(std::span<const iovec> ranges) noexcept {
  if (under_valgrind()) return false;  // which does not know the call and says so
  std::size_t bytes = 0;
  for (const iovec& range : ranges) bytes += range.iov_len;
  const long done =
      syscall(SYS_process_madvise, pidfd_self, ranges.data(), ranges.size(), MADV_DONTNEED, 0);
  return done >= 0 && static_cast<std::size_t>(done) == bytes;
}

}  // namespace

std::size_t page_size() noexcept {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

int guard_install_error() noexcept {
  static const int error = probe_guard_install();
  return error;
}

int guard_by_madvise(std::byte* start, std::size_t size) noexcept {
  return madvise(start, size, madv_guard_install) == 0 ? 0 : errno;
}

int guard_by_mprotect(std::byte* start, std::size_t size) noexcept {
  return mprotect(start, size, PROT_NONE) == 0 ? 0 : errno;
}

std::byte* reserve(std::size_t size) noexcept {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  // With huge pages, the first touch of a stack would cost 2 MiB. Fails only where there are none.
  static_cast<void>(madvise(memory, size, MADV_NOHUGEPAGE));
  return static_cast<std::byte*>(memory);
}

void unreserve(std::byte* start, std::size_t size) noexcept {
  munmap(start, size);
}

void drop_pages(std::span<const iovec> ranges) noexcept {
  if (ranges.size() > 1 && !races_matter() && drop_together(ranges)) return;
  for (const iovec& range : ranges) drop_one(range.iov_base, range.iov_len);
}

std::byte* lowest_resident(std::byte* start, std::byte* end) noexcept {
  // Small, because the caller may be on the very stack that is measured; one call does for 2 MiB.
  std::array<unsigned char, 512> resident;
  const std::size_t page = page_size();
  for (std::byte* from = start; from < end;) {
    const std::size_t left = static_cast<std::size_t>(end - from) / page;
    const std::size_t pages = std::min(resident.size(), left);
    if (mincore(from, pages * page, resident.data()) != 0) return start;
    for (std::size_t i = 0; i < pages; ++i) {
      if ((resident[i] & 1) != 0) return from + i * page;
    }
    from += pages * page;
  }
  return end;
}

// Reads across live frames, which the sanitizers would rightly call wrong anywhere else.
__attribute__((no_sanitize("address", "thread", "undefined"))) std::byte* lowest_nonzero(
    std::byte* start, std::byte* end) noexcept {
  auto* word = reinterpret_cast<volatile std::uint64_t*>(start);
  auto* last = reinterpret_cast<volatile std::uint64_t*>(end);
  while (word != last && *word == 0) ++word;
  auto* byte = reinterpret_cast<volatile unsigned char*>(word);
  auto* stop = reinterpret_cast<volatile unsigned char*>(last);
  while (byte != stop && *byte == 0) ++byte;
  return start + (byte - reinterpret_cast<volatile unsigned char*>(start));
}

std::size_t read_number(const char* path, std::size_t otherwise) noexcept {
  const UniqueFd file(open(path, O_RDONLY | O_CLOEXEC));
  if (!file) return otherwise;
  std::array<char, 32> text;
  const ssize_t length = read(file.get(), text.data(), text.size());
  if (length <= 0) return otherwise;
  std::size_t number = otherwise;
  std::from_chars(text.data(), text.data() + length, number);
  return number;
}

std::string human_size(std::size_t bytes) {
  static constexpr std::array units = {" bytes", " KiB", " MiB", " GiB", " TiB"};
  std::size_t unit = 0;
  while (unit + 1 < units.size() && bytes >= 1024 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return std::to_string(bytes) + units[unit];
}

#if defined(VALGRIND_STACK_REGISTER)
std::uint32_t valgrind_register(std::byte* bottom, std::byte* top) noexcept {
  return static_cast<std::uint32_t>(VALGRIND_STACK_REGISTER(bottom, top));
}
void valgrind_deregister(std::uint32_t id) noexcept {
  VALGRIND_STACK_DEREGISTER(id);
}
bool under_valgrind() noexcept {
  return RUNNING_ON_VALGRIND != 0;
}
#else
std::uint32_t valgrind_register(std::byte*, std::byte*) noexcept {
  return 0;
}
void valgrind_deregister(std::uint32_t) noexcept {}
bool under_valgrind() noexcept {
  return false;
}
#endif

#if defined(WEFT_ASAN)
std::uint32_t asan_close(std::byte* bottom, std::byte* top) noexcept {
  const auto used = static_cast<std::size_t>(top - lowest_resident(bottom, top));
  __asan_poison_memory_region(top - used, used);
  return static_cast<std::uint32_t>(used);
}
void asan_open(std::byte* top, std::uint32_t closed) noexcept {
  __asan_unpoison_memory_region(top - closed, closed);
}
#else
std::uint32_t asan_close(std::byte*, std::byte*) noexcept {
  return 0;
}
void asan_open(std::byte*, std::uint32_t) noexcept {}
#endif

}  // namespace weft::stack

/// What the stack room asks of the kernel and of the sanitizers, in one place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <sys/uio.h>

namespace weft::stack {

[[nodiscard]] std::size_t page_size() noexcept;

/// Does MADV_GUARD_INSTALL make a page trap here? 0, or the errno that says why not. Tried once.
[[nodiscard]] int guard_install_error() noexcept;
/// 0 or errno.
[[nodiscard]] int guard_by_madvise(std::byte* start, std::size_t size) noexcept;
[[nodiscard]] int guard_by_mprotect(std::byte* start, std::size_t size) noexcept;

/// Address space, readable, writable, zero, without memory behind it yet. Null, with errno set, on
/// failure.
[[nodiscard]] std::byte* reserve(std::size_t size) noexcept;
void unreserve(std::byte* start, std::size_t size) noexcept;

/// Returns the pages of these to the kernel; they read as zero afterwards.
void drop_pages(std::span<const iovec> ranges) noexcept;
/// The lowest address in [start, end) whose page has memory behind it; `end` if none has.
[[nodiscard]] std::byte* lowest_resident(std::byte* start, std::byte* end) noexcept;
/// The lowest nonzero byte in [start, end); `end` if there is none. Both page aligned.
[[nodiscard]] std::byte* lowest_nonzero(std::byte* start, std::byte* end) noexcept;

/// A number from a file such as /proc/sys/vm/max_map_count; `otherwise` if it cannot be read.
[[nodiscard]] std::size_t read_number(const char* path, std::size_t otherwise) noexcept;
/// "256 KiB"
[[nodiscard]] std::string human_size(std::size_t bytes);

/// Tells Valgrind that switching here is switching stacks. 0 if not running under it.
[[nodiscard]] std::uint32_t valgrind_register(std::byte* bottom, std::byte* top) noexcept;
void valgrind_deregister(std::uint32_t id) noexcept;
[[nodiscard]] bool under_valgrind() noexcept;

/// Under ASan, access to a free stack is an error; without it these do nothing. asan_close returns
/// how many bytes below the top it closed, for asan_open. That is the resident part: the shadow of
/// a whole stack is eight pages. Together they also clear what abandoned frames left in the shadow.
[[nodiscard]] std::uint32_t asan_close(std::byte* bottom, std::byte* top) noexcept;
void asan_open(std::byte* top, std::uint32_t closed) noexcept;

}  // namespace weft::stack

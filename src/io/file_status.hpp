// What statx() says of a file, in our words. Shared by all who ask: a thread, or io_uring.
#pragma once

#include <weft/io/slow_call.hpp>

#include <fcntl.h>
#include <sys/stat.h>

namespace weft::io {

/// The arguments of statx() for a SlowCall of code stat: statx(at, path, flags, mask, &answer).
struct StatxArguments {
  int at;
  const char* path;
  int flags;
  unsigned mask;
};

[[nodiscard]] inline StatxArguments statx_arguments(const SlowCall& call) noexcept {
  const bool by_number = call.path.empty();
  return {by_number ? call.fd : AT_FDCWD, call.path.c_str(),
          (by_number ? AT_EMPTY_PATH : 0) | ((call.flags & 1) != 0 ? AT_SYMLINK_NOFOLLOW : 0),
          STATX_BASIC_STATS};
}

[[nodiscard]] inline FileStatus::Kind kind_of_mode(unsigned mode) noexcept {
  if (S_ISREG(mode)) return FileStatus::Kind::file;
  if (S_ISDIR(mode)) return FileStatus::Kind::directory;
  if (S_ISLNK(mode)) return FileStatus::Kind::link;
  return FileStatus::Kind::other;
}

[[nodiscard]] inline FileStatus to_file_status(const struct statx& answer) noexcept {
  constexpr std::int64_t second_ns = 1'000'000'000;
  constexpr unsigned permission_bits = 07777;
  return {.kind = kind_of_mode(answer.stx_mode),
          .mode = answer.stx_mode & permission_bits,
          .size = answer.stx_size,
          .device = std::uint64_t{answer.stx_dev_major} << 32 | answer.stx_dev_minor,
          .inode = answer.stx_ino,
          .modified_ns = answer.stx_mtime.tv_sec * second_ns + answer.stx_mtime.tv_nsec};
}

}  // namespace weft::io

// What is done with whole files: several calls one after the other.
#include <weft/io/file.hpp>
#include <weft/task/scope.hpp>

#include <algorithm>
#include <array>
#include <exception>
#include <system_error>

namespace weft {

namespace {

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return path.substr(0, slash + 1);
}

/// Sixteen digits that nobody else has.
std::string chance() {
  std::array<std::byte, 8> bytes;
  this_world()->random(bytes);
  std::string digits;
  for (const std::byte b : bytes) {
    digits += "0123456789abcdef"[std::to_integer<unsigned>(b >> 4)];
    digits += "0123456789abcdef"[std::to_integer<unsigned>(b & std::byte{15})];
  }
  return digits;
}

/// The clean-up of a failure, which is about to be reported: what goes wrong here is not.
Coro<void> remove_quietly(std::string path) {
  const Shield shield;
  try {
    co_await remove_file_op(std::move(path));
  } catch (const std::exception&) {
    // Not there any more, or as stubborn as whatever failed before.
  }
}

/// A change of names is safe when the directory is.
Coro<void> sync_directory(std::string path) {
  const File directory = co_await File::open_op(std::move(path));
  try {
    co_await directory.sync_op();
  } catch (const std::system_error& error) {
    if (error.code() != std::errc::invalid_argument) throw;  // a file system without such a thing
  }
}

}  // namespace

Coro<std::string> co_read_file(std::string path) {
  const File file = co_await File::open_op(std::move(path));
  constexpr std::size_t least = 4096;  // files in /proc claim to be empty
  const std::uint64_t size = co_await file.size_op();
  std::string text;
  for (;;) {
    // One more than it should be: if the file has not grown, that is where it ends.
    const std::uint64_t left = size > text.size() ? size - text.size() + 1 : 0;
    const std::size_t from = text.size();
    const std::size_t wanted = std::clamp<std::uint64_t>(left, least, most_file_bytes);
    text.resize(from + wanted);
    const Bytes into = std::as_writable_bytes(std::span(text).subspan(from));
    const std::size_t n = co_await file.read_at_op(from, into);
    text.resize(from + n);
    if (n == 0) break;
  }
  co_return text;
}

Coro<void> co_write_file(std::string path, ConstBytes bytes, unsigned permissions) {
  const File file = co_await File::create_op(std::move(path), permissions);
  co_await file.write_op(bytes);
}

Coro<void> co_write_file_atomically(std::string path, ConstBytes bytes, unsigned permissions) {
  const std::string directory = directory_of(path);
  const std::optional<FileStatus> old = co_await find_file_op(path);
  if (old) permissions = old->mode;
  const std::string temporary = directory + "/." + chance() + ".tmp";
  File file;
  {
    // An open that nobody waits for would make the file all the same, and nobody would remove it.
    const Shield shield;
    file = co_await File::open_op(temporary, OpenMode::create_new, permissions);
  }
  std::exception_ptr error;
  try {
    co_await file.write_op(bytes);
    co_await file.sync_op();
    file.close();
    co_await rename_file_op(temporary, path);
  } catch (...) {  // also when cancelled
    error = std::current_exception();
  }
  if (error) {
    co_await remove_quietly(temporary);
    std::rethrow_exception(error);
  }
  co_await sync_directory(directory);
}

Coro<void> co_write_file(std::string path, std::string_view text, unsigned permissions) {
  return co_write_file(std::move(path), as_bytes(text), permissions);
}
Coro<void> co_write_file_atomically(std::string path, std::string_view text, unsigned permissions) {
  return co_write_file_atomically(std::move(path), as_bytes(text), permissions);
}

std::string read_file(std::string path) {
  return await(co_read_file(std::move(path)));
}
void write_file(std::string path, ConstBytes bytes, unsigned permissions) {
  await(co_write_file(std::move(path), bytes, permissions));
}
void write_file(std::string path, std::string_view text, unsigned permissions) {
  write_file(std::move(path), as_bytes(text), permissions);
}
void write_file_atomically(std::string path, ConstBytes bytes, unsigned permissions) {
  await(co_write_file_atomically(std::move(path), bytes, permissions));
}
void write_file_atomically(std::string path, std::string_view text, unsigned permissions) {
  write_file_atomically(std::move(path), as_bytes(text), permissions);
}

}  // namespace weft

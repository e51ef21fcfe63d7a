/// For tests with files: a directory to make them in, something to write, and what went wrong.
#pragma once

#include <weft/weft.hpp>

#include <filesystem>
#include <string>
#include <system_error>

#include <unistd.h>

namespace weft::test {

/// A directory of its own for each test, gone afterwards.
class TempDir {
 public:
  TempDir() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("weft-test-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
    std::filesystem::remove_all(path_);  // of a process with the same number that was killed
    std::filesystem::create_directory(path_);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() { std::filesystem::remove_all(path_); }

  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ / name; }
  [[nodiscard]] std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::string pattern(std::size_t size, unsigned seed = 1) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    text[i] = static_cast<char>('a' + (i * 7 + i / 251 + seed) % 26);
  return text;
}

inline Bytes writable(std::string& text) {
  return std::as_writable_bytes(std::span(text));
}

/// The error of an operation: its number and what it says.
struct Failure {
  int code = 0;
  std::string text;
};

template <class MakeOp>
Coro<Failure> failure_of(MakeOp make) {
  try {
    static_cast<void>(co_await make());
  } catch (const std::system_error& error) {
    co_return Failure{error.code().value(), error.what()};
  }
  co_return Failure{};
}

}  // namespace weft::test

/// What the tests of child processes share.
#pragma once

#include <weft/io/process.hpp>

#include "support/real.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <string>
#include <system_error>

#include <sys/wait.h>

namespace weft::test {

inline Command shell(std::string script) {
  return Command("sh").arg("-c").arg(std::move(script));
}

inline std::string pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>((i * 31) >> 4);
  return text;
}

/// Runs or is a zombie.
inline bool is_there(int pid) {
  return ::kill(pid, 0) == 0;
}

/// Runs, and is not merely a zombie of somebody else's.
inline bool is_running(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto at = line.rfind(')');
  return at != std::string::npos && line.size() > at + 2 && line[at + 2] != 'Z';
}

/// Has this process any child, running or zombie?
inline bool has_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

/// Children that were killed are buried on the side.
inline Coro<> no_children_left() {
  while (has_children()) co_await sleep_op(100us);
}

inline Coro<int> error_of_starting(Command command) {
  try {
    const Process process = co_await Process::start_op(std::move(command));
  } catch (const std::system_error& error) {
    co_return error.code().value();
  }
  co_return 0;
}

inline Coro<std::string> read_all(Fd& from) {
  std::string all;
  std::array<std::byte, 4096> buffer;
  while (const std::size_t n = co_await from.read_op(buffer)) {
    all += as_text(Bytes(buffer).first(n));
  }
  co_return all;
}

}  // namespace weft::test

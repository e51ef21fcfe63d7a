/// A server in a process of its own, on its own processor, so that its CPU time, its memory and its
/// descriptors can be told from those of the client.
///
///     ServerProcess process(server, cpu);    // listens on process.port() from here on
///     ...
///     process.stop();                        // throws if the server did not end well
///
/// The server is a function of this program, or another program that prints the port on which it
/// listens and ends when its standard input does.
///
/// The process never outlives its ServerProcess, nor the parent.
#pragma once

#include "net/servers.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

namespace weft::bench {

/// How long a process (its first thread) was ready to run but had to wait for its processor, since
/// it started: what other programs on the machine have taken from it.
std::uint64_t delay_ns(pid_t pid);

class ServerProcess {
 public:
  /// A cpu of -1 leaves the process where the system puts it.
  ServerProcess(const Server& server, int cpu);
  /// Runs a command: the path of a program and its arguments.
  ServerProcess(const std::vector<std::string>& command, int cpu);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::uint64_t cpu_ns() const;
  [[nodiscard]] std::uint64_t delay_ns() const { return weft::bench::delay_ns(pid_); }
  [[nodiscard]] std::uint64_t resident_bytes() const;
  [[nodiscard]] std::size_t open_fds() const;

  /// Waits until the server has at most that many descriptors open; throws if it keeps more.
  void wait_for_fds(std::size_t at_most) const;

  /// Asks the server to return and waits until its process has ended.
  void stop();

  /// Throws if the server has ended, by itself or by a signal. Asked when a client has failed: the
  /// end of the server is then the better explanation.
  void check_alive();

 private:
  /// The line that a command prints first.
  void read_port(int fd);
  /// Reaps the process if it ends in time and says how it ended.
  bool ended(std::chrono::nanoseconds within, std::string& how);
  [[noreturn]] void fail(const std::string& what) const;

  std::string name_;
  std::uint16_t port_ = 0;
  pid_t pid_ = -1;
  int stop_fd_ = -1;  // the write end of the pipe
};

/// Binds the calling thread to one processor; does nothing for -1.
void pin_to(int cpu);

}  // namespace weft::bench

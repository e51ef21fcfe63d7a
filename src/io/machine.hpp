// The real World: the system calls themselves. Split by subject: machine.cpp (sockets, pipes),
// machine_process.cpp (children), machine_signals.cpp, machine_files.cpp (what takes long).
#pragma once

#include <weft/io/slow_call.hpp>
#include <weft/io/world.hpp>

namespace weft::io {

class Machine final : public World {
 public:
  SysResult socket(int domain, int type, int protocol) override;
  SysResult bind(int fd, const sockaddr* address, socklen_t size) override;
  SysResult listen(int fd, int backlog) override;
  SysResult accept(int fd, sockaddr* address, socklen_t* size) override;
  SysResult connect(int fd, const sockaddr* address, socklen_t size) override;
  SysResult name(int fd, End end, sockaddr* address, socklen_t* size) override;
  SysResult set_option(int fd, int level, int option, const void* value, socklen_t size) override;
  SysResult get_option(int fd, int level, int option, void* value, socklen_t* size) override;
  SysResult receive(int fd, msghdr& message, int flags) override;
  SysResult send(int fd, const msghdr& message, int flags) override;
  SysResult shutdown(int fd, int how) override;
  SysResult socket_pair(int domain, int type, int (&fds)[2]) override;
  SysResult pipe(int (&fds)[2]) override;
  SysResult read(int fd, const iovec* parts, int count) override;
  SysResult write(int fd, const iovec* parts, int count) override;
  SysResult send_file(int to, int from, std::int64_t& offset, std::size_t count) override;
  SysResult close(int fd) noexcept override;
  SysResult spawn(const ChildSpec& spec, int& handle) override;
  SysResult reap(int handle, int& status, Reap how) override;
  SysResult signal(int handle, int signal_number) override;
  SysResult signal_group(int process_id, int signal_number) override;
  SysResult open_signals(std::span<const int> signals) override;
  void random(std::span<std::byte> out) override;
  std::int64_t wall_clock() noexcept override;
  void call(SlowCall& call) noexcept override;
};

/// If open_signals() gave out `fd`: nothing is written to it any more. Before it is closed.
void end_signals(int fd) noexcept;

/// What the machine may do on the thread that asks: copying this much is about as long as a task
/// should keep others waiting.
inline constexpr std::size_t most_at_once = std::size_t{64} << 10;
/// Reads what the machine has in its memory. False: nothing was done, and the call may take long.
[[nodiscard]] bool read_at_once(SlowCall& call) noexcept;

/// Makes a system call until it is not interrupted; minus errno if it failed. Leaves errno alone.
template <class Call>
SysResult uninterrupted(Call call) {
  const int saved = errno;
  for (;;) {
    const auto result = static_cast<SysResult>(call());
    if (result >= 0) return result;
    if (errno == EINTR) continue;
    const SysResult error = -errno;
    errno = saved;
    return error;
  }
}

}  // namespace weft::io

/// World: what can be asked of the outside. The narrow seam through which everything passes that is
/// not decided by the program itself: sockets, pipes, files, processes, signals, chance.
///
/// The calls are POSIX-shaped and mean what POSIX says, with these differences:
///
///   - the result is the value, or minus the error number; errno is not touched;
///   - every descriptor is non-blocking and close-on-exec, and nothing raises SIGPIPE;
///   - EINTR does not exist.
///
/// The machine (`machine()`) is one World; a simulated one has the same calls and injects its
/// faults at exactly this boundary; a recording one wraps another and logs each result. Whoever
/// waits for a descriptor does so through the Kernel of its Io (io/kernel.hpp), which also brings
/// slow calls
/// (`call`) to a place where they may block.
///
/// Everything that opens descriptors keeps its World alive (a shared_ptr in Source), so a socket
/// may outlive the Io it was made on.
///
/// A World answers "not supported" (ENOSYS) to what it does not implement.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <sys/uio.h>

namespace weft {

class Job;
struct SlowCall;

/// A value, or minus an error number.
using SysResult = long;

/// How to start a child process.
struct ChildSpec {
  std::vector<std::string> arguments;    // [0] is the program, looked for in PATH if without '/'
  std::vector<std::string> environment;  // KEY=VALUE, or KEY: taken out
  bool inherit_environment = true;       // then `environment` adds and replaces
  std::string directory;                 // empty: ours
  bool new_group = false;                // its own process group, so that it can be signalled whole

  static constexpr int inherit = -1;
  static constexpr int null = -2;
  static constexpr int same_as_output = -3;  // of fds[2]
  /// Descriptors of ours that become 0, 1 and 2 of the child, or one of the above. They are made
  /// blocking, as programs expect; so they are the child's from now on, and ours only to close.
  int fds[3] = {inherit, inherit, inherit};
};

class World {
 public:
  virtual ~World() = default;

  // Sockets

  [[nodiscard]] virtual SysResult socket(int domain, int type, int protocol);
  virtual SysResult bind(int fd, const sockaddr* address, socklen_t size);
  virtual SysResult listen(int fd, int backlog);
  [[nodiscard]] virtual SysResult accept(int fd, sockaddr* address, socklen_t* size);
  virtual SysResult connect(int fd, const sockaddr* address, socklen_t size);
  enum class End : std::uint8_t { local, peer };
  virtual SysResult name(int fd, End end, sockaddr* address, socklen_t* size);
  virtual SysResult set_option(int fd, int level, int option, const void* value, socklen_t size);
  virtual SysResult get_option(int fd, int level, int option, void* value, socklen_t* size);
  virtual SysResult receive(int fd, msghdr& message, int flags);
  virtual SysResult send(int fd, const msghdr& message, int flags);
  virtual SysResult shutdown(int fd, int how);
  [[nodiscard]] virtual SysResult socket_pair(int domain, int type, int (&fds)[2]);

  // Pipes, and anything else that is no socket

  [[nodiscard]] virtual SysResult pipe(int (&fds)[2]);  // [0] reads
  virtual SysResult read(int fd, const iovec* parts, int count);
  virtual SysResult write(int fd, const iovec* parts, int count);
  /// From a file to a socket or pipe.
  virtual SysResult send_file(int to, int from, std::int64_t& offset, std::size_t count);
  virtual SysResult close(int fd) noexcept;

  // Processes and signals

  /// Fills in a descriptor that becomes readable when the child has ended; gives its process id.
  /// Takes as long as finding and loading the program: not for workers.
  [[nodiscard]] virtual SysResult spawn(const ChildSpec& spec, int& handle);
  /// EAGAIN while it runs, or waits for its end; then how it ended, as for waitpid(). Once.
  enum class Reap : std::uint8_t { look, wait };
  virtual SysResult reap(int handle, int& status, Reap how);
  virtual SysResult signal(int handle, int signal_number);
  /// To all of a child's new_group. The child must not have been reaped: then its number may be
  /// another's.
  virtual SysResult signal_group(int process_id, int signal_number);
  /// A descriptor from which the numbers of arriving signals can be read, one byte each, until it
  /// is closed. EINVAL: one of them cannot be caught, or is the mark of a fault.
  [[nodiscard]] virtual SysResult open_signals(std::span<const int> signals);

  // Chance, and the time of day

  virtual void random(std::span<std::byte> out);
  /// Nanoseconds since 1970. May jump; for labels, not for waiting.
  [[nodiscard]] virtual std::int64_t wall_clock() noexcept;

  // What takes long

  /// Makes the call and sets its result. May block: only Kernels call this, off the workers.
  virtual void call(SlowCall& call) noexcept;
};

/// The real one. Stateless: it lives as long as the process.
[[nodiscard]] std::shared_ptr<World> machine();

/// One in which every call fails with ENOSYS.
[[nodiscard]] std::shared_ptr<World> empty_world();

/// Throws std::system_error: "<what>: <text of the error>". `what` says what was tried, on what.
[[noreturn]] void throw_sys_error(SysResult result, const std::string& what);

/// The result, or throws.
inline SysResult check_sys(SysResult result, const char* what) {
  if (result < 0) [[unlikely]]
    throw_sys_error(result, what);
  return result;
}

}  // namespace weft

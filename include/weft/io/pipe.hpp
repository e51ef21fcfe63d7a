/// Pipes, and the streams a program is born with.
///
///     auto [from, to] = weft::pipe();
///     scope.spawn([&] { to.write("hello"); to.close(); });
///     while (std::size_t n = from.read(buffer)) ...         // 0: all writers have closed
///
///     Fd in = weft::standard_input();
///     while (std::size_t n = co_await in.read_op(buffer)) ...
///
/// Both ends are Fds: everything said there holds. Writing to a pipe that nobody reads is an error
/// (EPIPE), never a signal.
///
/// The standard streams are usually shared with other programs (the shell's terminal, the rest of a
/// pipeline), and being non-blocking is a property of what is shared, not of our descriptor: to set
/// it would break the others. So a terminal, pipe or device is opened anew and that is made
/// non-blocking. A file is used as it is: it never makes anybody wait for long, and its position
/// must stay shared. What cannot be opened anew (a socket, somebody else's pipe) is made
/// non-blocking after all. Closing one of these leaves descriptor 0, 1 or 2 open.
///
/// Call them once and keep the result. They always mean the machine's streams, like adopt_fd().
///
/// Rejected: reading standard input on a thread of the blocking pool. A cancelled read leaves the
/// thread waiting for input that may never come, and the program cannot end.
#pragma once

#include <weft/io/fd.hpp>

namespace weft {

struct Pipe {
  Fd read;
  Fd write;
};

/// In the calling task's World; on a plain thread, the machine. Throws std::system_error.
[[nodiscard]] Pipe pipe();

[[nodiscard]] Fd standard_input();
[[nodiscard]] Fd standard_output();
[[nodiscard]] Fd standard_error();

}  // namespace weft

/// The servers that bench_echo compares.
///
/// A server answers every byte it reads with the same byte, on the calling thread, until stop_fd
/// becomes readable; then it returns, or throws what went wrong. It runs in a process of its own.
///
/// listen_fd is bound and listens, is blocking, and has TCP_NODELAY set, which accepted
/// connections inherit: a server sets O_NONBLOCK if it wants it, and no option besides. (io_uring
/// wants blocking sockets: with O_NONBLOCK it answers EAGAIN instead of waiting.) Clients close
/// with a reset, so a read that fails with ECONNRESET is the normal end of a connection. stop_fd
/// is the read end of a pipe; it becomes readable with an end of file. The caller closes both.
#pragma once

#include <span>

namespace weft::bench {

struct Server {
  const char* name;
  void (*run)(int listen_fd, int stop_fd);
};

/// The limits that weft is held against: what a careful engineer writes by hand for one thread.
void run_raw_epoll(int listen_fd, int stop_fd);
#if defined(WEFT_BENCH_URING)
void run_raw_uring(int listen_fd, int stop_fd);
/// Receives nothing that was not asked for; sends by calls; and that on a ring that any thread may
/// use. See raw_uring.cpp.
void run_exact_uring(int listen_fd, int stop_fd);
void run_calling_uring(int listen_fd, int stop_fd);
void run_shared_uring(int listen_fd, int stop_fd);
/// io_uring says when a connection is ready; receiving and sending are calls, as with epoll.
void run_ready_uring(int listen_fd, int stop_fd);
#endif

/// weft's own servers. Names must differ from the raw ones: "epoll", "uring", "uring-...".
std::span<const Server> weft_servers();

}  // namespace weft::bench

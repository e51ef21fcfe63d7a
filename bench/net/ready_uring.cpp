// io_uring as a better epoll: one repeated poll per connection. Two calls per request and a
// completion, where the other io_uring server makes no call but the one that waits.
#if defined(WEFT_BENCH_URING)

#include "net/ready_sockets.hpp"
#include "net/servers.hpp"
#include "net/uring.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <poll.h>

namespace weft::bench {

namespace {

class ReadyServer {
 public:
  ReadyServer(int listen_fd, int stop_fd) : listen_fd_(listen_fd), stop_fd_(stop_fd) {
    if (::fcntl(listen_fd_, F_SETFL, O_NONBLOCK) < 0) fail("fcntl");
    watch(listen_fd_, POLLIN);
    watch(stop_fd_, POLLIN);
  }

  void run() {
    while (!stopped_) ring_.wait(nullptr, [this](const io_uring_cqe& cqe) { handle(cqe); });
  }

 private:
  [[noreturn]] static void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
  }

  void watch(int fd, unsigned what) {
    io_uring_sqe* sqe = ring_.next();
    ::io_uring_prep_poll_multishot(sqe, fd, what);
    sqe->user_data = static_cast<unsigned>(fd);
  }

  void handle(const io_uring_cqe& cqe) {
    const int fd = static_cast<int>(cqe.user_data);
    if (fd == stop_fd_) {
      stopped_ = true;
    } else if (fd == listen_fd_) {
      accept_all();
    } else if (cqe.res > 0) {
      connections_.serve(fd, (cqe.res & (POLLRDHUP | POLLHUP | POLLERR)) != 0);
    }
    const bool last = (cqe.flags & IORING_CQE_F_MORE) == 0;
    if (last && cqe.res > 0 && (cqe.res & POLLHUP) == 0) watch(fd, POLLIN | POLLOUT | POLLRDHUP);
  }
  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0 && errno == EAGAIN) return;
      if (fd < 0 && errno != ECONNABORTED && errno != EINTR) fail("accept4");
      if (fd >= 0) watch(fd, POLLIN | POLLOUT | POLLRDHUP);
    }
  }

  const int listen_fd_;
  const int stop_fd_;
  bool stopped_ = false;
  // Not own_thread, which is for programs where one thread makes all requests for ever; a library
  // cannot ask for that.
  Ring ring_{IORING_SETUP_COOP_TASKRUN};
  ReadySockets connections_;
};

}  // namespace

void run_ready_uring(int listen_fd, int stop_fd) {
  ReadyServer(listen_fd, stop_fd).run();
}

}  // namespace weft::bench

#endif

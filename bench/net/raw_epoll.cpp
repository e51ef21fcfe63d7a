// The raw epoll server: edge triggered.
#include "net/ready_sockets.hpp"
#include "net/servers.hpp"

#include <array>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace weft::bench {

namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

class EpollServer {
 public:
  EpollServer(int listen_fd, int stop_fd) : listen_fd_(listen_fd), stop_fd_(stop_fd) {
    epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) fail("epoll_create1");
    if (::fcntl(listen_fd_, F_SETFL, O_NONBLOCK) < 0) fail("fcntl");
    add(listen_fd_, EPOLLIN);
    add(stop_fd_, EPOLLIN);
  }
  EpollServer(const EpollServer&) = delete;
  EpollServer& operator=(const EpollServer&) = delete;
  ~EpollServer() { ::close(epoll_); }  // the connections end with the process

  void run() {
    std::array<epoll_event, 256> events;
    for (;;) {
      const int count = ::epoll_wait(epoll_, events.data(), events.size(), -1);
      if (count < 0 && errno != EINTR) fail("epoll_wait");
      for (int i = 0; i < count; ++i) {
        const epoll_event& event = events[static_cast<std::size_t>(i)];
        if (event.data.fd == stop_fd_) return;
        if (event.data.fd == listen_fd_) {
          accept_all();
        } else {
          connections_.serve(event.data.fd,
                             (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
        }
      }
    }
  }

 private:
  void add(int fd, std::uint32_t what) {
    epoll_event event{};
    event.events = what;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
  }

  void accept_all() {
    for (;;) {
      const int fd = ::accept4(listen_fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0 && errno == EAGAIN) return;
      if (fd < 0 && errno != ECONNABORTED && errno != EINTR) fail("accept4");
      if (fd >= 0) add(fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    }
  }

  int epoll_;
  const int listen_fd_;
  const int stop_fd_;
  ReadySockets connections_;
};

}  // namespace

void run_raw_epoll(int listen_fd, int stop_fd) {
  EpollServer(listen_fd, stop_fd).run();
}

}  // namespace weft::bench

// The raw epoll server: edge triggered, one buffer for all connections, no state per connection
// unless a send comes up short.
#include "net/servers.hpp"

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <unordered_map>

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
          serve(event.data.fd, (event.events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
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

  // A read that does not fill the buffer has emptied the socket, unless the end of the stream came
  // along with the data: then there is no further edge, and it takes another read to see it.
  void serve(int fd, bool ended) {
    if (!unsent_.empty() && !flush(fd)) return;
    for (;;) {
      const ssize_t size = ::recv(fd, buffer_.data(), buffer_.size(), 0);
      if (size < 0 && errno == EAGAIN) return;
      if (size <= 0) return close(fd);
      const ssize_t sent = ::send(fd, buffer_.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL);
      if (sent != size) {
        if (sent < 0 && errno != EAGAIN) return close(fd);
        const auto skip = static_cast<std::size_t>(sent < 0 ? 0 : sent);
        unsent_[fd].assign(buffer_.data() + skip, static_cast<std::size_t>(size) - skip);
        return;  // until it is writable, nothing more is read
      }
      if (static_cast<std::size_t>(size) < buffer_.size() && !ended) return;
    }
  }

  // Sends what an earlier send has left; true if nothing is left.
  bool flush(int fd) {
    const auto found = unsent_.find(fd);
    if (found == unsent_.end()) return true;
    const ssize_t sent = ::send(fd, found->second.data(), found->second.size(), MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN) close(fd);
      return false;
    }
    found->second.erase(0, static_cast<std::size_t>(sent));
    if (!found->second.empty()) return false;
    unsent_.erase(found);
    return true;
  }

  void close(int fd) {
    unsent_.erase(fd);
    ::close(fd);
  }

  int epoll_;
  const int listen_fd_;
  const int stop_fd_;
  std::unordered_map<int, std::string> unsent_;
  std::array<char, 65536> buffer_;
};

}  // namespace

void run_raw_epoll(int listen_fd, int stop_fd) {
  EpollServer(listen_fd, stop_fd).run();
}

}  // namespace weft::bench

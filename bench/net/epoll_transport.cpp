#include "net/transport.hpp"

#include <array>
#include <cerrno>
#include <system_error>
#include <vector>

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace weft::bench {

namespace {

class EpollTransport final : public Transport {
 public:
  EpollTransport(std::uint32_t connections, Receiver& receiver)
      : receiver_(receiver), epoll_(::epoll_create1(EPOLL_CLOEXEC)), connections_(connections) {
    if (epoll_ < 0) throw std::system_error(errno, std::generic_category(), "epoll_create1");
  }
  EpollTransport(const EpollTransport&) = delete;
  EpollTransport& operator=(const EpollTransport&) = delete;
  ~EpollTransport() override { ::close(epoll_); }

  void add(std::uint32_t index, int fd) override {
    connections_[index] = {fd, {}};
    control(index, EPOLL_CTL_ADD, EPOLLIN | EPOLLET);
  }

  void send(std::uint32_t index, std::span<const char> bytes) override {
    auto& [fd, unsent] = connections_[index];
    const std::size_t sent = unsent.empty() ? try_send(index, bytes) : 0;
    if (sent == bytes.size()) return;
    if (unsent.empty()) control(index, EPOLL_CTL_MOD, EPOLLIN | EPOLLOUT | EPOLLET);
    unsent.insert(unsent.end(), bytes.begin() + static_cast<std::ptrdiff_t>(sent), bytes.end());
  }

  bool wait(int timeout_ms) override {
    std::array<epoll_event, 256> events;
    const int count = ::epoll_wait(epoll_, events.data(), events.size(), timeout_ms);
    if (count < 0 && errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "epoll_wait");
    }
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (!connections_[event.data.u32].unsent.empty()) flush(event.data.u32);
      receive(event.data.u32);
    }
    return count > 0;
  }

 private:
  struct Connection {
    int fd = -1;
    std::vector<char> unsent;  // nearly always empty
  };

  void control(std::uint32_t index, int operation, std::uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u32 = index;
    if (::epoll_ctl(epoll_, operation, connections_[index].fd, &event) < 0) {
      throw std::system_error(errno, std::generic_category(), "epoll_ctl");
    }
  }

  std::size_t try_send(std::uint32_t index, std::span<const char> bytes) {
    const ssize_t result =
        ::send(connections_[index].fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (result < 0 && errno != EAGAIN) receiver_.on_end(index, errno);
    return result < 0 ? 0 : static_cast<std::size_t>(result);
  }

  void flush(std::uint32_t index) {
    auto& unsent = connections_[index].unsent;
    unsent.erase(unsent.begin(),
                 unsent.begin() + static_cast<std::ptrdiff_t>(try_send(index, unsent)));
  }

  // A read that does not fill the buffer has emptied the socket; an end of the stream that came
  // along with the data is nothing a client of an echo server needs to see at once.
  void receive(std::uint32_t index) {
    ssize_t size = 0;
    do {
      const int fd = connections_[index].fd;
      size = ::recv(fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (size < 0 && errno == EAGAIN) return;
      if (size <= 0) return receiver_.on_end(index, size < 0 ? errno : 0);
      receiver_.on_bytes(index, {buffer_.data(), static_cast<std::size_t>(size)});
    } while (static_cast<std::size_t>(size) == buffer_.size());
  }

  Receiver& receiver_;
  const int epoll_;
  std::vector<Connection> connections_;
  std::array<char, 65536> buffer_;
};

}  // namespace

std::unique_ptr<Transport> make_epoll_transport(std::uint32_t connections, Receiver& receiver) {
  return std::make_unique<EpollTransport>(connections, receiver);
}

}  // namespace weft::bench

/// What the raw servers that wait for readiness have in common: connections are served when there
/// was a change. One buffer for all of them, no state per connection unless a send comes up short.
#pragma once

#include <array>
#include <cerrno>
#include <string>
#include <unordered_map>

#include <sys/socket.h>
#include <unistd.h>

namespace weft::bench {

class ReadySockets {
 public:
  /// Something has changed. `ended`: maybe the peer has ended.
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

 private:
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

  // A poll of io_uring keeps the connection open; without shutdown() its peer would not notice.
  void close(int fd) {
    unsent_.erase(fd);
    ::shutdown(fd, SHUT_RDWR);
    ::close(fd);
  }

  std::unordered_map<int, std::string> unsent_;
  std::array<char, 65536> buffer_;
};

}  // namespace weft::bench

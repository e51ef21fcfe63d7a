/// The socket that a hand-written server listens on.
#pragma once

#include <cerrno>
#include <cstdint>
#include <system_error>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace weft::bench {

inline void check(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

/// At any port of the loopback device: which one, is in `port`.
inline int listen_on_loopback(std::uint16_t& port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(fd >= 0, "socket");
  const int on = 1;
  check(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  check(::bind(fd, generic, size) == 0, "bind");
  check(::listen(fd, 4096) == 0, "listen");
  check(::getsockname(fd, generic, &size) == 0, "getsockname");
  port = ntohs(address.sin_port);
  return fd;
}

}  // namespace weft::bench

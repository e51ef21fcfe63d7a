// The echo servers that bench/net has on bare epoll and bare io_uring.
#include "net/servers.hpp"

#include "limit.hpp"

#include <array>
#include <cerrno>
#include <system_error>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace limit {

namespace {

using suite::Benchmark;
using suite::Run;

void check(bool good, const char* what) {
  if (!good) throw std::system_error(errno, std::generic_category(), what);
}

void serve(void (*server)(int listen_fd, int stop_fd)) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  check(listener >= 0, "socket");
  const int on = 1;
  check(::setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  check(::bind(listener, generic, size) == 0, "bind");
  check(::listen(listener, 4096) == 0, "listen");
  check(::getsockname(listener, generic, &size) == 0, "getsockname");
  suite::announce_port(ntohs(address.sin_port));
  server(listener, STDIN_FILENO);
}

void epoll(const Run&) {
  serve(&weft::bench::run_raw_epoll);
}
#if defined(WEFT_BENCH_URING)
void uring(const Run&) {
  serve(&weft::bench::run_raw_uring);
}
#endif

constexpr std::array all{
    Benchmark{"serve", "", 1, nullptr, &epoll},
#if defined(WEFT_BENCH_URING)
    Benchmark{"serve_uring", "", 1, nullptr, &uring},
#endif
};

}  // namespace

std::span<const Benchmark> servers() {
  return all;
}

}  // namespace limit

// The echo servers that bench/net has on bare epoll and bare io_uring.
#include "net/servers.hpp"

#include "limit.hpp"
#include "net/listen.hpp"

#include <array>

#include <unistd.h>

namespace limit {

namespace {

using suite::Benchmark;
using suite::Run;

void serve(void (*server)(int listen_fd, int stop_fd)) {
  std::uint16_t port = 0;
  const int listener = weft::bench::listen_on_loopback(port);
  suite::announce_port(port);
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

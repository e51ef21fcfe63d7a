// weft's echo servers: a fiber or a coroutine for each connection, on one loop.
//
// serve and serve_coro wait as the library chooses; _epoll says which way.
#include <weft/weft.hpp>

#include "suite/weft_suite.hpp"

#include <array>
#include <system_error>

#include <unistd.h>

namespace weft::bench {

namespace {

constexpr std::size_t buffer_size = 1024;  // every contender's; an idle fiber needs one page
constexpr std::size_t server_stack = 32 << 10;

void echo(const TcpStream& connection) {
  std::array<std::byte, buffer_size> buffer;
  try {
    while (const std::size_t n = connection.read(buffer)) connection.write(Bytes(buffer).first(n));
  } catch (const std::system_error&) {  // the client closes with a reset
  }
}
Coro<> co_echo(TcpStream connection) {
  std::array<std::byte, buffer_size> buffer;
  try {
    while (const std::size_t n = co_await connection.read_op(buffer)) {
      co_await connection.write_op(Bytes(buffer).first(n));
    }
  } catch (const std::system_error&) {
  }
}

template <class Serve>
void serve_on(Loop& loop, Serve serve) {
  loop.run([&] {
    TcpListener listener = TcpListener::bind("127.0.0.1:0");
    suite::announce_port(listener.local().port());
    Fd input = adopt_fd(::dup(STDIN_FILENO));
    Scope scope({.on_failure = OnFailure::isolate});
    for (;;) {
      auto won = select(listener.accept_op(), input.readable_op());
      if (won.index() == 1) break;
      serve(scope, std::get<0>(std::move(won)));
    }
    scope.cancel();
  });
}
void fibers(Scope& scope, TcpStream connection) {
  scope.spawn([c = std::move(connection)] { echo(c); });
}
void coroutines(Scope& scope, TcpStream connection) {
  scope.spawn(co_echo(std::move(connection)));
}

void serve_fiber(const Run&) {
  Loop loop({.io = {.stack_size = server_stack}});
  serve_on(loop, &fibers);
}
void serve_coro(const Run&) {
  Loop loop;
  serve_on(loop, &coroutines);
}
void serve_epoll(const Run&) {
  Loop loop({.io = {.stack_size = server_stack},
             .kernel = make_real_kernel({.backend = Backend::epoll})});
  serve_on(loop, &fibers);
}

constexpr std::array all{
    Benchmark{"serve", "", 1, nullptr, &serve_fiber},
    Benchmark{"serve_coro", "", 1, nullptr, &serve_coro},
    Benchmark{"serve_epoll", "", 1, nullptr, &serve_epoll},
};

}  // namespace

std::span<const Benchmark> servers() {
  return all;
}

}  // namespace weft::bench

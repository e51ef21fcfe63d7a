// weft's echo servers: one fiber or one coroutine per connection, on each kernel.
#include <weft/weft.hpp>

#include "net/servers.hpp"

#include <array>
#include <system_error>

#include <fcntl.h>
#include <sys/socket.h>

namespace weft::bench {

namespace {

// Small enough that an idle fiber needs one page of stack, and an idle coroutine a small frame.
constexpr std::size_t fiber_buffer = 1024;
constexpr std::size_t coroutine_buffer = 448;

class AcceptOp : public SourceOp<AcceptOp, Direction::read> {
 public:
  using Result = Fd;
  static constexpr Reason reason{"accept"};
  using SourceOp::SourceOp;
  SysResult call(Source& s) noexcept { return s.world().accept(s.fd(), nullptr, nullptr); }
  bool absorb(SysResult, std::uint32_t) noexcept { return true; }
  Fd take() {
    return Fd(source().shared_world(), static_cast<int>(checked("accept")), Source::Kind::tcp);
  }
};

void serve_fiber(const Fd& connection) {
  std::array<std::byte, fiber_buffer> buffer;
  while (const std::size_t n = connection.read(buffer)) connection.write(Bytes(buffer).first(n));
}

void fibers(Backend backend, int listen_fd, int stop_fd) {
  Loop loop({.io = {.stack_size = 32 << 10}, .kernel = make_real_kernel({.backend = backend})});
  loop.run([&] {
    Fd listener = adopt_fd(::dup(listen_fd));
    Fd stop = adopt_fd(::dup(stop_fd));
    Scope scope({.on_failure = OnFailure::isolate});
    for (;;) {
      auto won = select(AcceptOp(listener.source()), stop.readable_op());
      if (won.index() == 1) break;
      scope.spawn([c = std::get<0>(std::move(won))] {
        try {
          serve_fiber(c);
        } catch (const std::system_error&) {
        }
      });
    }
    scope.cancel();
  });
}

Coro<> serve_coroutine(Fd connection) {
  std::array<std::byte, coroutine_buffer> buffer;
  try {
    while (const std::size_t n = co_await connection.read_op(buffer)) {
      co_await connection.write_op(Bytes(buffer).first(n));
    }
  } catch (const std::system_error&) {
  }
}

void coroutines(Backend backend, int listen_fd, int stop_fd) {
  Loop loop({.kernel = make_real_kernel({.backend = backend})});
  loop.run([&]() -> Coro<> {
    Fd listener = adopt_fd(::dup(listen_fd));
    Fd stop = adopt_fd(::dup(stop_fd));
    Scope scope({.on_failure = OnFailure::isolate});
    for (;;) {
      auto won = co_await race(AcceptOp(listener.source()), stop.readable_op());
      if (won.index() == 1) break;
      scope.spawn(serve_coroutine(std::get<0>(std::move(won))));
    }
    scope.cancel();
    co_await scope.joined();
  });
}

void fiber_epoll(int l, int s) {
  fibers(Backend::epoll, l, s);
}
void fiber_uring(int l, int s) {
  fibers(Backend::uring, l, s);
}
void coro_epoll(int l, int s) {
  coroutines(Backend::epoll, l, s);
}
void coro_uring(int l, int s) {
  coroutines(Backend::uring, l, s);
}

constexpr std::array all{
    Server{"weft-fiber", &fiber_epoll},
    Server{"weft-coro", &coro_epoll},
    Server{"weft-fiber-uring", &fiber_uring},
    Server{"weft-coro-uring", &coro_uring},
};

}  // namespace

std::span<const Server> weft_servers() {
  return all;
}

}  // namespace weft::bench

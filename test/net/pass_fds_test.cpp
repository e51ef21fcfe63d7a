// Descriptors that travel through Unix sockets.
#include <weft/net/unix.hpp>

#include "net/net.hpp"

#include <array>

#include <fcntl.h>
#include <unistd.h>

using namespace weft;
using namespace weft::test;

namespace {

struct Pipe {
  Fd read, write;
};

Pipe make_pipe() {
  int fds[2];
  check_sys(this_world()->pipe(fds), "pipe");
  return {Fd(this_world(), fds[0], Source::Kind::pipe),
          Fd(this_world(), fds[1], Source::Kind::pipe)};
}

Coro<> send_copies(const UnixStream& to, const Fd& fd, std::size_t count) {
  const std::vector<int> fds(count, fd.number());
  co_await to.send_op(as_bytes("take"), fds);
}

REAL(PassFds, T16_ADescriptorArrivesAndWorks) {
  auto [a, b] = UnixStream::pair();
  std::array<std::byte, 16> buffer;
  UnixMessage got;
  {
    Pipe pipe = make_pipe();
    const std::array fds{pipe.read.number(), pipe.write.number()};
    EXPECT_EQ(co_await a.send_op(as_bytes("a pipe"), fds), 6U);
    got = co_await b.recv_op(buffer);
  }  // ours are closed, theirs are not
  EXPECT_EQ(got.size, 6U);
  EXPECT_FALSE(got.fds_lost);
  EXPECT_EQ(got.fds.size(), 2U);
  for (const Fd& fd : got.fds) {
    EXPECT_EQ(::fcntl(fd.number(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(::fcntl(fd.number(), F_GETFL) & O_NONBLOCK, O_NONBLOCK);
  }
  Scope scope;
  auto reader = here.spawn(
      scope, [&]() -> Coro<std::size_t> { co_return co_await got.fds[0].read_op(buffer); });
  co_await sleep_op(1ms);
  co_await got.fds[1].write_op(as_bytes("through"));
  EXPECT_EQ((co_await reader.join_op()).value(), 7U);
}

REAL(PassFds, T16_AnAcceptedConnectionCanBeHandedOn) {
  Connected c = co_await co_connected();
  auto [a, b] = UnixStream::pair();
  const std::array fds{c.server.fd().number()};
  co_await a.send_op(as_bytes("x"), fds);
  c.server.close();
  std::array<std::byte, 1> buffer;
  UnixMessage got = co_await b.recv_op(buffer);
  const TcpStream server(std::move(got.fds.at(0)));
  co_await server.write_op(as_bytes("from the new owner"));
  server.shutdown_write();
  EXPECT_EQ(co_await read_all(c.client), "from the new owner");
}

REAL(PassFds, T16_LargeMessagesCarryThemOnTheFirstByte) {
  auto [a, b] = UnixStream::pair();
  const Pipe pipe = make_pipe();
  const auto data = pattern(2 << 20);
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    const std::array fds{pipe.write.number()};
    EXPECT_EQ(co_await a.send_op(data, fds), data.size());
    a.close();
  });
  std::vector<std::byte> buffer(10'000);
  std::size_t total = 0;
  std::size_t fds = 0;
  for (;;) {
    const UnixMessage m = co_await b.recv_op(buffer);
    if (m.size == 0) break;
    EXPECT_TRUE(fits(ConstBytes(buffer).first(m.size), total));
    if (total > 0) {
      EXPECT_TRUE(m.fds.empty());
    }
    fds += m.fds.size();
    total += m.size;
  }
  EXPECT_EQ(total, data.size());
  EXPECT_EQ(fds, 1U);
  co_await scope.joined();
}

REAL(PassFds, T16_TooManyAreClosedAndReported) {
  auto [a, b] = UnixStream::pair();
  const Pipe pipe = make_pipe();
  std::array<std::byte, 16> buffer;
  const std::size_t before = open_descriptors();
  for (const std::size_t most : {0U, 1U, 2U, 3U}) {
    co_await send_copies(a, pipe.write, 4);
    {
      const UnixMessage got = co_await b.recv_op(buffer, most);
      EXPECT_EQ(got.size, 4U);
      EXPECT_EQ(got.fds.size(), most);
      EXPECT_TRUE(got.fds_lost);
      EXPECT_EQ(open_descriptors(), before + most);
    }
    EXPECT_EQ(open_descriptors(), before);
  }
  co_await send_copies(a, pipe.write, most_passed_fds);
  EXPECT_EQ((co_await b.recv_op(buffer)).fds.size(), most_passed_fds);
  // A plain read gets the bytes, and the descriptors go nowhere.
  co_await send_copies(a, pipe.write, 4);
  EXPECT_EQ(co_await b.read_op(buffer), 4U);
  EXPECT_EQ(open_descriptors(), before);

  const std::vector<int> many(most_passed_fds + 1, pipe.write.number());
  EXPECT_THROW(static_cast<void>(a.send_op(as_bytes("x"), many)), std::length_error);
  EXPECT_THROW(static_cast<void>(a.send_op({}, std::span(many).first(1))), std::invalid_argument);
}

REAL(PassFds, T16_NoRoomInTheProcessIsReportedToo) {
  if (!FewDescriptors::possible()) co_return;
  auto [a, b] = UnixStream::pair();
  const Pipe pipe = make_pipe();
  co_await send_copies(a, pipe.write, 4);
  std::array<std::byte, 16> buffer;
  UnixMessage got;
  {
    const FewDescriptors few(1);
    got = co_await b.recv_op(buffer);
  }
  EXPECT_EQ(got.size, 4U);
  EXPECT_EQ(got.fds.size(), 1U);
  EXPECT_TRUE(got.fds_lost);
}

REAL(PassFds, C16_TheLoserHasTakenNone) {
  auto [a, b] = UnixStream::pair();
  auto [c, d] = UnixStream::pair();
  const Pipe pipe = make_pipe();
  std::array<std::byte, 16> buffer;
  std::array<std::byte, 16> other;
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 50; ++i) {
    co_await send_copies(a, pipe.write, 2);
    co_await c.write_op(as_bytes("x"));
    std::size_t fds = 0;
    for (int k = 0; k < 2; ++k) {
      auto won = co_await race(b.recv_op(buffer), d.read_op(other));
      if (won.index() == 0) fds += std::get<0>(won).fds.size();
    }
    EXPECT_EQ(fds, 2U);
    EXPECT_EQ(open_descriptors(), before);
  }
}

REAL(PassFds, T16_WhatNobodyTakesIsClosed) {
  auto [a, b] = UnixStream::pair();
  const Pipe pipe = make_pipe();
  std::array<std::byte, 16> buffer;
  const std::size_t before = open_descriptors();
  co_await send_copies(a, pipe.write, 3);
  {
    auto op = b.recv_op(buffer);
    EXPECT_TRUE(op.try_now());
    EXPECT_EQ(open_descriptors(), before + 3);
    auto moved = std::move(op);
    EXPECT_EQ(open_descriptors(), before + 3);
  }
  EXPECT_EQ(open_descriptors(), before);
  co_await send_copies(a, pipe.write, 3);  // and in the queue of a socket that is closed
  b.close();
}

REAL(PassFds, T16_Datagrams) {
  auto [a, b] = UnixDatagram::pair();
  const Pipe pipe = make_pipe();
  const std::array fds{pipe.write.number()};
  co_await a.send_op({}, fds);  // a datagram may be empty
  std::array<std::byte, 16> buffer;
  UnixMessage got = co_await b.recv_op(buffer);
  EXPECT_EQ(got.size, 0U);
  EXPECT_EQ(got.fds.size(), 1U);
}

}  // namespace

#include <weft/net/tcp.hpp>

#include "net/net.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <memory>
#include <thread>

using namespace weft;
using namespace weft::test;

namespace {

Coro<> echo(TcpStream stream) {
  co_await co_copy(stream, stream);
}

/// Serves `count` connections with an echo each.
Coro<> echo_server(Here& here, const TcpListener& listener, std::size_t count) {
  Scope scope;
  for (std::size_t i = 0; i < count; ++i) {
    auto stream = std::make_shared<TcpStream>(co_await listener.accept_op());
    here.spawn(scope, [stream]() -> Coro<> { co_await co_copy(*stream, *stream); });
  }
  co_await scope.joined();
}

REAL(Tcp, T16_Echo) {
  auto listener = TcpListener::bind("127.0.0.1:0");
  EXPECT_NE(listener.local().port(), 0);
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> { co_await echo(co_await listener.accept_op()); });
  TcpStream client = co_await TcpStream::connect_op(listener.local());
  EXPECT_EQ(client.peer(), listener.local());
  EXPECT_TRUE(client.local().is_loopback());
  co_await client.write_op(as_bytes("hello"));
  std::array<std::byte, 64> buffer;
  EXPECT_EQ(co_await read_fully(client, Bytes(buffer).first(5)), 5U);
  EXPECT_EQ(as_text(ConstBytes(buffer).first(5)), "hello");
  client.shutdown_write();
  EXPECT_EQ(co_await client.read_op(buffer), 0U);
  co_await scope.joined();
}

REAL(Tcp, T16_HalfCloseLeavesTheOtherDirection) {
  Connected c = co_await co_connected();
  co_await c.client.write_op(as_bytes("question"));
  c.client.shutdown_write();
  EXPECT_EQ(co_await read_all(c.server), "question");
  co_await c.server.write_op(as_bytes("a long answer"));
  c.server.close();
  EXPECT_EQ(co_await read_all(c.client), "a long answer");
}

REAL(Tcp, T16_LargeTransfersBothWaysAtOnce) {
  Connected c = co_await co_connected();
  const std::size_t size = scaled(1 << 20, 8 << 20, 64 << 20);
  auto send = [&](const TcpStream& to, std::uint64_t stream) -> Coro<> {
    for (std::size_t at = 0; at < size;) {
      const auto part = pattern(std::min<std::size_t>(size - at, 100'001), at, stream);
      co_await to.write_op(part);
      at += part.size();
    }
    to.shutdown_write();
  };
  auto receive = [&](const TcpStream& from, std::uint64_t stream) -> Coro<std::size_t> {
    std::vector<std::byte> buffer(60'000);
    std::size_t at = 0;
    while (const std::size_t n = co_await from.read_op(Bytes(buffer))) {
      EXPECT_TRUE(fits(ConstBytes(buffer).first(n), at, stream)) << "near " << at;
      at += n;
    }
    co_return at;
  };
  Scope scope;
  here.spawn(scope, [&] { return send(c.client, 1); });
  here.spawn(scope, [&] { return send(c.server, 2); });
  auto at_server = here.spawn(scope, [&] { return receive(c.server, 1); });
  auto at_client = here.spawn(scope, [&] { return receive(c.client, 2); });
  EXPECT_EQ((co_await at_server.join_op()).value(), size);
  EXPECT_EQ((co_await at_client.join_op()).value(), size);
  co_await scope.joined();
}

REAL(Tcp, T16_ResetIsAnError) {
  Connected c = co_await co_connected();
  Scope scope;
  auto reader = here.spawn(scope, [&]() -> Coro<int> {
    std::array<std::byte, 8> buffer;
    co_return co_await error_of(c.server.read_op(buffer));
  });
  co_await sleep_op(1ms);
  c.client.set_linger(0s);
  c.client.close();
  EXPECT_EQ((co_await reader.join_op()).value(), ECONNRESET);
  // And writing to it neither hangs nor raises a signal.
  EXPECT_EQ(co_await error_of(c.server.write_op(as_bytes("to nobody"))), EPIPE);
}

REAL(Tcp, T16_WritingToAPeerThatWentAway) {
  Connected c = co_await co_connected();
  c.client.close();
  const auto data = pattern(100'000);
  int error = 0;
  for (int i = 0; i < 100 && error == 0; ++i) error = co_await error_of(c.server.write_op(data));
  EXPECT_TRUE(error == EPIPE || error == ECONNRESET) << error;
}

REAL(Tcp, T16_ManyConnectionsAtOnce) {
  constexpr std::size_t count = 200;
  auto listener = TcpListener::bind("127.0.0.1:0");
  Scope scope;
  here.spawn(scope, [&] { return echo_server(here, listener, count); });
  std::size_t good = 0;
  for (std::size_t i = 0; i < count; ++i) {
    here.spawn(scope, [&, i]() -> Coro<> {
      const TcpStream stream = co_await TcpStream::connect_op(listener.local());
      std::vector<std::byte> buffer(500);
      for (std::size_t round = 0; round < 5; ++round) {
        co_await stream.write_op(pattern(buffer.size(), round, i));
        const std::size_t n = co_await read_fully(stream, buffer);
        if (n == buffer.size() && fits(buffer, round, i)) ++good;
      }
    });
  }
  co_await scope.joined();
  EXPECT_EQ(good, count * 5);
}

REAL(Tcp, T16_SlowPeerHoldsNobodyElse) {
  Connected slow = co_await co_connected();
  Connected quick = co_await co_connected();
  Scope scope;
  auto stuck = here.spawn(scope, [&]() -> Coro<int> {
    const std::vector<std::byte> data(16 << 20);  // more than any buffer on the way
    co_return co_await error_of(slow.server.write_op(data));
  });
  here.spawn(scope, [&]() -> Coro<> { co_await co_copy(quick.server, quick.server); });
  std::array<std::byte, 4> buffer;
  for (int i = 0; i < 500; ++i) {
    co_await quick.client.write_op(as_bytes("ping"));
    EXPECT_EQ(co_await read_fully(quick.client, buffer), 4U);
  }
  EXPECT_FALSE(stuck.done());
  quick.client.close();
  slow.client.close();
  const int error = (co_await stuck.join_op()).value();
  EXPECT_TRUE(error == EPIPE || error == ECONNRESET) << error;
  co_await scope.joined();
}

REAL(Tcp, T16_Vectored) {
  Connected c = co_await co_connected();
  const auto big = pattern(3 << 20);
  const std::array<ConstBytes, 3> parts{as_bytes("head"), ConstBytes(big), as_bytes("tail")};
  Scope scope;
  auto writer = here.spawn(scope, [&]() -> Coro<std::size_t> {
    const std::size_t n = co_await c.client.write_op(parts);
    c.client.shutdown_write();
    co_return n;
  });
  std::array<std::byte, 4> head;
  std::vector<std::byte> rest(1000);
  const std::array<Bytes, 2> into{Bytes(head), Bytes(rest)};
  std::size_t total = co_await c.server.read_op(into);
  EXPECT_GE(total, 4U);
  EXPECT_EQ(as_text(head), "head");
  EXPECT_TRUE(fits(ConstBytes(rest).first(total - 4), 0));
  total += (co_await read_all(c.server)).size();
  EXPECT_EQ(total, big.size() + 8);
  EXPECT_EQ((co_await writer.join_op()).value(), total);
}

REAL(Tcp, T16_SendFile) {
  Connected c = co_await co_connected();
  const auto data = pattern(1 << 20);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  EXPECT_EQ(std::fwrite(data.data(), 1, data.size(), file.get()), data.size());
  std::fflush(file.get());
  Scope scope;
  auto sender = here.spawn(scope, [&]() -> Coro<std::uint64_t> {
    // More than there is: it ends at the end of the file.
    const auto n = co_await c.server.send_file_op(::fileno(file.get()), 1000, 10 << 20);
    c.server.shutdown_write();
    co_return n;
  });
  const std::string got = co_await read_all(c.client);
  EXPECT_EQ((co_await sender.join_op()).value(), data.size() - 1000);
  EXPECT_EQ(got.size(), data.size() - 1000);
  EXPECT_TRUE(fits(as_bytes(got), 1000));
  EXPECT_EQ(co_await error_of(c.server.send_file_op(::fileno(file.get()), 0, 10)), EPIPE);
}

REAL(Tcp, T16_CopyCarriesAllAndCounts) {
  Connected a = co_await co_connected();
  Connected b = co_await co_connected();
  Scope scope;
  // a.client -> a.server ==copy==> b.client -> b.server
  auto pump = here.spawn(scope, [&]() -> Coro<std::uint64_t> {
    const std::uint64_t n = co_await co_copy(a.server, b.client, 1000);
    b.client.shutdown_write();
    co_return n;
  });
  here.spawn(scope, [&]() -> Coro<> {
    co_await a.client.write_op(pattern(300'000));
    a.client.shutdown_write();
  });
  const std::string got = co_await read_all(b.server);
  EXPECT_EQ(got.size(), 300'000U);
  EXPECT_TRUE(fits(as_bytes(got), 0));
  EXPECT_EQ((co_await pump.join_op()).value(), 300'000U);
  co_await scope.joined();
}

REAL(Tcp, T16_LinesThroughReaderAndWriter) {
  Connected c = co_await co_connected();
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    Writer out(c.client);
    for (int i = 0; i < 1000; ++i) {
      co_await out.write_op(as_bytes("line " + std::to_string(i) + "\n"));
    }
    co_await out.flush_op();
    c.client.shutdown_write();
  });
  Reader in(c.server);
  int count = 0;
  while (const auto line = co_await in.line_op()) {
    EXPECT_EQ(*line, "line " + std::to_string(count));
    ++count;
  }
  EXPECT_EQ(count, 1000);
  co_await scope.joined();
}

REAL(Tcp, T16_Options) {
  Connected c = co_await co_connected();
  EXPECT_TRUE(c.client.nodelay());
  EXPECT_TRUE(c.server.nodelay());
  c.server.set_nodelay(false);
  EXPECT_FALSE(c.server.nodelay());
  c.client.set_keepalive(30s, 5s, 3);
  EXPECT_EQ(c.client.option<int>(SOL_SOCKET, SO_KEEPALIVE), 1);
  c.client.no_keepalive();
  EXPECT_EQ(c.client.option<int>(SOL_SOCKET, SO_KEEPALIVE), 0);
  c.client.set_receive_buffer(100'000);
  EXPECT_GE(c.client.option<int>(SOL_SOCKET, SO_RCVBUF), 100'000);
  TcpStream moved = std::move(c.client);
  EXPECT_FALSE(c.client);
  EXPECT_TRUE(moved);
  moved.close();
  EXPECT_FALSE(moved);
  EXPECT_THROW(moved.set_nodelay(true), std::system_error);
  EXPECT_THROW(static_cast<void>(c.client.peer()), std::system_error);
}

REAL(Tcp, T16_IPv6Loopback) {
  if (!have_ipv6()) co_return;
  auto listener = TcpListener::bind(Address::loopback6(0));
  TcpStream client = co_await TcpStream::connect_op(listener.local());
  TcpStream server = co_await listener.accept_op();
  EXPECT_TRUE(server.peer().is_v6());
  co_await client.write_op(as_bytes("six"));
  client.close();
  EXPECT_EQ(co_await read_all(server), "six");

  auto both = TcpListener::bind(":0");  // IPv4 clients reach it too
  EXPECT_TRUE(both.local().is_v6());
  TcpStream four = co_await TcpStream::connect_op(Address::loopback(both.local().port()));
  TcpStream accepted = co_await both.accept_op();
  EXPECT_TRUE(accepted.peer().is_loopback());
}

REAL(Tcp, T16_AddressInUseSaysWhich) {
  auto listener = TcpListener::bind("127.0.0.1:0");
  const std::string text = listener.local().to_string();
  try {
    static_cast<void>(TcpListener::bind(listener.local()));
    ADD_FAILURE() << "bound twice";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EADDRINUSE);
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
  auto one = TcpListener::bind("127.0.0.1:0", {.reuse_port = true});
  auto two = TcpListener::bind(one.local(), {.reuse_port = true});
  EXPECT_EQ(one.local(), two.local());
  EXPECT_THROW(static_cast<void>(TcpListener::bind("unix:/tmp/x")), std::invalid_argument);
  co_return;
}

TEST(Tcp, S1_PlainThreadsTalk) {
  auto listener = TcpListener::bind("127.0.0.1:0");
  std::thread server([&] {
    const TcpStream stream = listener.accept();
    EXPECT_EQ(copy(stream, stream), 500U);
  });
  const TcpStream client = TcpStream::connect(listener.local().to_string());
  std::array<std::byte, 5> buffer;
  for (int i = 0; i < 100; ++i) {
    client.write("hello");
    EXPECT_EQ(await(read_fully(client, buffer)), 5U);
  }
  client.shutdown_write();
  EXPECT_EQ(client.read(buffer), 0U);
  server.join();
}

TEST(Tcp, S3_OneListenerServedByTwoLoops) {
  constexpr std::size_t count = 100;
  auto listener = TcpListener::bind("127.0.0.1:0");
  std::atomic<std::size_t> accepted{0};
  auto serve = [&] {
    Loop loop;
    loop.run([&] {
      Scope scope;
      try {
        for (;;) {
          auto stream = std::make_shared<TcpStream>(listener.accept());
          ++accepted;
          scope.spawn([stream] { copy(*stream, *stream); });
        }
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), EBADF);  // closed: that is the end
      }
    });
  };
  std::thread one(serve);
  std::thread two(serve);
  Loop loop;
  loop.run([&] {
    Scope scope;
    for (std::size_t i = 0; i < count; ++i) {
      scope.spawn([&] {
        const TcpStream stream = TcpStream::connect(listener.local());
        std::array<std::byte, 4> buffer;
        stream.write("ping");
        EXPECT_EQ(await(read_fully(stream, buffer)), 4U);
      });
    }
  });
  listener.close();
  one.join();
  two.join();
  EXPECT_EQ(accepted, count);
}

}  // namespace

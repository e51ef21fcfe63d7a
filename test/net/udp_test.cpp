#include <weft/net/udp.hpp>

#include "net/net.hpp"

#include <array>

#include <net/if.h>

using namespace weft;
using namespace weft::test;

namespace {

REAL(Udp, T16_SendAndReceive) {
  auto a = UdpSocket::bind("127.0.0.1:0");
  auto b = UdpSocket::bind("127.0.0.1:0");
  Scope scope;
  auto receiver = here.spawn(scope, [&]() -> Coro<Datagram> {
    std::array<std::byte, 100> buffer;
    co_return co_await b.recv_from_op(buffer);
  });
  co_await sleep_op(1ms);
  EXPECT_FALSE(receiver.done());
  EXPECT_EQ(co_await a.send_to_op(as_bytes("hello"), b.local()), 5U);
  const Datagram got = (co_await receiver.join_op()).value();
  EXPECT_EQ(got.size, 5U);
  EXPECT_EQ(got.from, a.local());
  EXPECT_FALSE(got.truncated);
}

REAL(Udp, T16_BoundariesStay) {
  auto a = UdpSocket::bind("127.0.0.1:0");
  auto b = UdpSocket::bind("127.0.0.1:0");
  co_await a.send_to_op(as_bytes("one"), b.local());
  co_await a.send_to_op({}, b.local());
  co_await a.send_to_op(as_bytes("a longer one"), b.local());
  std::array<std::byte, 8> buffer;
  EXPECT_EQ((co_await b.recv_from_op(buffer)).size, 3U);
  EXPECT_EQ((co_await b.recv_from_op(buffer)).size, 0U);  // empty, and not an end
  const Datagram cut = co_await b.recv_from_op(buffer);
  EXPECT_EQ(cut.size, 8U);
  EXPECT_TRUE(cut.truncated);
  EXPECT_EQ(as_text(buffer), "a longer");
  EXPECT_FALSE((co_await timeout(b.recv_from_op(buffer), 1ms)).has_value());
  const std::vector<std::byte> too_long(70'000);
  EXPECT_EQ(co_await error_of(a.send_to_op(too_long, b.local())), EMSGSIZE);
}

REAL(Udp, T16_ConnectedHearsOnlyItsPeer) {
  auto server = UdpSocket::bind("127.0.0.1:0");
  auto stranger = UdpSocket::bind("127.0.0.1:0");
  auto client = UdpSocket::connected(server.local());
  EXPECT_EQ(client.peer(), server.local());
  co_await stranger.send_to_op(as_bytes("psst"), client.local());
  co_await client.send_op(as_bytes("ping"));
  std::array<std::byte, 100> buffer;
  const Datagram ping = co_await server.recv_from_op(buffer);
  co_await server.send_to_op(as_bytes("pong"), ping.from);
  const Datagram pong = co_await client.recv_op(buffer);
  EXPECT_EQ(as_text(Bytes(buffer).first(pong.size)), "pong");
  EXPECT_EQ(pong.from, server.local());
}

REAL(Udp, T16_RefusedIsReportedOnceAndDoesNotSpin) {
  auto gone = UdpSocket::bind("127.0.0.1:0");
  const Address nobody = gone.local();
  gone.close();
  auto client = UdpSocket::connected(nobody);
  std::array<std::byte, 100> buffer;
  Scope scope;
  for (int i = 0; i < 5; ++i) {
    auto waiting = here.spawn(scope, [&] { return error_of(client.recv_op(buffer)); });
    co_await sleep_op(100us);
    co_await client.send_op(as_bytes("anybody?"));
    EXPECT_EQ((co_await waiting.join_op()).value(), ECONNREFUSED);
    // The error is used up: now it waits again, really.
    EXPECT_FALSE((co_await timeout(client.recv_op(buffer), 1ms)).has_value());
    EXPECT_FALSE(client.recv_op(buffer).try_now());
  }
  // And the socket works once somebody is there.
  auto back = UdpSocket::bind(nobody);
  co_await client.send_op(as_bytes("hello"));
  EXPECT_EQ((co_await back.recv_from_op(buffer)).from, client.local());
}

REAL(Udp, F9_CancelledReceiveTakesNothing) {
  auto a = UdpSocket::bind("127.0.0.1:0");
  auto b = UdpSocket::bind("127.0.0.1:0");
  std::array<std::byte, 8> buffer;
  for (int i = 0; i < 50; ++i) {
    Scope scope;
    auto waiting = here.spawn(
        scope, [&]() -> Coro<std::size_t> { co_return (co_await b.recv_from_op(buffer)).size; });
    if (i % 2 == 0) co_await sleep_op(50us);
    co_await a.send_to_op(as_bytes("x"), b.local());
    waiting.cancel();
    const auto outcome = co_await waiting.join_op();
    const std::size_t got = outcome.cancelled() ? 0 : outcome.value();
    if (got == 0) {
      EXPECT_EQ((co_await b.recv_from_op(buffer)).size, 1U);
    }
  }
}

REAL(Udp, T16_IPv6) {
  if (!have_ipv6()) co_return;
  auto a = UdpSocket::bind("[::1]:0");
  auto b = UdpSocket::bind("[::1]:0", {.ipv6_only = true});
  co_await a.send_to_op(as_bytes("six"), b.local());
  std::array<std::byte, 8> buffer;
  EXPECT_EQ((co_await b.recv_from_op(buffer)).from, a.local());
}

REAL(Udp, T16_Multicast) {
  const Address group = Address::parse("239.255.77.1:0");
  const unsigned lo = ::if_nametoindex("lo");
  auto receiver = UdpSocket::bind("0.0.0.0:0", {.reuse_address = true});
  try {
    receiver.join(group, lo);
  } catch (const std::system_error& error) {
    std::printf("note: multicast not tested, because %s\n", error.what());
    co_return;
  }
  auto sender = UdpSocket::bind("127.0.0.1:0");
  sender.set_multicast_interface(lo);
  sender.set_multicast_hops(1);
  sender.set_multicast_loop(true);
  std::array<std::byte, 8> buffer;
  const Address there = group.with_port(receiver.local().port());
  co_await sender.send_to_op(as_bytes("all"), there);
  const auto got = co_await timeout(receiver.recv_from_op(buffer), 5s);
  EXPECT_TRUE(got.has_value());
  receiver.leave(group, lo);
  EXPECT_THROW(receiver.leave(group, lo), std::system_error);
}

REAL(Udp, T16_Broadcast) {
  auto socket = UdpSocket::bind("0.0.0.0:0");
  const Address everybody = Address::parse("127.255.255.255:9");
  EXPECT_EQ(co_await error_of(socket.send_to_op(as_bytes("x"), everybody)), EACCES);
  socket.set_broadcast(true);
  EXPECT_EQ(co_await error_of(socket.send_to_op(as_bytes("x"), everybody)), 0);
}

TEST(Udp, S1_PlainThreads) {
  const auto a = UdpSocket::bind("127.0.0.1:0");
  const auto b = UdpSocket::connected(a.local());
  b.send(as_bytes("ping"));
  std::array<std::byte, 8> buffer;
  const Datagram got = a.recv_from(buffer);
  a.send_to(as_bytes("pong!"), got.from);
  EXPECT_EQ(b.recv(buffer).size, 5U);
}

}  // namespace

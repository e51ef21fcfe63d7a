// Streams on which a kernel receives and sends by itself (Carrier, io/kernel.hpp): what a program
// sees is the same as where it only reports readiness. Every body runs on all kernels.
#include "net/conversation.hpp"

#include <algorithm>
#include <array>

using namespace weft;
using namespace weft::test;

namespace {

REAL(Conversation, T16_IsCarriedWhereTheKernelCan) {
  Connected c = co_await co_connected();
  co_await converse(c.client, c.server);
  EXPECT_EQ(source_of(c.server).carried(), on_uring(here));
  EXPECT_EQ(source_of(c.client).carried(), on_uring(here));
}

/// Questions and answers of all sizes, larger than any buffer too.
REAL(Conversation, T16_OfAllSizes) {
  Connected c = co_await co_connected();
  Rng rng(7);
  std::vector<std::size_t> sizes;
  for (int i = 0; i < 300; ++i) sizes.push_back(1 + rng.below(i % 10 == 0 ? 30'000 : 200));
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    std::vector<std::byte> buffer(30'000);
    std::uint64_t at = 0;
    for (const std::size_t size : sizes) {
      EXPECT_EQ(co_await read_fully(c.server, Bytes(buffer).first(size)), size);
      EXPECT_TRUE(fits(ConstBytes(buffer).first(size), at, 1));
      co_await c.server.write_op(pattern(size, at, 2));
      at += size;
    }
  });
  std::vector<std::byte> buffer(30'000);
  std::uint64_t at = 0;
  for (const std::size_t size : sizes) {
    co_await c.client.write_op(pattern(size, at, 1));
    EXPECT_EQ(co_await read_fully(c.client, Bytes(buffer).first(size)), size);
    EXPECT_TRUE(fits(ConstBytes(buffer).first(size), at, 2)) << "near " << at;
    at += size;
  }
  co_await scope.joined();
}

/// Lines, through buffers.
REAL(Conversation, T16_OfLines) {
  Connected c = co_await co_connected();
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    Reader in(c.server);
    Writer out(c.server);
    while (auto line = co_await in.line_op()) {
      const std::string answer = "re: " + std::string(*line) + "\n";
      co_await out.write_op(answer);
      if (in.buffered() == 0) co_await out.flush_op();
    }
  });
  Reader in(c.client);
  for (int i = 0; i < 100; ++i) {
    const std::string question = std::to_string(i);
    co_await c.client.write_op(as_bytes(question + "\n"));
    const auto answer = co_await in.line_op();
    EXPECT_TRUE(answer.has_value());
    EXPECT_EQ(*answer, "re: " + question);
  }
  c.client.close();
  co_await scope.joined();
}

/// What comes when the reader has given up is there for the next one, in order.
REAL(Conversation, S6_AReadThatIsCutShortLosesNothing) {
  Connected c = co_await co_connected();
  co_await converse(c.client, c.server);
  const std::size_t size = scaled(20'000, 100'000, 1'000'000);
  Rng rng(3);
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    Rng pace(4);
    for (std::size_t at = 0; at < size;) {
      const auto part = pattern(std::min<std::size_t>(size - at, 1 + pace.below(300)), at);
      co_await c.client.write_op(part);
      at += part.size();
      if (pace.below(3) == 0) co_await sleep_op(Duration(pace.below(30'000)));
    }
    c.client.shutdown_write();
  });
  std::array<std::byte, 256> buffer;
  std::size_t at = 0;
  std::size_t cut = 0;
  for (;;) {
    const std::size_t most = 1 + rng.below(buffer.size());
    const auto n =
        co_await timeout(c.server.read_op(Bytes(buffer).first(most)), Duration(rng.below(20'000)));
    if (!n) {
      ++cut;
      continue;
    }
    if (*n == 0) break;
    EXPECT_TRUE(fits(ConstBytes(buffer).first(*n), at)) << "near " << at;
    at += *n;
  }
  EXPECT_EQ(at, size);
  EXPECT_GT(cut, 0U);
  co_await scope.joined();
}

REAL(Conversation, T16_SeveralReadersGetAllOfIt) {
  Connected c = co_await co_connected();
  co_await converse(c.client, c.server);
  std::array<std::size_t, 256> counts{};
  std::size_t ended = 0;
  Scope scope;
  for (int i = 0; i < 8; ++i) {
    here.spawn(scope, [&, i]() -> Coro<> {
      std::array<std::byte, 64> buffer;
      while (const std::size_t n =
                 co_await c.server.read_op(Bytes(buffer).first(static_cast<std::size_t>(1 + i)))) {
        for (std::size_t k = 0; k < n; ++k) ++counts[static_cast<std::size_t>(buffer[k])];
      }
      ++ended;
    });
  }
  Rng rng(5);
  std::array<std::size_t, 256> sent{};
  for (int i = 0; i < 500; ++i) {
    std::vector<std::byte> part(1 + rng.below(50));
    for (std::byte& b : part) {
      b = static_cast<std::byte>(rng.below(256));
      ++sent[static_cast<std::size_t>(b)];
    }
    co_await c.client.write_op(part);
    if (i % 7 == 0) co_await sleep_op(10us);
  }
  c.client.shutdown_write();
  co_await scope.joined();
  EXPECT_EQ(counts, sent);
  EXPECT_EQ(ended, 8U);
}

/// Nobody is left behind: not by one who reads past those who wait, nor by one who gives up when it
/// was its turn.
REAL(Conversation, C1_OfSeveralReadersEachGetsItsTurn) {
  enum class Then { another, gives_up, bystander };
  for (const int rounds : {0, 3, 40}) {
    for (const Then then : {Then::another, Then::gives_up, Then::bystander}) {
      Connected c = co_await co_connected();
      if (rounds > 0) co_await converse(c.client, c.server, rounds);
      Scope scope({.on_failure = OnFailure::isolate});
      std::vector<JoinHandle<void>> readers;
      for (int i = 0; i < 6; ++i) {
        readers.push_back(here.spawn(scope, [&, i]() -> Coro<> {
          std::array<std::byte, 64> buffer;
          EXPECT_GT(co_await c.server.read_op(buffer), 0U);
          if (then == Then::another) send_raw(c.client, "b");  // before the next tries
          if (i == 0 && then == Then::gives_up) readers[1].cancel();
        }));
      }
      co_await sleep_op(1ms);
      send_raw(c.client, "a");
      if (then == Then::bystander) {
        while (!Source::worth_trying(source_of(c.server).seen(), Direction::read) &&
               !readers[0].done()) {
          co_await next_turn();
        }
        send_raw(c.client, "b");
        std::array<std::byte, 64> buffer;
        co_await timeout(c.server.read_op(buffer), 1ms);
      }
      for (int i = 0; i < 100 && !readers.back().done(); ++i) {
        co_await sleep_op(1ms);
        send_raw(c.client, "c");
      }
      EXPECT_TRUE(readers.back().done()) << rounds << " rounds, " << static_cast<int>(then);
      scope.cancel();
      co_await scope.joined();
    }
  }
}

/// Bytes that were kept are found, whatever is waited for first.
REAL(Conversation, T16_WhatIsKeptIsFound) {
  for (const int how : {0, 1, 2, 3}) {
    Connected c = co_await co_connected();
    std::array<std::byte, 8> buffer;
    EXPECT_FALSE((co_await timeout(c.server.read_op(buffer), 1ms)).has_value());
    send_raw(c.client, "kept");
    co_await sleep_op(2ms);
    if (how == 0) co_await c.server.fd().writable_op();
    if (how == 1) co_await c.server.fd().readable_op();
    if (how == 2) {
      const std::array<Bytes, 2> into{Bytes(buffer).first(1), Bytes(buffer).subspan(1, 1)};
      EXPECT_EQ(co_await c.server.read_op(into), 2U);
    }
    const std::size_t rest = how == 2 ? 2 : 4;
    EXPECT_EQ(co_await c.server.read_op(buffer), rest);
    EXPECT_EQ(as_text(ConstBytes(buffer).first(rest)), rest == 2 ? "pt" : "kept");
  }
}

/// There is room: so a write that could also time out is made at once, and the stream is carried
/// on.
REAL(Conversation, T16_WritesThatCouldTimeOut) {
  Connected c = co_await co_connected();
  co_await converse(c.client, c.server);
  for (int i = 0; i < 3; ++i) {
    const auto n = co_await timeout(c.server.write_op(as_bytes("x")), 10s);
    EXPECT_TRUE(n.has_value());
    co_await converse(c.client, c.server, 0);
    EXPECT_EQ(source_of(c.server).carried(), on_uring(here));
  }
}

/// A peer that sends what nobody reads is held back: all at once, or bit by bit.
REAL(Conversation, T16_APeerIsHeldBack) {
  for (const bool slowly : {false, true}) {
    Connected c = co_await co_connected();
    c.client.set_send_buffer(64 << 10);
    c.server.set_receive_buffer(64 << 10);
    co_await converse(c.client, c.server);
    const auto part = pattern(4000);
    const std::size_t most = 4 << 20;
    std::size_t sent = 0;
    while (sent < most) {
      const auto n = ::send(c.client.fd().number(), part.data(), part.size(), MSG_DONTWAIT);
      if (n < 0) break;
      sent += static_cast<std::size_t>(n);
      if (slowly) co_await sleep_op(1us);
    }
    EXPECT_LT(sent, most) << "nothing holds it back";
    c.client.shutdown_write();
    EXPECT_EQ((co_await read_all(c.server)).size(), sent);
  }
}

/// So is a task whose peer does not read; and it goes on when the peer does.
REAL(Conversation, T16_APeerThatDoesNotRead) {
  Connected c = co_await co_connected();
  co_await converse(c.client, c.server);
  const std::size_t size = 16 << 20;
  Scope scope;
  auto writer = here.spawn(scope, [&]() -> Coro<std::size_t> {
    std::size_t at = 0;
    while (at < size) {
      at += co_await c.server.write_op(pattern(64 << 10, at));
    }
    c.server.shutdown_write();
    co_return at;
  });
  co_await sleep_op(20ms);
  EXPECT_FALSE(writer.done());
  std::vector<std::byte> buffer(50'000);
  std::size_t at = 0;
  while (const std::size_t n = co_await c.client.read_op(Bytes(buffer))) {
    EXPECT_TRUE(fits(ConstBytes(buffer).first(n), at)) << "near " << at;
    at += n;
  }
  EXPECT_EQ(at, (co_await writer.join_op()).value());
}

/// A write that is cancelled before its turn has sent nothing.
REAL(Conversation, S6_AWriteThatIsCutShortIsNotHalfDone) {
  Connected c = co_await co_connected();
  co_await converse(c.client, c.server);
  std::size_t told = 0;
  for (int i = 0; i < 100; ++i) {
    Scope scope({.on_failure = OnFailure::isolate});
    auto writer = here.spawn(scope, [&]() -> Coro<std::size_t> {
      co_return co_await c.server.write_some_op(as_bytes("12345"));
    });
    co_await next_turn();  // it has begun; on io_uring it waits for the next look outside
    if (i % 10 == 0) {     // which comes after the cancellation, and before the writer hears of it
      for (int k = 0; k < 1000; ++k) here.spawn(scope, []() -> Coro<> { co_await next_turn(); });
    }
    if (i % 2 == 0) writer.cancel();
    const auto outcome = co_await writer.join_op();
    if (outcome.ok()) told += outcome.value();
    co_await scope.joined();
  }
  c.server.shutdown_write();
  EXPECT_EQ((co_await read_all(c.client)).size(), told);
  if (on_uring(here)) {
    EXPECT_EQ(told, 250U) << "none was caught before its turn";
  }
}

}  // namespace

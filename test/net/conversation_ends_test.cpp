// Streams that a kernel carries: how they end, change hands, and outlast the loop that has read
// from them.
#include <weft/base/unique_fd.hpp>

#include "net/conversation.hpp"

#include <array>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <poll.h>

using namespace weft;
using namespace weft::test;

namespace {

REAL(ConversationEnds, T16_ClosingWakesWhoWaits) {
  for (int turns = 0; turns < 3; ++turns) {
    Connected c = co_await co_connected();
    co_await converse(c.client, c.server, turns == 0 ? 2 : 40);
    Scope scope;
    auto reader = here.spawn(scope, [&]() -> Coro<int> {
      std::array<std::byte, 8> buffer;
      co_return co_await error_of(c.server.read_op(buffer));
    });
    auto writer = here.spawn(scope, [&]() -> Coro<int> {
      for (;;) {  // often in the very turn in which the stream is closed
        const int error = co_await error_of(c.server.write_op(as_bytes("x")));
        if (error != 0) co_return error;
      }
    });
    co_await next_turn();
    if (turns == 2) co_await sleep_op(1ms);
    c.server.close();
    EXPECT_EQ((co_await reader.join_op()).value(), EBADF);
    EXPECT_EQ((co_await writer.join_op()).value(), EBADF);
    const std::string rest = co_await read_all(c.client);  // the peer hears of it at once
    EXPECT_EQ(rest, std::string(rest.size(), 'x'));
  }
}

/// A reset is an error for who reads, or for the next who does.
REAL(ConversationEnds, T16_AResetIsNotAnEnd) {
  for (const bool waiting : {true, false}) {
    Connected c = co_await co_connected();
    co_await converse(c.client, c.server);
    Scope scope;
    std::array<std::byte, 8> buffer;
    auto read = [&]() -> Coro<int> { co_return co_await error_of(c.server.read_op(buffer)); };
    auto reset = [&] {
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(c.client.fd().number(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
      c.client.close();
    };
    if (waiting) {
      auto reader = here.spawn(scope, read);
      co_await next_turn();
      reset();
      EXPECT_EQ((co_await reader.join_op()).value(), ECONNRESET);
    } else {
      reset();
      co_await sleep_op(5ms);
      EXPECT_EQ(co_await read(), ECONNRESET);
    }
    co_await scope.joined();
  }
}

/// The number can be given away, unless that would lose bytes.
REAL(ConversationEnds, T16_GivingTheNumberAway) {
  Connected c = co_await co_connected();
  co_await converse(c.client, c.server);
  std::array<std::byte, 8> buffer;
  EXPECT_FALSE((co_await timeout(c.server.read_op(buffer), 1ms)).has_value());
  if (on_uring(here)) {
    co_await c.client.write_op(as_bytes("late"));
    co_await sleep_op(5ms);
    EXPECT_EQ(c.server.fd().release(), -1);
    EXPECT_EQ(co_await read_fully(c.server, Bytes(buffer).first(4)), 4U);
    EXPECT_EQ(as_text(ConstBytes(buffer).first(4)), "late");
  }
  const UniqueFd number(c.server.fd().release());
  EXPECT_GE(number.get(), 0);
  co_await c.client.write_op(as_bytes("mine"));
  co_await sleep_op(5ms);
  EXPECT_EQ(::recv(number.get(), buffer.data(), 4, 0), 4);
  EXPECT_EQ(as_text(ConstBytes(buffer).first(4)), "mine");
}

/// Who waits for readiness in the middle of a conversation gets it.
REAL(ConversationEnds, T16_ReadinessInBetween) {
  Connected c = co_await co_connected();
  std::array<std::byte, 8> buffer;
  for (int i = 0; i < 3; ++i) {
    co_await converse(c.client, c.server, 20);
    co_await c.client.write_op(as_bytes("x"));
    co_await c.server.fd().readable_op();
    EXPECT_EQ(co_await c.server.read_op(buffer), 1U);
  }
}

/// More streams than there are buffers have something to say at once.
REAL(ConversationEnds, T16_ManyAtOnce) {
  const std::size_t streams = scaled(300, 400, 400);
  std::vector<Connected> all;
  for (std::size_t i = 0; i < streams; ++i) {
    all.push_back(co_await co_connected());
    all.back().listener.close();
    co_await converse(all.back().client, all.back().server, i % 2 == 0 ? 20 : 3);
  }
  Scope scope;
  std::size_t right = 0;
  for (Connected& c : all) {
    here.spawn(scope, [&]() -> Coro<> {
      std::vector<std::byte> buffer(6000);
      for (int i = 0; i < 4; ++i) {
        if (co_await read_fully(c.server, Bytes(buffer)) == buffer.size()) right += fits(buffer, 0);
      }
    });
  }
  co_await next_turn();
  const auto part = pattern(6000);
  for (int i = 0; i < 4; ++i) {
    for (Connected& c : all) {
      EXPECT_EQ(::send(c.client.fd().number(), part.data(), part.size(), 0),
                6000);  // all in one turn
    }
    co_await next_turn();
  }
  co_await scope.joined();
  EXPECT_EQ(right, 4 * streams);
}

std::unique_ptr<Loop> loop_on(Backend backend) {
  return std::make_unique<Loop>(LoopOptions{.kernel = make_real_kernel({.backend = backend})});
}

Connected conversation_on(Loop& loop) {
  return loop.run([]() -> Coro<Connected> {
    Connected all = co_await co_connected();
    co_await converse(all.client, all.server);
    co_return all;
  });
}

template <class Body>
void on_all_backends(Body body) {
  for (const Backend backend : {Backend::epoll, Backend::uring}) {
    if (backend == Backend::uring && !why_no_uring().empty()) continue;
    SCOPED_TRACE(to_string(backend));
    body(backend);
  }
}

/// A stream that is settled may be used by a thread that the loop's own waits for.
REAL(ConversationEnds, T16_ChangesHands) {
  Connected c = co_await co_connected();
  co_await converse(c.client, c.server);
  EXPECT_TRUE(c.server.fd().settle());
  std::thread([&] {
    std::array<std::byte, 8> buffer;
    send_raw(c.client, "hi");
    EXPECT_EQ(c.server.read(buffer), 2U);
  }).join();
  co_await converse(c.client, c.server);
}

/// Closing a stream that is being received from, by another thread, again and again.
TEST(ConversationEnds, C1_ClosedByAnotherThread) {
  on_all_backends([](Backend backend) {
    auto loop = loop_on(backend);
    const std::size_t rounds = scaled(100, 300, 3000);
    std::atomic<TcpStream*> doomed{nullptr};
    std::atomic<bool> over{false};
    std::thread closer([&] {
      while (!over) {
        if (TcpStream* const stream = doomed.exchange(nullptr)) {
          stream->close();
          delete stream;
        }
      }
    });
    std::size_t ended = 0;
    loop->run([&]() -> Coro<> {
      for (std::size_t i = 0; i < rounds; ++i) {
        Connected c = co_await co_connected();
        if (i % 3 == 0) co_await converse(c.client, c.server, 17);
        auto* const stream = new TcpStream(std::move(c.server));
        Source& source = stream->fd().source();
        source.retain();  // who reads holds on to it, as any operation does
        Scope scope;
        scope.spawn([](Source& from, std::size_t& count) -> Coro<> {
          std::array<std::byte, 8> buffer;
          const Bytes part(buffer);
          try {
            while (co_await ReadOp<1>(from, std::span<const Bytes>(&part, 1)) != 0) {
            }
          } catch (const std::system_error&) {
          }
          ++count;
        }(source, ended));
        co_await next_turn();
        doomed = stream;
        for (int k = 0; k < 5; ++k) co_await error_of(c.client.write_op(as_bytes("xx")));
        while (doomed != nullptr) co_await next_turn();
        co_await scope.joined();
        source.release();
      }
    });
    over = true;
    closer.join();
    EXPECT_EQ(ended, rounds);
  });
}

/// What waits when nobody runs the loop any more goes on when somebody does.
TEST(ConversationEnds, T4_GoesOnAfterAPause) {
  on_all_backends([](Backend backend) {
    auto loop = loop_on(backend);
    Connected c = conversation_on(*loop);
    std::string got;
    loop->spawn([&]() -> Coro<> { got = co_await read_all(c.server); });
    loop->block_on([]() -> Coro<> { co_await sleep_op(1ms); });  // it waits
    EXPECT_EQ(::send(c.client.fd().number(), "one", 3, 0), 3);
    loop->block_on([&]() -> Coro<> {
      co_await sleep_op(1ms);
      co_await c.client.write_op(as_bytes("two"));
      c.client.shutdown_write();
    });
    loop->run();
    EXPECT_EQ(got, "onetwo");
  });
}

/// A task that writes when the loop stops running has written.
TEST(ConversationEnds, T4_WritesAreMadeBeforeAPause) {
  on_all_backends([](Backend backend) {
    auto loop = loop_on(backend);
    Connected c = conversation_on(*loop);
    bool written = false;
    loop->block_on([&]() -> Coro<> {
      loop->spawn([&]() -> Coro<> {
        co_await c.server.write_op(as_bytes("bye"));
        written = true;
      });
      co_await next_turn();
    });
    std::array<char, 8> buffer;
    EXPECT_EQ(::recv(c.client.fd().number(), buffer.data(), 8, 0), 3);
    loop->run();
    EXPECT_TRUE(written);
  });
}

/// What a reader elsewhere was told of while the last loop's receive had not ended yet is not
/// forgotten: neither bytes nor the end.
TEST(ConversationEnds, C1_NothingIsForgottenWhileItMoves) {
  on_all_backends([](Backend backend) {
    for (const bool end : {false, true}) {
      auto loop = loop_on(backend);
      Connected c = conversation_on(*loop);
      enum Phase { before, left_behind, given_up, over };
      std::atomic<Phase> phase{before};
      std::thread other([&] {
        while (phase != left_behind) std::this_thread::yield();
        auto there = loop_on(backend);
        there->run([&]() -> Coro<> {
          std::array<std::byte, 8> buffer;
          const auto early = co_await timeout(c.server.read_op(buffer), 20ms);
          phase = given_up;
          co_await sleep_op(20ms);
          const std::size_t expected = early.value_or(0) > 0 || end ? 0 : 2;
          const auto late =
              co_await timeout(c.server.read_op(buffer), expected > 0 || end ? 5s : 1ms);
          EXPECT_EQ(late.value_or(0), expected);
          EXPECT_EQ(late.has_value(), expected > 0 || end) << "waits for what has come already";
        });
        phase = over;
      });
      loop->run([&]() -> Coro<> {
        std::array<std::byte, 8> buffer;
        EXPECT_FALSE((co_await timeout(c.server.read_op(buffer), 1ms)).has_value());
        phase = left_behind;    // a receive, and does not look outside until the other has given up
        ::poll(nullptr, 0, 5);  // until it waits there
        if (end) {
          c.client.shutdown_write();
        } else {
          send_raw(c.client, "hi");
        }
        while (phase != given_up) std::this_thread::yield();
        while (phase != over) co_await sleep_op(1ms);
      });
      other.join();
    }
  });
}

/// A stream moves between loops, whether or not the one it leaves is being run.
TEST(ConversationEnds, T16_MovesBetweenLoops) {
  on_all_backends([](Backend backend) {
    auto first = loop_on(backend);
    Connected c = conversation_on(*first);
    std::size_t at = 0;
    const auto cut_short = [&]() -> Coro<> {  // leaves a receive behind
      std::array<std::byte, 8> buffer;
      const auto n = co_await timeout(c.server.read_op(buffer), 1ms);
      if (!n) co_return;
      EXPECT_TRUE(fits(ConstBytes(buffer).first(*n), at));
      at += *n;
    };
    const auto read_some = [&](std::size_t size) -> Coro<> {
      std::vector<std::byte> buffer(size);
      EXPECT_EQ(co_await read_fully(c.server, Bytes(buffer)), size);
      EXPECT_TRUE(fits(buffer, at)) << "at " << at;
      at += size;
    };
    std::size_t sent = 0;
    const auto send = [&](std::size_t size) {
      const auto part = pattern(size, sent);
      EXPECT_EQ(::send(c.client.fd().number(), part.data(), size, 0), static_cast<long>(size));
      sent += size;
    };
    for (int i = 0; i < 20; ++i) {
      // To one that is run by another thread, while the first one rests.
      first->block_on(cut_short);
      send(100);
      std::thread([&] {
        auto second = loop_on(backend);
        second->run([&]() -> Coro<> { co_await read_some(50); });
      }).join();
      // And back again, while the other one runs.
      auto third = loop_on(backend);
      std::atomic<bool> waiting{false};
      std::atomic<bool> done{false};
      std::thread other([&] {
        third->run([&]() -> Coro<> {
          co_await cut_short();
          waiting = true;
          while (!done) co_await sleep_op(1ms);
        });
      });
      while (!waiting) std::this_thread::yield();
      send(100);
      first->run([&]() -> Coro<> { co_await read_some(sent - at); });
      done = true;
      other.join();
    }
    EXPECT_EQ(at, sent);
  });
}

}  // namespace

#include <weft/io/fd.hpp>

#include "support/real.hpp"

#include <array>
#include <system_error>
#include <thread>

#include <sys/socket.h>

using namespace weft;
using namespace weft::test;

namespace {

struct Pair {
  Fd a, b;
};

Pair socket_pair() {
  int fds[2];
  check_sys(this_world()->socket_pair(AF_UNIX, SOCK_STREAM, fds), "socketpair");
  return {Fd(this_world(), fds[0], Source::Kind::socket),
          Fd(this_world(), fds[1], Source::Kind::socket)};
}

Pair make_pipe() {
  int fds[2];
  check_sys(this_world()->pipe(fds), "pipe");
  return {Fd(this_world(), fds[0], Source::Kind::pipe),
          Fd(this_world(), fds[1], Source::Kind::pipe)};
}

int error_of(auto f) {
  try {
    f();
  } catch (const std::system_error& error) {
    return error.code().value();
  }
  return 0;
}

REAL(Fd, T16_ReadWaitsForWrite) {
  auto [a, b] = socket_pair();
  Scope scope;
  auto reader = here.spawn(scope, [&]() -> Coro<std::string> {
    std::array<std::byte, 64> buffer;
    const std::size_t n = co_await a.read_op(buffer);
    co_return std::string(as_text(Bytes(buffer).first(n)));
  });
  co_await sleep_op(1ms);
  EXPECT_FALSE(reader.done());
  co_await b.write_op(as_bytes("hello"));
  EXPECT_EQ((co_await reader.join_op()).value(), "hello");
}

REAL(Fd, T16_PingPongManyTimes) {
  auto [a, b] = socket_pair();
  Scope scope;
  auto echo = here.spawn(scope, [&]() -> Coro<std::size_t> {
    std::array<std::byte, 16> buffer;
    std::size_t rounds = 0;
    while (const std::size_t n = co_await b.read_op(buffer)) {
      co_await b.write_op(Bytes(buffer).first(n));
      ++rounds;
    }
    co_return rounds;
  });
  std::array<std::byte, 16> buffer;
  for (std::size_t i = 0; i < 1000; ++i) {
    co_await a.write_op(as_bytes("ping"));
    EXPECT_EQ(co_await a.read_op(buffer), 4U);
  }
  a.close();
  EXPECT_EQ((co_await echo.join_op()).value(), 1000U);
}

REAL(Fd, T16_LargeWriteGoesInParts) {
  auto [a, b] = make_pipe();
  Scope scope;
  std::vector<std::byte> data(3 << 20);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7 >> 3);
  auto writer = here.spawn(scope, [&]() -> Coro<std::size_t> {
    const std::size_t n = co_await b.write_op(data);
    b.close();
    co_return n;
  });
  std::vector<std::byte> got;
  std::array<std::byte, 5000> buffer;
  while (const std::size_t n = co_await a.read_op(buffer)) {
    got.insert(got.end(), buffer.begin(), buffer.begin() + static_cast<long>(n));
  }
  EXPECT_EQ((co_await writer.join_op()).value(), data.size());
  EXPECT_EQ(got, data);
}

REAL(Fd, T16_CloseWakesAllWaiters) {
  auto [a, b] = socket_pair();
  Scope scope;
  std::vector<JoinHandle<int>> waiters;
  for (int i = 0; i < 5; ++i) {
    waiters.push_back(here.spawn(scope, [&]() -> Coro<int> {
      std::array<std::byte, 8> buffer;
      try {
        co_await a.read_op(buffer);
      } catch (const std::system_error& error) {
        co_return error.code().value();
      }
      co_return 0;
    }));
  }
  co_await sleep_op(1ms);
  a.close();
  for (auto& waiter : waiters) EXPECT_EQ((co_await waiter.join_op()).value(), EBADF);
  std::array<std::byte, 8> buffer;
  EXPECT_EQ(
      error_of([&] { return a.read_op(buffer).try_now() ? a.read_op(buffer) : a.read_op(buffer); }),
      0);
}

REAL(Fd, T16_ReusedNumberNeverWakesAnOldWaiter) {
  for (int round = 0; round < 50; ++round) {
    auto first = std::make_unique<Pair>(socket_pair());
    const int number = first->a.number();
    Scope scope;
    auto waiter = here.spawn(scope, [&]() -> Coro<int> {
      std::array<std::byte, 8> buffer;
      try {
        co_await first->a.read_op(buffer);
      } catch (const std::system_error& error) {
        co_return error.code().value();
      }
      co_return 0;
    });
    co_await sleep_op(10us);
    co_await first->b.write_op(as_bytes("x"));  // an event may be on its way
    first->a.close();
    auto second = socket_pair();
    EXPECT_EQ(second.a.number(), number);
    co_await second.b.write_op(as_bytes("for the new one"));
    const int how = (co_await waiter.join_op()).value();
    EXPECT_EQ(how, EBADF);
    std::array<std::byte, 32> buffer;
    EXPECT_EQ(co_await second.a.read_op(buffer), 15U);
  }
}

REAL(Fd, T16_ManyReadersOfOneStreamAllGetSomething) {
  auto [a, b] = socket_pair();
  Scope scope;
  std::size_t got = 0;
  for (int i = 0; i < 8; ++i) {
    here.spawn(scope, [&]() -> Coro<> {
      std::array<std::byte, 1> buffer;
      for (int k = 0; k < 100; ++k) got += co_await a.read_op(buffer);
    });
  }
  for (int k = 0; k < 80; ++k) {
    co_await b.write_op(as_bytes("0123456789"));
    if (k % 8 == 0) co_await sleep_op(50us);
  }
  while (got < 800) co_await sleep_op(50us);
  EXPECT_EQ(got, 800U);
}

REAL(Fd, T16_ReadyOpWakesEverybody) {
  auto [a, b] = socket_pair();
  std::array<std::byte, 8> buffer;
  EXPECT_FALSE((co_await timeout(a.read_op(buffer), 1ms)).has_value());
  Scope scope;
  int woken = 0;
  for (int i = 0; i < 4; ++i) {
    here.spawn(scope, [&]() -> Coro<> {
      co_await a.readable_op();
      ++woken;
    });
  }
  co_await sleep_op(1ms);
  EXPECT_EQ(woken, 0);
  co_await b.write_op(as_bytes("x"));
  while (woken < 4) co_await sleep_op(50us);
}

REAL(Fd, C16_SelectTakesNothingFromTheLoser) {
  auto [a, b] = socket_pair();
  auto [c, d] = socket_pair();
  std::array<std::byte, 8> from_a;
  std::array<std::byte, 8> from_c;
  for (int i = 0; i < 200; ++i) {
    co_await b.write_op(as_bytes("a"));
    if (i % 2 == 0) co_await d.write_op(as_bytes("c"));
    int a_count = 0;
    int c_count = 0;
    while (a_count + c_count < (i % 2 == 0 ? 2 : 1)) {
      auto won = co_await race(a.read_op(from_a), c.read_op(from_c));
      (won.index() == 0 ? a_count : c_count) += 1;
    }
    EXPECT_EQ(a_count, 1);
  }
}

REAL(Fd, F9_CancelledReadLeavesTheBytes) {
  auto [a, b] = socket_pair();
  Scope scope;
  auto reader = here.spawn(scope, [&]() -> Coro<> {
    std::array<std::byte, 8> buffer;
    co_await a.read_op(buffer);
  });
  co_await sleep_op(1ms);
  reader.cancel();
  EXPECT_TRUE((co_await reader.join_op()).cancelled());
  co_await b.write_op(as_bytes("kept"));
  std::array<std::byte, 8> buffer;
  EXPECT_EQ(co_await a.read_op(buffer), 4U);
}

REAL(Fd, T16_EndAfterDataIsSeenThoughTheReadWasShort) {
  for (int i = 0; i < 100; ++i) {
    auto [a, b] = make_pipe();
    std::array<std::byte, 64> buffer;
    EXPECT_FALSE((co_await timeout(a.read_op(buffer), 20us)).has_value());  // now it is watched
    co_await b.write_op(as_bytes("last words"));
    b.close();
    EXPECT_EQ(co_await a.read_op(buffer), 10U);
    EXPECT_EQ(co_await a.read_op(buffer), 0U);
  }
}

REAL(Fd, T16_BrokenPipeIsAnErrorNotASignal) {
  auto [a, b] = make_pipe();
  a.close();
  int error = 0;
  try {
    co_await b.write_op(as_bytes("to nobody"));
  } catch (const std::system_error& e) {
    error = e.code().value();
  }
  EXPECT_EQ(error, EPIPE);
  auto [c, d] = socket_pair();
  c.close();
  try {
    co_await d.write_op(as_bytes("to nobody"));
  } catch (const std::system_error& e) {
    error = e.code().value() + 1000;
  }
  EXPECT_EQ(error, EPIPE + 1000);
}

REAL(Fd, T16_VectoredBothWays) {
  auto [a, b] = socket_pair();
  const std::array<ConstBytes, 3> parts{as_bytes("one "), as_bytes("two "), as_bytes("three")};
  EXPECT_EQ(co_await b.write_op(parts), 13U);
  std::array<std::byte, 4> first;
  std::array<std::byte, 16> rest;
  const std::array<Bytes, 2> into{Bytes(first), Bytes(rest)};
  EXPECT_EQ(co_await a.read_op(into), 13U);
  EXPECT_EQ(as_text(first), "one ");
  EXPECT_EQ(as_text(Bytes(rest).first(9)), "two three");
}

REAL(Fd, S9_WaitingForADescriptorIsNoDeadlock) {
  auto [a, b] = socket_pair();
  std::thread other([&b] { b.write("from a plain thread"); });
  std::array<std::byte, 64> buffer;
  EXPECT_EQ(co_await a.read_op(buffer), 19U);
  other.join();
}

TEST(Fd, S1_PlainThreadsReadAndWrite) {
  auto [a, b] = socket_pair();
  std::thread other([&b] {
    std::array<std::byte, 64> buffer;
    while (const std::size_t n = b.read(buffer)) b.write(Bytes(buffer).first(n));
    b.close();
  });
  std::array<std::byte, 64> buffer;
  for (int i = 0; i < 100; ++i) {
    a.write("ping");
    EXPECT_EQ(a.read(buffer), 4U);
  }
  check_sys(a.world().shutdown(a.number(), SHUT_WR), "shutdown");
  EXPECT_EQ(a.read(buffer), 0U);
  other.join();
}

TEST(Fd, S3_MovesFromOneIoToAnother) {
  auto [a, b] = socket_pair();
  std::array<std::byte, 64> buffer;
  for (int i = 0; i < 3; ++i) {
    Loop loop;
    loop.run([&] {
      EXPECT_FALSE(perform(timeout(a.read_op(buffer), 1ms)).has_value());
      b.write("x");
      EXPECT_EQ(a.read(buffer), 1U);
    });
  }
  // Two loops at once: the reader on the second is served though the first watched before.
  Loop first;
  first.run([&] { EXPECT_FALSE(perform(timeout(a.read_op(buffer), 1ms)).has_value()); });
  Loop second;
  second.run([&] {
    Scope scope;
    scope.spawn([&] { EXPECT_EQ(a.read(buffer), 1U); });
    yield();
    b.write("y");
  });
}

TEST(Fd, S3_OneSourceTwoLoopsAtTheSameTime) {
  auto [a, b] = socket_pair();
  std::atomic<int> got{0};
  auto reader = [&] {
    Loop loop;
    loop.run([&] {
      std::array<std::byte, 1> buffer;
      while (a.read(buffer) == 1) ++got;
    });
  };
  std::thread one(reader);
  std::thread two(reader);
  for (int i = 0; i < 500; ++i) b.write("x");
  b.close();
  one.join();
  two.join();
  EXPECT_EQ(got, 500);
}

}  // namespace

// Reader and Writer on sockets and pipes of the machine.
#include <weft/base/rng.hpp>
#include <weft/io/buffered.hpp>

#include "support/real.hpp"

#include <array>
#include <string>
#include <thread>
#include <vector>

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

/// Mostly short lines, some that fit no buffer.
std::vector<std::string> random_lines(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t longest = rng.below(20) == 0 ? 40000 : 60;
    std::string& line = lines.emplace_back(rng.below(longest), ' ');
    for (char& c : line) c = static_cast<char>('a' + rng.below(26));
  }
  return lines;
}

REAL(Buffered, T16_LinesThroughASocket) {
  const auto lines = random_lines(500, 1);
  auto [a, b] = socket_pair();
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    Writer out(b);
    for (const std::string& line : lines) {
      co_await out.write_op(line);
      co_await out.write_op("\r\n");
    }
    co_await out.flush_op();
    b.close();
  });
  Reader in(a);
  std::size_t count = 0;
  while (auto line = co_await in.line_op()) {
    EXPECT_EQ(*line, lines.at(count));
    ++count;
  }
  EXPECT_EQ(count, lines.size());
  co_await scope.joined();
}

// Whatever is interrupted, wherever: nothing is lost, doubled or out of order.
REAL(Buffered, F9_InterruptedAnywhereNothingIsLost) {
  const std::size_t rounds = scaled(3, 10, 200);
  std::size_t interrupted = 0;
  for (std::size_t seed = 0; seed < rounds; ++seed) {
    const auto lines = random_lines(60, seed);
    auto [a, b] = seed % 2 == 0 ? socket_pair() : make_pipe();
    Scope scope;
    here.spawn(scope, [&]() -> Coro<> {
      Rng rng(seed + 1000);
      Writer out(b, {.buffer_size = 1 + rng.below(10000)});
      for (const std::string& line : lines) {
        const std::string text = line + "\n";
        for (bool done = false; !done;) {
          done = co_await timeout(out.write_op(text), 1us * rng.below(60));
        }
        if (rng.below(4) != 0) continue;
        co_await timeout(out.flush_op(), 1us * rng.below(60));
        co_await sleep_op(1us * rng.below(200));  // lets the reader run out of patience
      }
      co_await out.flush_op();
      b.close();
    });
    Rng rng(seed + 2000);
    Reader in(a, {.buffer_size = 1 + rng.below(10000)});
    std::size_t count = 0;
    for (bool ended = false; !ended;) {
      if (rng.below(3) == 0) {
        co_await timeout(in.peek_op(rng.below(20000)), 1us * rng.below(30));
      }
      const auto line = co_await timeout(in.line_op(), 1us * rng.below(60));
      if (!line) {
        ++interrupted;
        continue;
      }
      ended = !line->has_value();
      if (ended) continue;
      EXPECT_EQ(**line, lines.at(count));
      ++count;
    }
    EXPECT_EQ(count, lines.size());
    co_await scope.joined();
  }
  EXPECT_GT(interrupted, 0U);
}

REAL(Buffered, F9_CancelledTasksLeaveTheirBytesToOthers) {
  auto [a, b] = socket_pair();
  Reader in(a);
  Writer out(b, {.buffer_size = 64});
  std::string sent;
  std::string got;
  for (int i = 0; i < 50; ++i) {
    Scope scope({.on_failure = OnFailure::isolate});
    auto reader = here.spawn(scope, [&]() -> Coro<> {
      for (;;) {
        const ConstBytes record = co_await in.read_exactly_op(10);
        got += as_text(record);
      }
    });
    auto writer = here.spawn(scope, [&]() -> Coro<> {
      for (char c = 'a';; c = static_cast<char>(c == 'z' ? 'a' : c + 1)) {
        const std::string text(7, c);
        co_await out.write_op(text);
        sent += text;
        if (c % 5 == 0) co_await out.flush_op();
        if (c == 'z') co_await sleep_op(1us);
      }
    });
    co_await sleep_op(1us * (i * 5));
    writer.cancel();
    co_await sleep_op(1us);
    reader.cancel();
    co_await scope.joined();
  }
  co_await out.flush_op();
  b.close();
  got += co_await in.read_all_op();
  EXPECT_TRUE(got == sent) << got.size() << " bytes of " << sent.size();
  EXPECT_GT(sent.size(), 0U);
}

REAL(Buffered, T16_BothWaysOnOneSocket) {
  auto [a, b] = socket_pair();
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {  // answers; a burst of requests is answered by one write
    Reader in(b);
    Writer out(b);
    while (auto line = co_await in.line_op()) {
      co_await out.write_op(">");
      co_await out.write_op(*line);
      co_await out.write_op("\n");
      if (in.buffered() == 0) co_await out.flush_op();
    }
    co_await out.flush_op();
    b.close();
  });
  here.spawn(scope, [&]() -> Coro<> {
    Writer out(a);
    for (int i = 0; i < 3000; ++i) {
      co_await out.write_op(std::to_string(i) + "\n");
      if (i % 100 == 0) co_await out.flush_op();
    }
    co_await out.flush_op();
    check_sys(a.world().shutdown(a.number(), SHUT_WR), "shutdown");
  });
  Reader in(a);
  int count = 0;
  while (auto line = co_await in.line_op()) EXPECT_EQ(*line, ">" + std::to_string(count++));
  EXPECT_EQ(count, 3000);
  co_await scope.joined();
}

REAL(Buffered, T16_ErrorsOfTheStreamComeThrough) {
  auto [a, b] = socket_pair();
  Reader in(a);
  Scope scope;
  auto waiter = here.spawn(scope, [&]() -> Coro<int> {
    try {
      co_await in.line_op();
    } catch (const std::system_error& error) {
      co_return error.code().value();
    }
    co_return 0;
  });
  co_await b.write_op(as_bytes("half a line"));
  co_await sleep_op(1ms);
  a.close();
  EXPECT_EQ((co_await waiter.join_op()).value(), EBADF);
  EXPECT_EQ(as_text(co_await in.peek_op(in.buffered())), "half a line");
  Writer out(b);
  co_await out.write_op("to nobody");
  int error = 0;
  try {
    co_await out.flush_op();
  } catch (const std::system_error& e) {
    error = e.code().value();
  }
  EXPECT_EQ(error, EPIPE);
  EXPECT_EQ(out.drop(), 9U);
  co_await scope.joined();
}

TEST(Buffered, S1_PlainThreads) {
  const auto lines = random_lines(300, 7);
  auto [a, b] = socket_pair();
  std::thread other([&b, &lines] {
    Writer out(b);
    for (const std::string& line : lines) {
      out.write(line);
      out.write("\n");
    }
    out.flush();
    b.close();
  });
  Reader in(a);
  std::size_t count = 0;
  for (const std::string_view line : in.lines()) {
    EXPECT_EQ(line, lines.at(count));
    ++count;
  }
  EXPECT_EQ(count, lines.size());
  EXPECT_EQ(in.peek(1).size(), 0U);
  other.join();
}

}  // namespace

#include <weft/io/pipe.hpp>

#include <weft/base/unique_fd.hpp>

#include "support/real.hpp"

#include <array>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace weft;
using namespace weft::test;

namespace {

REAL(Pipe, T16_CarriesBytesToTheEnd) {
  auto [from, to] = weft::pipe();
  Scope scope;
  std::vector<std::byte> data(1 << 20);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 31 >> 4);
  here.spawn(scope, [&]() -> Coro<> {
    co_await to.write_op(data);
    to.close();
  });
  std::vector<std::byte> got;
  std::array<std::byte, 7000> buffer;
  while (const std::size_t n = co_await from.read_op(buffer)) {
    got.insert(got.end(), buffer.begin(), buffer.begin() + static_cast<long>(n));
  }
  EXPECT_EQ(got, data);
  co_await scope.joined();
}

REAL(Pipe, T16_NobodyReadsIsAnError) {
  auto [from, to] = weft::pipe();
  from.close();
  int error = 0;
  try {
    co_await to.write_op(as_bytes("x"));
  } catch (const std::system_error& e) {
    error = e.code().value();
  }
  EXPECT_EQ(error, EPIPE);
}

REAL(Pipe, F9_CancelledReadLeavesTheBytes) {
  auto [from, to] = weft::pipe();
  Scope scope;
  std::array<std::byte, 8> buffer;
  auto reader = here.spawn(scope, [&]() -> Coro<> { co_await from.read_op(buffer); });
  co_await sleep_op(1ms);
  reader.cancel();
  EXPECT_TRUE((co_await reader.join_op()).cancelled());
  co_await to.write_op(as_bytes("kept"));
  EXPECT_EQ(co_await from.read_op(buffer), 4U);
  co_await scope.joined();
}

/// While it lives, another descriptor stands in for 0, 1 or 2.
class StandIn {
 public:
  StandIn(int number, int with) : number_(number), saved_(::dup(number)) {
    std::fflush(nullptr);
    EXPECT_EQ(::dup2(with, number), number);
  }
  StandIn(const StandIn&) = delete;
  StandIn& operator=(const StandIn&) = delete;
  ~StandIn() {
    if (saved_) {
      ::dup2(saved_.get(), number_);
    } else {
      ::close(number_);
    }
  }

 private:
  int number_;
  UniqueFd saved_;
};

struct Ends {
  UniqueFd read;
  UniqueFd write;
};
Ends blocking_pipe() {
  int fds[2];
  EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

bool is_blocking(int fd) {
  return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
}

REAL(StandardStreams, T16_InputIsWaitedForAndStaysBlockingForOthers) {
  const Ends ends = blocking_pipe();
  const StandIn stand_in(0, ends.read.get());
  Fd in = standard_input();
  Scope scope;
  auto reader = here.spawn(scope, [&]() -> Coro<std::string> {
    std::array<std::byte, 64> buffer;
    const std::size_t n = co_await in.read_op(buffer);
    co_return std::string(as_text(Bytes(buffer).first(n)));
  });
  co_await sleep_op(1ms);
  EXPECT_FALSE(reader.done());
  EXPECT_TRUE(is_blocking(0));
  EXPECT_EQ(::write(ends.write.get(), "line\n", 5), 5);
  EXPECT_EQ((co_await reader.join_op()).value(), "line\n");
  in.close();
  EXPECT_TRUE(is_blocking(0));
  co_await scope.joined();
}

REAL(StandardStreams, T16_OutputMayBeFullAndStaysBlockingForOthers) {
  const Ends ends = blocking_pipe();
  const std::string text(200'000, 'x');
  const StandIn stand_in(1, ends.write.get());
  Fd out = standard_output();
  Scope scope;
  auto writer = here.spawn(
      scope, [&]() -> Coro<std::size_t> { co_return co_await out.write_op(as_bytes(text)); });
  co_await sleep_op(1ms);
  EXPECT_FALSE(writer.done());
  EXPECT_TRUE(is_blocking(1));
  std::vector<char> got(text.size());
  for (std::size_t n = 0; n < got.size();) {
    n += static_cast<std::size_t>(::read(ends.read.get(), got.data() + n, got.size() - n));
    co_await sleep_op(10us);
  }
  EXPECT_EQ((co_await writer.join_op()).value(), text.size());
  co_await scope.joined();
}

TEST(StandardStreams, AFileKeepsItsSharedPosition) {
  std::FILE* file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  const int number = ::fileno(file);
  ASSERT_EQ(::write(number, "before ", 7), 7);
  {
    const StandIn stand_in(2, number);
    standard_error().write("through the stream ");
  }
  ASSERT_EQ(::write(number, "after", 5), 5);
  std::array<char, 64> buffer{};
  EXPECT_EQ(::pread(number, buffer.data(), buffer.size(), 0), 31);
  EXPECT_STREQ(buffer.data(), "before through the stream after");
  std::fclose(file);
}

TEST(StandardStreams, ASocketWorksToo) {
  int fds[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  const UniqueFd ours(fds[0]);
  const UniqueFd theirs(fds[1]);
  const StandIn stand_in(0, theirs.get());
  const Fd in = standard_input();
  ASSERT_EQ(::write(ours.get(), "hello", 5), 5);
  std::array<std::byte, 64> buffer;
  EXPECT_EQ(in.read(buffer), 5U);
}

TEST(StandardStreams, NothingToReadInTheNullDevice) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const StandIn stand_in(0, null.get());
  std::array<std::byte, 64> buffer;
  EXPECT_EQ(standard_input().read(buffer), 0U);
}

}  // namespace

#include <weft/net/unix.hpp>

#include "net/net.hpp"

#include <array>
#include <filesystem>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

using namespace weft;
using namespace weft::test;

namespace {

/// A directory of our own, gone afterwards.
class Directory {
 public:
  Directory() {
    std::string name = std::filesystem::temp_directory_path() / "weft-unix-XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

REAL(Unix, T16_StreamsByPathAndName) {
  const Directory directory;
  const Address path = Address::unix_path(directory / "socket");
  const Address name = Address::unix_abstract("weft test " + std::to_string(::getpid()));
  for (const Address& address : {path, name}) {
    auto listener = UnixListener::bind(address);
    EXPECT_EQ(listener.local(), address);
    UnixStream client = co_await UnixStream::connect_op(address);
    UnixStream server = co_await listener.accept_op();
    co_await client.write_op(as_bytes("question"));
    client.shutdown_write();
    EXPECT_EQ(co_await read_all(server), "question");
    co_await server.write_op(as_bytes("answer"));
    server.close();
    EXPECT_EQ(co_await read_all(client), "answer");
    const Credentials who = client.credentials();
    EXPECT_EQ(who.pid, ::getpid());
    EXPECT_EQ(who.uid, ::getuid());
    EXPECT_EQ(who.gid, ::getgid());
  }
}

REAL(Unix, T16_Pair) {
  auto [a, b] = UnixStream::pair();
  const auto data = pattern(2 << 20);
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    co_await a.write_op(data);
    a.close();
  });
  const std::string got = co_await read_all(b);
  EXPECT_EQ(got.size(), data.size());
  EXPECT_TRUE(fits(as_bytes(got), 0));
  co_await scope.joined();
}

REAL(Unix, T16_NobodyListens) {
  const Directory directory;
  const Address address = Address::unix_path(directory / "socket");
  EXPECT_EQ(co_await error_of(UnixStream::connect_op(address)), ENOENT);
  static_cast<void>(UnixListener::bind(address));
  EXPECT_EQ(co_await error_of(UnixStream::connect_op(address)), ECONNREFUSED);
  EXPECT_THROW(static_cast<void>(UnixListener::bind(Address::loopback(0))), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(UnixStream::connect_op(Address::loopback(1))),
               std::invalid_argument);
}

REAL(Unix, T16_StaleSocketsAreRemovedOnlyOnRequest) {
  const Directory directory;
  const Address address = Address::unix_path(directory / "socket");
  static_cast<void>(UnixListener::bind(address));  // leaves its file behind
  int error = 0;
  try {
    static_cast<void>(UnixListener::bind(address));
  } catch (const std::system_error& e) {
    error = e.code().value();
  }
  EXPECT_EQ(error, EADDRINUSE);
  UnixListener second = co_await UnixListener::co_bind(address, {.remove_stale = true});
  error = 0;
  try {  // somebody listens there
    static_cast<void>(co_await UnixListener::co_bind(address, {.remove_stale = true}));
  } catch (const std::system_error& e) {
    error = e.code().value();
  }
  EXPECT_EQ(error, EADDRINUSE);
  UnixStream client = co_await UnixStream::connect_op(address);

  const std::string file = directory / "file";
  std::ofstream(file) << "precious";
  try {
    static_cast<void>(
        co_await UnixListener::co_bind(Address::unix_path(file), {.remove_stale = true}));
    ADD_FAILURE() << "bound";
  } catch (const std::system_error&) {
  }
  EXPECT_TRUE(std::filesystem::exists(file));
}

REAL(Unix, T16_ConnectWaitsForAFullQueue) {
  const Address address = Address::unix_abstract("weft full " + std::to_string(::getpid()));
  auto listener = UnixListener::bind(address, {.backlog = 1});
  std::vector<UnixStream> queued;
  for (;;) {
    auto one = co_await timeout(UnixStream::connect_op(address), 3ms);
    if (!one) break;
    queued.push_back(std::move(*one));
  }
  const std::size_t before = open_descriptors();
  EXPECT_FALSE((co_await timeout(UnixStream::connect_op(address), 1ms)).has_value());
  EXPECT_EQ(open_descriptors(), before);
  Scope scope;
  auto waiting = here.spawn(scope, [&]() -> Coro<> {
    const UnixStream stream = co_await UnixStream::connect_op(address);
    co_await stream.write_op(as_bytes("at last"));
  });
  co_await sleep_op(1ms);
  EXPECT_FALSE(waiting.done());
  for (const UnixStream& stream : queued) {
    static_cast<void>(stream);
    static_cast<void>(co_await listener.accept_op());
  }
  const UnixStream last = co_await listener.accept_op();
  EXPECT_EQ(co_await read_all(last), "at last");
  co_await scope.joined();
}

// Datagrams

REAL(Unix, T16_Datagrams) {
  const Directory directory;
  auto server = UnixDatagram::bind(Address::unix_path(directory / "server"));
  auto client = UnixDatagram::bind(Address::unix_path(directory / "client"));
  co_await client.send_to_op(as_bytes("question"), server.local());
  std::array<std::byte, 6> buffer;
  UnixMessage got = co_await server.recv_op(buffer);
  EXPECT_EQ(as_text(buffer), "questi");
  EXPECT_TRUE(got.truncated);
  EXPECT_EQ(got.from, client.local());
  co_await server.send_to_op(as_bytes("answer"), got.from);
  client.connect(server.local());
  EXPECT_EQ((co_await client.recv_op(buffer)).size, 6U);
  co_await client.send_op(as_bytes("bye"));
  EXPECT_EQ((co_await server.recv_op(buffer)).size, 3U);
  auto nameless = UnixDatagram::open();
  co_await nameless.send_to_op(as_bytes("x"), server.local());
  EXPECT_FALSE((co_await server.recv_op(buffer)).from);
  server.close();
  EXPECT_EQ(co_await error_of(client.send_op(as_bytes("?"))), ECONNREFUSED);
}

/// Sends `count` numbered datagrams with `send`, against a receiver that is slower.
template <class Send>
Coro<> flood(Here& here, const UnixDatagram& to, Send send) {
  constexpr std::uint32_t count = 500;
  Scope scope;
  auto sender = here.spawn(scope, [&]() -> Coro<> {
    for (std::uint32_t i = 0; i < count; ++i) {
      co_await send(std::as_bytes(std::span(&i, 1)));
    }
  });
  co_await sleep_op(2ms);
  EXPECT_FALSE(sender.done()) << "the queue took them all";
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint32_t got = 0;
    const UnixMessage m = co_await to.recv_op(std::as_writable_bytes(std::span(&got, 1)));
    EXPECT_EQ(m.size, 4U);
    EXPECT_EQ(got, i);
  }
  co_await scope.joined();
}

REAL(Unix, T16_ASenderWaitsForAFullQueue) {
  auto [a, b] = UnixDatagram::pair();
  co_await flood(here, b, [&](ConstBytes bytes) { return a.send_op(bytes); });
  // To somebody we are not connected to, the machine does not say when there is room.
  const Address name = Address::unix_abstract("weft flood " + std::to_string(::getpid()));
  auto c = UnixDatagram::bind(name);
  co_await flood(here, c, [&](ConstBytes bytes) { return a.send_to_op(bytes, name); });
}

TEST(Unix, S1_PlainThreads) {
  const Directory directory;
  const Address address = Address::unix_path(directory / "socket");
  static_cast<void>(UnixListener::bind(address));
  const auto listener = UnixListener::bind(address, {.remove_stale = true});
  const UnixStream client = UnixStream::connect(address);
  const UnixStream server = listener.accept();
  std::array<std::byte, 8> buffer;
  server.write("hi");
  EXPECT_EQ(client.read(buffer), 2U);
  const std::array fds{client.fd().number()};
  client.send(as_bytes("fd"), fds);
  EXPECT_EQ(server.recv(buffer).fds.size(), 1U);
}

}  // namespace

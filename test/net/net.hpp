// What the tests of sockets share.
#pragma once

#include <weft/net/tcp.hpp>
#include <weft/net/unix.hpp>
#include <weft/stack/sanitizer.hpp>

#include "support/real.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace weft::test {

/// The error number an operation ends with; 0 if it ends well.
template <Op O>
Coro<int> error_of(O op) {
  try {
    co_await std::move(op);
  } catch (const std::system_error& error) {
    co_return error.code().value();
  }
  co_return 0;
}

/// The byte that belongs at a position of stream number `stream`.
inline std::byte byte_at(std::uint64_t position, std::uint64_t stream = 0) {
  return static_cast<std::byte>((position * 31 + (position >> 9) * 7 + stream * 13) & 0xff);
}

inline std::vector<std::byte> pattern(std::size_t size, std::uint64_t from = 0,
                                      std::uint64_t stream = 0) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = byte_at(from + i, stream);
  return bytes;
}

/// Is this what belongs at `from`?
inline bool fits(ConstBytes bytes, std::uint64_t from, std::uint64_t stream = 0) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != byte_at(from + i, stream)) return false;
  }
  return true;
}

/// Reads to the end.
inline Coro<std::string> read_all(const Stream& stream) {
  std::string all;
  std::array<std::byte, 4096> buffer;
  while (const std::size_t n = co_await stream.read_op(buffer)) {
    all += as_text(ConstBytes(buffer).first(n));
  }
  co_return all;
}

/// Reads until `size` bytes are there, or the end.
inline Coro<std::size_t> read_fully(const Stream& stream, Bytes buffer) {
  std::size_t have = 0;
  while (have < buffer.size()) {
    const std::size_t n = co_await stream.read_op(buffer.subspan(have));
    if (n == 0) break;
    have += n;
  }
  co_return have;
}

/// A listener, a client and the server's end of it.
struct Connected {
  TcpListener listener;
  TcpStream client;
  TcpStream server;
};

inline Coro<Connected> co_connected() {
  Connected all;
  all.listener = TcpListener::bind("127.0.0.1:0");
  all.client = co_await TcpStream::connect_op(all.listener.local());
  all.server = co_await all.listener.accept_op();
  co_return all;
}

/// An address of this machine that refuses connections: nobody listens there any more.
inline Address refusing_address() {
  const TcpListener listener = TcpListener::bind("127.0.0.1:0");
  return listener.local();
}

/// An address that never answers: a listener that does not accept, with its queue full.
struct Silent {
  TcpListener listener;
  std::vector<TcpStream> queued;
  [[nodiscard]] Address address() const { return listener.local(); }
};

inline Coro<Silent> co_silent() {
  Silent silent;
  silent.listener = TcpListener::bind("127.0.0.1:0", {.backlog = 0});
  for (;;) {
    std::optional<TcpStream> one =
        co_await timeout(TcpStream::connect_op(silent.listener.local()), 20ms);
    if (!one) break;
    silent.queued.push_back(std::move(*one));
  }
  co_return silent;
}

/// While it lives the process may open only `spare` more descriptors.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t spare) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const int lowest_free = ::dup(0);
    ::close(lowest_free);
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(lowest_free) + spare;
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;
  /// The undefined behaviour sanitizer opens pipes to find out what memory it may look at, and
  /// takes a failure for an error of the program.
  static bool possible() {
#if defined(WEFT_ASAN)
    std::printf("note: not tested without descriptors, because the sanitizer needs some\n");
    return false;
#else
    return true;
#endif
  }
  ~FewDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

/// Whether this machine has ::1. Says so if not.
inline bool have_ipv6() {
  try {
    static_cast<void>(TcpListener::bind("[::1]:0"));
    return true;
  } catch (const std::system_error& error) {
    std::printf("note: not tested with IPv6, because %s\n", error.what());
    return false;
  }
}

}  // namespace weft::test

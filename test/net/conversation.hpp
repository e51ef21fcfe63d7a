// What the tests of streams that a kernel carries (Carrier, io/kernel.hpp) have in common.
#pragma once

#include "net/net.hpp"

#include <array>
#include <string_view>

namespace weft::test {

inline const Source& source_of(const TcpStream& stream) {
  return stream.fd().source();
}

inline bool on_uring(Here& here) {
  return here.io().kernel().describe().name == "io_uring";
}

inline void send_raw(const TcpStream& stream, std::string_view text) {
  EXPECT_EQ(::send(stream.fd().number(), text.data(), text.size(), 0),
            static_cast<ssize_t>(text.size()));
}

/// Back and forth, `rounds` times: then it is a conversation.
inline Coro<> converse(const TcpStream& a, const TcpStream& b, int rounds = 40) {
  std::array<std::byte, 64> buffer;
  Scope scope;
  auto answers = scope.spawn([](const TcpStream& stream, int n) -> Coro<> {
    std::array<std::byte, 64> question;
    for (int i = 0; i < n; ++i) {
      EXPECT_EQ(co_await read_fully(stream, Bytes(question).first(4)), 4U);
      co_await stream.write_op(Bytes(question).first(4));
    }
  }(b, rounds));
  for (int i = 0; i < rounds; ++i) {
    co_await a.write_op(as_bytes("ping"));
    EXPECT_EQ(co_await read_fully(a, Bytes(buffer).first(4)), 4U);
    EXPECT_EQ(as_text(ConstBytes(buffer).first(4)), "ping");
  }
  co_await scope.joined();
}

}  // namespace weft::test

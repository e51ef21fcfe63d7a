/// TCP: listening, connecting, streams.
///
///     auto listener = TcpListener::bind("127.0.0.1:8080");
///     for (;;) scope.spawn([s = listener.accept()] { serve(s); });
///
///     TcpStream stream = TcpStream::connect("example.com:80");       // looked up, tried in turn
///     TcpStream stream = co_await TcpStream::co_connect("example.com:80");
///     auto stream = perform(timeout(TcpStream::connect_op(address), 1s));
///
/// Reading and writing: net/stream.hpp. Accepting, and what happens when descriptors run out:
/// net/accept.hpp. Connecting to several addresses: net/connect.hpp. Looking names up:
/// net/resolve.hpp.
///
/// Streams made here send small writes at once (TCP_NODELAY). A write to a connection that the peer
/// has reset throws EPIPE or ECONNRESET; no signal is raised.
#pragma once

#include <weft/net/accept.hpp>
#include <weft/net/connect.hpp>
#include <weft/net/stream.hpp>
#include <weft/task/coro.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

class TcpStream : public Stream {
 public:
  using Stream::Stream;

  /// To this address. Losing a select or being cancelled closes what was half open.
  [[nodiscard]] static auto connect_op(const Address& address) {
    return ConnectOp<TcpStream, Source::Kind::tcp>({address});
  }
  /// To the first of these that answers; they are tried in this order.
  [[nodiscard]] static auto connect_op(std::vector<Address> addresses,
                                       const ConnectOptions& options = {}) {
    return ConnectOp<TcpStream, Source::Kind::tcp>(std::move(addresses), options);
  }
  static TcpStream connect(const Address& address) { return perform(connect_op(address)); }

  /// To "host:port", where the host is a name or an address: looks it up and tries what it finds,
  /// families taking turns. Throws ResolveError, or std::system_error that lists every address.
  [[nodiscard]] static Coro<TcpStream> co_connect(std::string host_port,
                                                  ConnectOptions options = {});
  /// The same from a fiber or a plain thread.
  static TcpStream connect(std::string_view host_port, const ConnectOptions& options = {}) {
    return await(co_connect(std::string(host_port), options));
  }

  /// On: small writes go out at once. Off: they are gathered (Nagle).
  void set_nodelay(bool on) const;
  [[nodiscard]] bool nodelay() const;
  /// Asks a silent peer after `idle` whether it is there, then every `interval`, and gives the
  /// connection up (ETIMEDOUT) after `count` unanswered questions. To the second.
  void set_keepalive(std::chrono::seconds idle,
                     std::chrono::seconds interval = std::chrono::seconds(10), int count = 6) const;
  void no_keepalive() const;
  /// What close() does with bytes not yet sent: nothing: sends them in the background; zero: throws
  /// them away and resets the connection. (Other times make close() block the thread.)
  void set_linger(std::optional<std::chrono::seconds> time) const;
};

class TcpListener : public detail::Listener {
 public:
  TcpListener() = default;

  /// Port 0: the machine picks one; local() says which.
  [[nodiscard]] static TcpListener bind(const Address& address, const ListenOptions& options = {});
  /// An address, or ":8080" for all addresses of this machine.
  [[nodiscard]] static TcpListener bind(std::string_view address,
                                        const ListenOptions& options = {});

  [[nodiscard]] auto accept_op() const {
    return AcceptOp<TcpStream, Source::Kind::tcp>(fd().source(), listening_);
  }
  [[nodiscard]] TcpStream accept() const { return perform(accept_op()); }

 private:
  using Listener::Listener;
};

}  // namespace weft

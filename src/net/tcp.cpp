#include <weft/net/tcp.hpp>

#include <weft/net/resolve.hpp>

#include <netinet/tcp.h>

namespace weft {

Coro<TcpStream> TcpStream::co_connect(std::string host_port, ConnectOptions options) {
  const HostPort target = HostPort::parse(host_port);
  const std::vector<Address> found = co_await resolve_op(target.host, target.port);
  co_return co_await ConnectOp<TcpStream, Source::Kind::tcp>(detail::take_turns(found), options,
                                                             std::move(host_port));
}

void TcpStream::set_nodelay(bool on) const {
  set_option(IPPROTO_TCP, TCP_NODELAY, on ? 1 : 0);
}

bool TcpStream::nodelay() const {
  return option<int>(IPPROTO_TCP, TCP_NODELAY) != 0;
}

void TcpStream::set_keepalive(std::chrono::seconds idle, std::chrono::seconds interval,
                              int count) const {
  set_option(IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(idle.count()));
  set_option(IPPROTO_TCP, TCP_KEEPINTVL, static_cast<int>(interval.count()));
  set_option(IPPROTO_TCP, TCP_KEEPCNT, count);
  set_option(SOL_SOCKET, SO_KEEPALIVE, 1);
}

void TcpStream::no_keepalive() const {
  set_option(SOL_SOCKET, SO_KEEPALIVE, 0);
}

void TcpStream::set_linger(std::optional<std::chrono::seconds> time) const {
  linger value{};
  value.l_onoff = time ? 1 : 0;
  value.l_linger = time ? static_cast<int>(time->count()) : 0;
  set_option(SOL_SOCKET, SO_LINGER, value);
}

TcpListener TcpListener::bind(const Address& address, const ListenOptions& options) {
  detail::require_family(address, true, "TcpListener");
  return TcpListener(detail::listen_at(address, Source::Kind::tcp, options));
}

TcpListener TcpListener::bind(std::string_view address, const ListenOptions& options) {
  if (!address.starts_with(':')) return bind(Address::parse(address), options);
  const std::uint16_t port = HostPort::parse(address).port;
  try {
    return bind(Address::any6(port), options);
  } catch (const std::system_error& error) {  // a machine without IPv6
    if (error.code().value() != EAFNOSUPPORT && error.code().value() != EADDRNOTAVAIL) throw;
    return bind(Address::any(port), options);
  }
}

}  // namespace weft

#include <weft/net/udp.hpp>

#include <cstring>
#include <string>

namespace weft {

namespace {

// Address keeps one of the kernel's own structures.
in_addr v4_of(const Address& address) noexcept {
  sockaddr_in native{};
  std::memcpy(&native, address.native(), sizeof native);
  return native.sin_addr;
}

in6_addr v6_of(const Address& address) noexcept {
  sockaddr_in6 native{};
  std::memcpy(&native, address.native(), sizeof native);
  return native.sin6_addr;
}

}  // namespace

UdpSocket UdpSocket::bind(const Address& address, const UdpOptions& options) {
  detail::require_family(address, true, "UdpSocket");
  const std::string what = "binding a UDP socket to " + address.to_string();
  UdpSocket socket(detail::open_socket(address.family(), SOCK_DGRAM, Source::Kind::socket, what));
  if (options.reuse_address) socket.set_option(SOL_SOCKET, SO_REUSEADDR, 1);
  if (options.reuse_port) socket.set_option(SOL_SOCKET, SO_REUSEPORT, 1);
  if (address.is_v6()) socket.set_option(IPPROTO_IPV6, IPV6_V6ONLY, options.ipv6_only ? 1 : 0);
  const Fd& fd = socket.fd();
  const SysResult result = fd.world().bind(fd.number(), address.native(), address.native_size());
  if (result < 0) throw_sys_error(result, what);
  return socket;
}

UdpSocket UdpSocket::connected(const Address& peer) {
  detail::require_family(peer, true, "UdpSocket");
  UdpSocket socket(detail::open_socket(peer.family(), SOCK_DGRAM, Source::Kind::socket,
                                       "connecting a UDP socket to " + peer.to_string()));
  socket.connect(peer);
  return socket;
}

void UdpSocket::connect(const Address& peer) const {
  detail::require_family(peer, true, "UdpSocket");
  const SysResult result = with_number([&](World& world, int number) {
    return world.connect(number, peer.native(), peer.native_size());
  });
  if (result < 0) throw_sys_error(result, "connecting a UDP socket to " + peer.to_string());
}

bool UdpSocket::is_v6() const {
  return local().is_v6();
}

void UdpSocket::set_broadcast(bool on) const {
  set_option(SOL_SOCKET, SO_BROADCAST, on ? 1 : 0);
}

void UdpSocket::join(const Address& group, unsigned interface) const {
  change_membership(group, interface, true);
}

void UdpSocket::leave(const Address& group, unsigned interface) const {
  change_membership(group, interface, false);
}

void UdpSocket::change_membership(const Address& group, unsigned interface, bool in) const {
  detail::require_family(group, true, "a multicast group");
  if (group.is_v4()) {
    ip_mreqn request{};
    request.imr_multiaddr = v4_of(group);
    request.imr_ifindex = static_cast<int>(interface);
    set_option(IPPROTO_IP, in ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, request);
  } else {
    ipv6_mreq request{};
    request.ipv6mr_multiaddr = v6_of(group);
    request.ipv6mr_interface = interface;
    set_option(IPPROTO_IPV6, in ? IPV6_JOIN_GROUP : IPV6_LEAVE_GROUP, request);
  }
}

void UdpSocket::set_multicast_interface(unsigned interface) const {
  if (is_v6()) {
    set_option(IPPROTO_IPV6, IPV6_MULTICAST_IF, interface);
  } else {
    ip_mreqn request{};
    request.imr_ifindex = static_cast<int>(interface);
    set_option(IPPROTO_IP, IP_MULTICAST_IF, request);
  }
}

void UdpSocket::set_multicast_hops(int hops) const {
  if (is_v6()) {
    set_option(IPPROTO_IPV6, IPV6_MULTICAST_HOPS, hops);
  } else {
    set_option(IPPROTO_IP, IP_MULTICAST_TTL, hops);
  }
}

void UdpSocket::set_multicast_loop(bool on) const {
  if (is_v6()) {
    set_option(IPPROTO_IPV6, IPV6_MULTICAST_LOOP, on ? 1 : 0);
  } else {
    set_option(IPPROTO_IP, IP_MULTICAST_LOOP, on ? 1 : 0);
  }
}

}  // namespace weft

/// UDP: datagrams, which may be lost, doubled or reordered, but not cut.
///
///     auto socket = UdpSocket::bind("0.0.0.0:5353");
///     std::array<std::byte, 1500> buffer;
///     Datagram d = socket.recv_from(buffer);
///     socket.send_to(as_bytes("pong"), d.from);
///
///     auto server = UdpSocket::connected(Address::parse("127.0.0.1:5353"));
///     server.send(as_bytes("ping"));
///
/// A connected socket hears only its peer, and of it: if nobody listens there, the next operation
/// throws ECONNREFUSED, once.
#pragma once

#include <weft/net/message.hpp>
#include <weft/net/socket.hpp>

#include <string_view>

namespace weft {

struct Datagram {
  std::size_t size = 0;  // in the buffer; 0 is a datagram without content, not an end
  Address from;
  bool truncated = false;  // it was longer than the buffer; the rest is gone
};

class ReceiveDatagramOp : public detail::ReceiveCore {
 public:
  using Result = Datagram;
  ReceiveDatagramOp(Source& source, Bytes buffer) noexcept : ReceiveCore(source, buffer, true, 0) {}
  Datagram take() const { return {size(), from(), truncated()}; }
};

struct UdpOptions {
  /// For multicast: several sockets of this machine receive at the same port.
  bool reuse_address = false;
  /// Several sockets share the port; the kernel spreads the datagrams.
  bool reuse_port = false;
  /// An IPv6 socket serves IPv4 peers too unless told otherwise.
  bool ipv6_only = false;
};

class UdpSocket : public Socket {
 public:
  using Socket::Socket;

  [[nodiscard]] static UdpSocket bind(const Address& address, const UdpOptions& options = {});
  [[nodiscard]] static UdpSocket bind(std::string_view address, const UdpOptions& options = {}) {
    return bind(Address::parse(address), options);
  }
  /// At a port of the machine's choice, for talking to `peer`.
  [[nodiscard]] static UdpSocket connected(const Address& peer);
  /// From now on only with `peer`.
  void connect(const Address& peer) const;

  /// A whole datagram or an error (EMSGSIZE: too long).
  [[nodiscard]] SendMessageOp send_to_op(ConstBytes bytes, const Address& to) const {
    return {fd().source(), SendMessageOp::Style::datagram, bytes, to};
  }
  [[nodiscard]] SendMessageOp send_op(ConstBytes bytes) const { return send_to_op(bytes, {}); }
  [[nodiscard]] ReceiveDatagramOp recv_from_op(Bytes buffer) const {
    return {fd().source(), buffer};
  }
  /// The same, for connected sockets: `from` is the peer.
  [[nodiscard]] ReceiveDatagramOp recv_op(Bytes buffer) const { return recv_from_op(buffer); }

  void send_to(ConstBytes bytes, const Address& to) const { perform(send_to_op(bytes, to)); }
  void send(ConstBytes bytes) const { perform(send_op(bytes)); }
  Datagram recv_from(Bytes buffer) const { return perform(recv_from_op(buffer)); }
  Datagram recv(Bytes buffer) const { return perform(recv_op(buffer)); }

  /// Without it sending to a broadcast address fails with EACCES.
  void set_broadcast(bool on) const;
  /// Receive what is sent to `group` (an IPv4 or IPv6 multicast address; its port is ignored)
  /// through the interface of this number; 0: the machine picks one.
  void join(const Address& group, unsigned interface = 0) const;
  void leave(const Address& group, unsigned interface = 0) const;
  /// Through which interface multicasts go out.
  void set_multicast_interface(unsigned interface) const;
  /// How many networks a multicast crosses; 1: none but ours.
  void set_multicast_hops(int hops) const;
  /// Do sockets on this machine hear our multicasts?
  void set_multicast_loop(bool on) const;

 private:
  [[nodiscard]] bool is_v6() const;
  void change_membership(const Address& group, unsigned interface, bool in) const;
};

}  // namespace weft

/// Unix sockets: streams and datagrams between processes of one machine, which also carry
/// descriptors.
///
///     auto listener = UnixListener::bind(Address::unix_path("/run/app.sock"));
///     UnixStream stream = listener.accept();
///     uid_t who = stream.credentials().uid;
///
///     std::array fds{file.number()};
///     stream.send(as_bytes("here it is"), fds);        // the other side:
///     UnixMessage m = stream.recv(buffer);             // m.fds[0] is the file
///
/// Paths and abstract names: net/address.hpp. A path stays in the file system after close(); a
/// listener at a path that a dead process left behind needs `remove_stale`.
///
/// A descriptor that is sent stays open here too and shares its flags with the copy: receiving one
/// makes it non-blocking on both sides.
#pragma once

#include <weft/net/accept.hpp>
#include <weft/net/connect.hpp>
#include <weft/net/message.hpp>
#include <weft/net/stream.hpp>
#include <weft/task/coro.hpp>

#include <span>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace weft {

struct UnixMessage {
  std::size_t size = 0;    // for streams 0 is the end
  Address from;            // of datagrams; none if the sender has not bound its socket
  bool truncated = false;  // a datagram was longer than the buffer; the rest is gone
  std::vector<Fd> fds;
  bool fds_lost = false;  // there were more than was asked for, or than could be opened
};

class ReceiveUnixOp : public detail::ReceiveCore {
 public:
  using Result = UnixMessage;
  using ReceiveCore::ReceiveCore;
  UnixMessage take();
};

/// Who is at the other end, as it was when the connection was made.
struct Credentials {
  pid_t pid = 0;
  uid_t uid = 0;
  gid_t gid = 0;
};

class UnixStream : public Stream {
 public:
  using Stream::Stream;

  /// A full queue of the listener is waited for.
  [[nodiscard]] static auto connect_op(const Address& address) {
    detail::require_family(address, false, "UnixStream");
    return ConnectOp<UnixStream, Source::Kind::socket>({address});
  }
  static UnixStream connect(const Address& address) { return perform(connect_op(address)); }
  /// Two ends of one connection.
  [[nodiscard]] static std::pair<UnixStream, UnixStream> pair();

  [[nodiscard]] Credentials credentials() const;

  /// All of the bytes, of which there must be one, with descriptors (by number; of the same World)
  /// on the first. They stay ours. If it is cancelled, part may have been sent.
  [[nodiscard]] SendMessageOp send_op(ConstBytes bytes, std::span<const int> fds) const;
  /// Some bytes, and up to `most_fds` descriptors that came with them. (Plain reads drop them.)
  [[nodiscard]] ReceiveUnixOp recv_op(Bytes buffer, std::size_t most_fds = most_passed_fds) const {
    return {fd().source(), buffer, false, most_fds};
  }
  void send(ConstBytes bytes, std::span<const int> fds) const { perform(send_op(bytes, fds)); }
  UnixMessage recv(Bytes buffer, std::size_t most_fds = most_passed_fds) const {
    return perform(recv_op(buffer, most_fds));
  }
};

struct UnixListenOptions {
  int backlog = 1024;
  /// If the path is taken and nobody listens there, remove it first. See co_bind().
  bool remove_stale = false;
};

class UnixListener : public detail::Listener {
 public:
  UnixListener() = default;

  /// With `remove_stale` the file system is asked, which may take long: then call this from a fiber
  /// or a plain thread, and co_bind() from a coroutine.
  [[nodiscard]] static UnixListener bind(const Address& address,
                                         const UnixListenOptions& options = {});
  [[nodiscard]] static Coro<UnixListener> co_bind(Address address, UnixListenOptions options = {});

  [[nodiscard]] auto accept_op() const {
    return AcceptOp<UnixStream, Source::Kind::socket>(fd().source(), listening_);
  }
  [[nodiscard]] UnixStream accept() const { return perform(accept_op()); }

 private:
  using Listener::Listener;
};

/// Datagrams between processes of one machine: reliable and in order. A sender waits while the
/// receiver's queue is full.
class UnixDatagram : public Socket {
 public:
  using Socket::Socket;

  [[nodiscard]] static UnixDatagram bind(const Address& address);
  /// Without a name: it can send, but nobody can answer.
  [[nodiscard]] static UnixDatagram open();
  [[nodiscard]] static std::pair<UnixDatagram, UnixDatagram> pair();
  void connect(const Address& peer) const;

  [[nodiscard]] SendMessageOp send_to_op(ConstBytes bytes, const Address& to,
                                         std::span<const int> fds = {}) const {
    return {fd().source(), SendMessageOp::Style::polled, bytes, to, fds};
  }
  [[nodiscard]] SendMessageOp send_op(ConstBytes bytes, std::span<const int> fds = {}) const {
    return {fd().source(), SendMessageOp::Style::datagram, bytes, {}, fds};
  }
  [[nodiscard]] ReceiveUnixOp recv_op(Bytes buffer, std::size_t most_fds = most_passed_fds) const {
    return {fd().source(), buffer, true, most_fds};
  }

  void send_to(ConstBytes bytes, const Address& to, std::span<const int> fds = {}) const {
    perform(send_to_op(bytes, to, fds));
  }
  void send(ConstBytes bytes, std::span<const int> fds = {}) const { perform(send_op(bytes, fds)); }
  UnixMessage recv(Bytes buffer, std::size_t most_fds = most_passed_fds) const {
    return perform(recv_op(buffer, most_fds));
  }
};

}  // namespace weft

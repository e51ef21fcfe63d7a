#include <weft/net/unix.hpp>

#include <weft/io/slow_call.hpp>

#include <string>
#include <system_error>

namespace weft {

namespace {

/// Is the path a socket that nobody listens to? (A connection to something that is no socket is
/// refused as well, so its kind is looked at first.)
bool nobody_listens(const Address& address) {
  const Fd probe = detail::open_socket(AF_UNIX, SOCK_STREAM, Source::Kind::socket,
                                       "looking who listens at " + address.to_string());
  return probe.world().connect(probe.number(), address.native(), address.native_size()) ==
         -ECONNREFUSED;
}

JobRef<SlowCall> file_call(SlowCall::Code code, const Address& address) {
  JobRef<SlowCall> job(new SlowCall(code, this_world()));
  job->path = address.unix_path();
  job->flags = 1;  // stat: the path itself, not what it links to
  return job;
}

Coro<bool> remove_if_stale(Address address) {
  const bool maybe_socket =
      co_await JobOp(file_call(SlowCall::Code::stat, address), [](SlowCall& call) {
        return call.result >= 0 && call.status.kind == FileStatus::Kind::other;
      });
  if (!maybe_socket || !nobody_listens(address)) co_return false;
  co_return co_await JobOp(file_call(SlowCall::Code::unlink, address),
                           [](SlowCall& call) { return call.result >= 0; });
}

Fd listen_now(const Address& address, const UnixListenOptions& options) {
  detail::require_family(address, false, "UnixListener");
  return detail::listen_at(address, Source::Kind::socket, {.backlog = options.backlog});
}

}  // namespace

// Streams

std::pair<UnixStream, UnixStream> UnixStream::pair() {
  auto [a, b] = detail::open_socket_pair(SOCK_STREAM);
  return {UnixStream(std::move(a)), UnixStream(std::move(b))};
}

Credentials UnixStream::credentials() const {
  const auto peer = option<ucred>(SOL_SOCKET, SO_PEERCRED);
  return {peer.pid, peer.uid, peer.gid};
}

SendMessageOp UnixStream::send_op(ConstBytes bytes, std::span<const int> fds) const {
  return {fd().source(), SendMessageOp::Style::stream, bytes, {}, fds};
}

UnixMessage ReceiveUnixOp::take() {
  UnixMessage message;
  message.size = size();
  message.from = from();
  message.truncated = truncated();
  message.fds_lost = lost_fds();
  message.fds = take_fds();
  return message;
}

// Listening

UnixListener UnixListener::bind(const Address& address, const UnixListenOptions& options) {
  if (!options.remove_stale) return UnixListener(listen_now(address, options));
  return await(co_bind(address, options));
}

Coro<UnixListener> UnixListener::co_bind(Address address, UnixListenOptions options) {
  try {
    co_return UnixListener(listen_now(address, options));
  } catch (const std::system_error& error) {
    if (!options.remove_stale || !address.is_unix_path() || error.code().value() != EADDRINUSE) {
      throw;
    }
  }
  co_await remove_if_stale(address);
  co_return UnixListener(listen_now(address, options));
}

// Datagrams

UnixDatagram UnixDatagram::bind(const Address& address) {
  detail::require_family(address, false, "UnixDatagram");
  UnixDatagram socket = open();
  const Fd& fd = socket.fd();
  const SysResult result = fd.world().bind(fd.number(), address.native(), address.native_size());
  if (result < 0) throw_sys_error(result, "binding a datagram socket to " + address.to_string());
  return socket;
}

UnixDatagram UnixDatagram::open() {
  return UnixDatagram(detail::open_socket(AF_UNIX, SOCK_DGRAM, Source::Kind::socket,
                                          "opening a Unix datagram socket"));
}

std::pair<UnixDatagram, UnixDatagram> UnixDatagram::pair() {
  auto [a, b] = detail::open_socket_pair(SOCK_DGRAM);
  return {UnixDatagram(std::move(a)), UnixDatagram(std::move(b))};
}

void UnixDatagram::connect(const Address& peer) const {
  detail::require_family(peer, false, "UnixDatagram");
  const SysResult result = with_number([&](World& world, int number) {
    return world.connect(number, peer.native(), peer.native_size());
  });
  if (result < 0) throw_sys_error(result, "connecting a datagram socket to " + peer.to_string());
}

}  // namespace weft

/// Socket: what all sockets have in common: a descriptor, two addresses, options.
///
///     stream.peer().to_string()                        "192.0.2.7:51234"
///     stream.set_option(IPPROTO_TCP, TCP_QUICKACK, 1);
///     int size = stream.option<int>(SOL_SOCKET, SO_RCVBUF);
///
/// Users hold a TcpStream, UdpSocket, ... (tcp.hpp, udp.hpp, unix.hpp). All are thin: they own an
/// Fd and move like one. Any task or plain thread may call any member; close() wakes whoever waits,
/// with std::system_error(EBADF). None of the calls here waits.
///
/// A socket belongs to the World of the task that made it, not to its Io, so it may be used and
/// closed anywhere.
#pragma once

#include <weft/io/fd.hpp>
#include <weft/net/address.hpp>

#include <type_traits>
#include <utility>

namespace weft {

/// Which direction of a connection to end.
enum class Half : std::uint8_t { read, write, both };

class Socket {
 public:
  /// None: false, and every use throws EBADF.
  Socket() = default;
  /// Takes over a descriptor that is a socket of the right kind.
  explicit Socket(Fd fd) noexcept : fd_(std::move(fd)) {}

  /// False when empty or closed.
  explicit operator bool() const noexcept { return static_cast<bool>(fd_); }
  [[nodiscard]] Fd& fd() noexcept { return fd_; }
  [[nodiscard]] const Fd& fd() const noexcept { return fd_; }
  /// Idempotent.
  void close() noexcept { fd_.close(); }

  [[nodiscard]] Address local() const;
  /// Throws ENOTCONN when there is none, or none any more.
  [[nodiscard]] Address peer() const;

  /// As for setsockopt(): an int, or the structure the option wants.
  template <class T>
  void set_option(int level, int name, const T& value) const {
    static_assert(std::is_trivially_copyable_v<T>);
    set_option_bytes(level, name, &value, sizeof value);
  }
  template <class T>
  [[nodiscard]] T option(int level, int name) const {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    get_option_bytes(level, name, &value, sizeof value);
    return value;
  }
  /// The kernel's buffers, in bytes. It may give more or less than it is asked for.
  void set_send_buffer(int size) const { set_option(SOL_SOCKET, SO_SNDBUF, size); }
  void set_receive_buffer(int size) const { set_option(SOL_SOCKET, SO_RCVBUF, size); }

  /// After `write` the peer reads to the end of what was sent; reading goes on. Others who wait
  /// for this direction wake up.
  void shutdown(Half half) const;

 protected:
  /// The call on the descriptor's number, which cannot be given out again meanwhile; EBADF if
  /// closed.
  template <class Call>
  SysResult with_number(Call call) const {
    Source& source = fd_.source();
    if (!source.enter()) return -EBADF;
    const SysResult result = call(source.world(), source.fd());
    source.leave();
    return result;
  }

 private:
  [[nodiscard]] Address name(World::End end) const;
  void set_option_bytes(int level, int name, const void* value, std::size_t size) const;
  void get_option_bytes(int level, int name, void* value, std::size_t size) const;

  Fd fd_;
};

namespace detail {

/// A new socket of the calling task's World. Throws std::system_error: "<what>: ...".
[[nodiscard]] Fd open_socket(int family, int type, Source::Kind kind, const std::string& what);
/// Two that are connected to each other.
[[nodiscard]] std::pair<Fd, Fd> open_socket_pair(int type);

/// Throws std::invalid_argument unless `address` is IPv4 or IPv6 (`ip`) or Unix.
void require_family(const Address& address, bool ip, const char* what);

}  // namespace detail
}  // namespace weft

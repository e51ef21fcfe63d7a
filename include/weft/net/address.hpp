/// The address of a socket: IPv4, IPv6 or Unix, as text and as the kernel wants it.
///
///     auto server = weft::Address::parse("127.0.0.1:8080");
///     ::connect(fd, server.native(), server.native_size());
///
///     weft::Address peer;
///     socklen_t size = weft::Address::native_capacity;
///     int client = ::accept4(fd, peer.native_buffer(), &size, SOCK_CLOEXEC);
///     peer.set_native_size(size);
///     log("from " + peer.to_string());
///
/// The texts that to_string() gives and parse() takes:
///
///     192.0.2.1:80        IPv4; four parts without leading zeros, so that nobody reads octal
///     [2001:db8::1]:80    IPv6, always in brackets; printed as RFC 5952 says
///     [fe80::1%2]:80      with a scope; parse() takes an interface's name too and asks the machine
///                         for its number, which a simulated program should avoid
///     unix:/run/app.sock  a path; unix:app.sock is relative
///     unix:@name          Linux's abstract names
///     unix:(unnamed)      a Unix socket without a name: one end of a socketpair, most clients
///
/// In Unix names `\\` is a backslash and `\xNN` a byte, and to_string() writes control characters
/// that way: a peer chooses its name, and it must not write into our log as it likes. Two things
/// only the kernel makes print but do not parse back: an abstract name of no bytes at all, and a
/// path of 108 bytes, which leaves no room for its terminator.
///
/// A value without links to anything: copy it, keep it, use it from any thread. Equal means the
/// same bytes for the kernel. ::ffff:1.2.3.4 is IPv6 and so differs from 1.2.3.4, as do two paths
/// to one file. An IPv6 flow label is not part of an address and is dropped.
///
/// Invariant: the bytes are in the one form that normalize() makes, so that == and the hash look at
/// bytes. Only between native_buffer() and set_native_size() may they be anything.
///
/// Rejected: sockaddr_storage, whose 128 bytes hold nothing more; a variant of three classes, which
/// the kernel cannot write into; names as addresses, because looking one up waits and may give
/// several (see HostPort).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace weft {

class Address {
 public:
  /// What accept() and getsockname() may write into native_buffer().
  static constexpr socklen_t native_capacity = sizeof(sockaddr_un);
  /// The longest path or abstract name, in bytes.
  static constexpr std::size_t unix_name_max = sizeof(sockaddr_un::sun_path) - 1;

  /// No address: false, family AF_UNSPEC, size 0.
  Address() noexcept = default;

  /// Throws std::invalid_argument that says what is wrong, where (positions count from 1), and how
  /// to write it.
  [[nodiscard]] static Address parse(std::string_view text);
  /// Nothing where parse() throws.
  [[nodiscard]] static std::optional<Address> try_parse(std::string_view text);

  /// v4(0x7f000001, 80) is 127.0.0.1:80.
  [[nodiscard]] static Address v4(std::uint32_t host_order, std::uint16_t port) noexcept;
  [[nodiscard]] static Address v6(const std::array<std::uint8_t, 16>& bytes, std::uint16_t port,
                                  std::uint32_t scope_id = 0) noexcept;
  [[nodiscard]] static Address loopback(std::uint16_t port) noexcept;   // 127.0.0.1
  [[nodiscard]] static Address loopback6(std::uint16_t port) noexcept;  // ::1
  [[nodiscard]] static Address any(std::uint16_t port) noexcept;        // 0.0.0.0
  [[nodiscard]] static Address any6(std::uint16_t port) noexcept;       // ::

  /// Throws std::invalid_argument if the name is empty, longer than unix_name_max or, for a path,
  /// contains a zero byte. The bytes are taken as they are, without escapes.
  [[nodiscard]] static Address unix_path(std::string_view path);
  [[nodiscard]] static Address unix_abstract(std::string_view name);
  /// To bind this one lets the kernel pick an abstract name.
  [[nodiscard]] static Address unix_unnamed() noexcept;

  /// A copy of somebody else's sockaddr; null is no address. Throws as set_native_size() does.
  [[nodiscard]] static Address from_native(const sockaddr* address, socklen_t size);

  explicit operator bool() const noexcept { return size_ != 0; }
  [[nodiscard]] int family() const noexcept;  // AF_INET, AF_INET6, AF_UNIX; AF_UNSPEC if none
  [[nodiscard]] bool is_v4() const noexcept { return family() == AF_INET; }
  [[nodiscard]] bool is_v6() const noexcept { return family() == AF_INET6; }
  [[nodiscard]] bool is_unix() const noexcept { return family() == AF_UNIX; }
  [[nodiscard]] bool is_unix_path() const noexcept;
  [[nodiscard]] bool is_unix_abstract() const noexcept;
  [[nodiscard]] bool is_unix_unnamed() const noexcept;

  /// 127.x.x.x, ::1, and the former inside IPv6. False for Unix sockets.
  [[nodiscard]] bool is_loopback() const noexcept;
  /// All addresses of this machine: 0.0.0.0 or ::.
  [[nodiscard]] bool is_any() const noexcept;

  /// 0 for Unix sockets.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// The same host at another port. Throws std::invalid_argument if this is not IPv4 or IPv6.
  [[nodiscard]] Address with_port(std::uint16_t port) const;
  /// 0 if there is none.
  [[nodiscard]] std::uint32_t scope_id() const noexcept;
  /// The path, or nothing if this is not one. A view into this object.
  [[nodiscard]] std::string_view unix_path() const noexcept;
  /// The abstract name, or nothing. A view into this object.
  [[nodiscard]] std::string_view unix_abstract() const noexcept;

  /// The text without port and brackets: "127.0.0.1", "fe80::1%2"; all of it for Unix sockets.
  [[nodiscard]] std::string host() const;
  [[nodiscard]] std::string to_string() const;

  [[nodiscard]] const sockaddr* native() const noexcept { return &storage_.base; }
  [[nodiscard]] socklen_t native_size() const noexcept { return size_; }

  /// For the kernel to write native_capacity bytes into. set_native_size() must follow; until then
  /// this object is good for nothing else.
  [[nodiscard]] sockaddr* native_buffer() noexcept { return &storage_.base; }
  /// `size` is what the kernel said, which may exceed the capacity by the terminator of a path; 0
  /// is no address. Throws std::invalid_argument, and leaves no address, if the family is none of
  /// ours or the size too small for it.
  void set_native_size(socklen_t size);

  friend bool operator==(const Address& a, const Address& b) noexcept {
    return a.bytes() == b.bytes();
  }
  /// By family, then host, scope and port; Unix sockets by name.
  friend std::strong_ordering operator<=>(const Address& a, const Address& b) noexcept;

 private:
  friend struct std::hash<Address>;

  union Storage {
    sockaddr_un un;  // first and largest, so that {} clears everything
    sockaddr base;
    sockaddr_in in;
    sockaddr_in6 in6;
  };

  [[nodiscard]] bool normalize(socklen_t size) noexcept;
  [[nodiscard]] std::string_view sun_path() const noexcept;
  [[nodiscard]] std::string_view bytes() const noexcept {
    return {reinterpret_cast<const char*>(&storage_), size_};
  }

  Storage storage_{};
  socklen_t size_ = 0;
};

/// A host and a port as people write them, where the host may be a name still to be looked up.
///
///     HostPort::parse("example.com:80")   host "example.com"
///     HostPort::parse("[::1]:80")         host "::1"
///     HostPort::parse(":8080")            host "": all addresses of this machine
///
/// What looks like a number must be an IPv4 address that Address::parse() takes: resolvers read
/// "1.2.3" and "0x7f.1" each in their own way.
struct HostPort {
  std::string host;  // without brackets
  std::uint16_t port = 0;

  /// Throws std::invalid_argument as Address::parse() does.
  [[nodiscard]] static HostPort parse(std::string_view text);
  /// What parse() takes.
  [[nodiscard]] std::string to_string() const;

  friend bool operator==(const HostPort&, const HostPort&) = default;
};

}  // namespace weft

template <>
struct std::hash<weft::Address> {
  std::size_t operator()(const weft::Address& address) const noexcept {
    return std::hash<std::string_view>()(address.bytes());
  }
};

#include <weft/net/address.hpp>

#include "net/address_text.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>

#include <arpa/inet.h>

namespace weft {
namespace {

constexpr socklen_t sun_path_at = offsetof(sockaddr_un, sun_path);

std::uint32_t v4_in_v6(const in6_addr& address) {
  std::uint32_t value = 0;
  std::memcpy(&value, &address.s6_addr[12], sizeof(value));
  return ntohl(value);
}

bool is_loopback_v4(std::uint32_t host_order) {
  return host_order >> 24U == 127;
}

void require_unix_name(std::string_view name, bool abstract) {
  const auto complaint = detail::unix_complaint(name, abstract);
  if (complaint.what.empty()) return;
  throw std::invalid_argument("cannot make a Unix socket address of " + detail::quoted(name) +
                              ": " + complaint.what + "; " + complaint.hint);
}

}  // namespace

// --- text ---------------------------------------------------------------------------------------

namespace detail {

void append_escaped(std::string& out, char c) {
  constexpr std::string_view hex = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  out += {'\\', 'x', hex[byte >> 4U], hex[byte & 15U]};
}

std::string printable(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\') {
      out += "\\\\";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      append_escaped(out, c);
    } else {
      out += c;
    }
  }
  return out;
}

std::string shown(std::string_view text) {
  constexpr std::size_t shown_max = 160;
  if (text.size() <= shown_max) return printable(text);
  return printable(text.substr(0, shown_max)) + "...";
}

std::string quoted(std::string_view text) {
  return '"' + shown(text) + '"';
}

Complaint unix_complaint(std::string_view name, bool abstract) {
  const std::string kind = abstract ? "abstract name" : "path";
  const std::string example = "write it like unix:/run/app.sock or unix:@app";
  if (name.empty()) return {"the " + kind + " is missing", example};
  if (!abstract && name.find('\0') != name.npos) {
    return {"a path cannot contain a zero byte", example};
  }
  if (name.size() <= Address::unix_name_max) return {};
  return {"the " + kind + " has " + std::to_string(name.size()) + " bytes, but at most " +
              std::to_string(Address::unix_name_max) + " fit",
          abstract ? "use a shorter name" : "use a shorter path, or a relative one"};
}

}  // namespace detail

std::string Address::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_v4()) {
    ::inet_ntop(AF_INET, &storage_.in.sin_addr, text, sizeof(text));
    return text;
  }
  if (is_v6()) {
    ::inet_ntop(AF_INET6, &storage_.in6.sin6_addr, text, sizeof(text));
    return scope_id() == 0 ? text : text + ("%" + std::to_string(scope_id()));
  }
  return to_string();
}

std::string Address::to_string() const {
  if (is_v4()) return host() + ":" + std::to_string(port());
  if (is_v6()) return "[" + host() + "]:" + std::to_string(port());
  if (!is_unix()) return "(none)";
  std::string text(detail::unix_prefix);
  if (is_unix_unnamed()) return text += detail::unix_unnamed_text;
  if (is_unix_abstract()) return text += "@" + detail::printable(unix_abstract());
  std::string_view path = unix_path();
  if (path.front() == '@' || path.front() == '(') {  // not to be read as one of the two above
    detail::append_escaped(text, path.front());
    path.remove_prefix(1);
  }
  return text += detail::printable(path);
}

std::string HostPort::to_string() const {
  const bool is_v6 = host.find(':') != host.npos;
  return (is_v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

// --- making one ---------------------------------------------------------------------------------

Address Address::v4(std::uint32_t host_order, std::uint16_t port) noexcept {
  Address address;
  address.storage_.in.sin_family = AF_INET;
  address.storage_.in.sin_port = htons(port);
  address.storage_.in.sin_addr.s_addr = htonl(host_order);
  address.size_ = sizeof(sockaddr_in);
  return address;
}

Address Address::v6(const std::array<std::uint8_t, 16>& bytes, std::uint16_t port,
                    std::uint32_t scope_id) noexcept {
  Address address;
  address.storage_.in6.sin6_family = AF_INET6;
  address.storage_.in6.sin6_port = htons(port);
  std::memcpy(&address.storage_.in6.sin6_addr, bytes.data(), bytes.size());
  address.storage_.in6.sin6_scope_id = scope_id;
  address.size_ = sizeof(sockaddr_in6);
  return address;
}

Address Address::loopback(std::uint16_t port) noexcept {
  return v4(INADDR_LOOPBACK, port);
}

Address Address::loopback6(std::uint16_t port) noexcept {
  return v6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, port);
}

Address Address::any(std::uint16_t port) noexcept {
  return v4(INADDR_ANY, port);
}

Address Address::any6(std::uint16_t port) noexcept {
  return v6({}, port);
}

Address Address::unix_path(std::string_view path) {
  require_unix_name(path, false);
  Address address = unix_unnamed();
  std::ranges::copy(path, address.storage_.un.sun_path);  // the terminator is there already
  address.size_ = sun_path_at + static_cast<socklen_t>(path.size()) + 1;
  return address;
}

Address Address::unix_abstract(std::string_view name) {
  require_unix_name(name, true);
  Address address = unix_unnamed();
  std::ranges::copy(name, address.storage_.un.sun_path + 1);  // after the zero that marks it
  address.size_ = sun_path_at + 1 + static_cast<socklen_t>(name.size());
  return address;
}

Address Address::unix_unnamed() noexcept {
  Address address;
  address.storage_.un.sun_family = AF_UNIX;
  address.size_ = sun_path_at;
  return address;
}

// --- the kernel's form --------------------------------------------------------------------------

Address Address::from_native(const sockaddr* native, socklen_t size) {
  Address address;
  if (native == nullptr) return address;
  std::memcpy(&address.storage_, native, std::min(size, native_capacity));
  address.set_native_size(size);
  return address;
}

void Address::set_native_size(socklen_t size) {
  const int family = size < sizeof(sa_family_t) ? AF_UNSPEC : storage_.base.sa_family;
  if (normalize(std::min(size, native_capacity))) return;
  *this = Address();
  if (size == 0) return;
  throw std::invalid_argument("cannot use a socket address of family " + std::to_string(family) +
                              " and " + std::to_string(size) +
                              " bytes: it is no whole IPv4, IPv6 or Unix address; check what was "
                              "asked for it, or use the descriptor without weft");
}

/// One form for each address: fixed sizes, no padding, no flow label, a path with its terminator
/// and nothing after it. False if it is none of ours.
bool Address::normalize(socklen_t size) noexcept {
  if (size < sizeof(sa_family_t)) return false;
  switch (storage_.base.sa_family) {
    case AF_INET:
      if (size < sizeof(sockaddr_in)) return false;
      std::ranges::fill(storage_.in.sin_zero, static_cast<unsigned char>(0));
      size_ = sizeof(sockaddr_in);
      return true;
    case AF_INET6:
      if (size < sizeof(sockaddr_in6)) return false;
      storage_.in6.sin6_flowinfo = 0;
      size_ = sizeof(sockaddr_in6);
      return true;
    case AF_UNIX:
      size_ = size;
      if (is_unix_path()) {
        const auto length = static_cast<socklen_t>(unix_path().size());
        size_ = std::min(sun_path_at + length + 1, native_capacity);
        // A path of 108 bytes fills the array; the kernel takes it without a terminator.
        if (length < sizeof(storage_.un.sun_path)) storage_.un.sun_path[length] = '\0';
      }
      return true;
    default:
      return false;
  }
}

// --- questions ----------------------------------------------------------------------------------

int Address::family() const noexcept {
  return size_ == 0 ? AF_UNSPEC : storage_.base.sa_family;
}

/// What is used of the array: nothing if unnamed, a zero and the name if abstract, else a path.
std::string_view Address::sun_path() const noexcept {
  return is_unix() ? std::string_view(storage_.un.sun_path, size_ - sun_path_at) : "";
}

bool Address::is_unix_path() const noexcept {
  return !sun_path().empty() && sun_path().front() != '\0';
}

bool Address::is_unix_abstract() const noexcept {
  return !sun_path().empty() && sun_path().front() == '\0';
}

bool Address::is_unix_unnamed() const noexcept {
  return is_unix() && sun_path().empty();
}

std::string_view Address::unix_path() const noexcept {
  return is_unix_path() ? sun_path().substr(0, sun_path().find('\0')) : "";
}

std::string_view Address::unix_abstract() const noexcept {
  return is_unix_abstract() ? sun_path().substr(1) : "";
}

bool Address::is_loopback() const noexcept {
  if (is_v4()) return is_loopback_v4(ntohl(storage_.in.sin_addr.s_addr));
  if (!is_v6()) return false;
  const in6_addr& address = storage_.in6.sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&address) ||
         (IN6_IS_ADDR_V4MAPPED(&address) && is_loopback_v4(v4_in_v6(address)));
}

bool Address::is_any() const noexcept {
  if (is_v4()) return storage_.in.sin_addr.s_addr == htonl(INADDR_ANY);
  return is_v6() && IN6_IS_ADDR_UNSPECIFIED(&storage_.in6.sin6_addr);
}

std::uint16_t Address::port() const noexcept {
  if (is_v4()) return ntohs(storage_.in.sin_port);
  return is_v6() ? ntohs(storage_.in6.sin6_port) : std::uint16_t{0};
}

Address Address::with_port(std::uint16_t port) const {
  Address address = *this;
  if (is_v4()) {
    address.storage_.in.sin_port = htons(port);
  } else if (is_v6()) {
    address.storage_.in6.sin6_port = htons(port);
  } else {
    throw std::invalid_argument("cannot set port " + std::to_string(port) + " of " + to_string() +
                                ": only IPv4 and IPv6 addresses have one; ask is_unix() first");
  }
  return address;
}

std::uint32_t Address::scope_id() const noexcept {
  return is_v6() ? storage_.in6.sin6_scope_id : 0;
}

std::strong_ordering operator<=>(const Address& a, const Address& b) noexcept {
  if (const auto order = a.family() <=> b.family(); order != 0) return order;
  if (a.is_v4()) {
    const auto order =
        ntohl(a.storage_.in.sin_addr.s_addr) <=> ntohl(b.storage_.in.sin_addr.s_addr);
    return order != 0 ? order : a.port() <=> b.port();
  }
  if (a.is_v6()) {
    const int bytes =
        std::memcmp(&a.storage_.in6.sin6_addr, &b.storage_.in6.sin6_addr, sizeof(in6_addr));
    if (bytes != 0) return bytes <=> 0;
    const auto scope = a.scope_id() <=> b.scope_id();
    return scope != 0 ? scope : a.port() <=> b.port();
  }
  return a.sun_path() <=> b.sun_path();
}

}  // namespace weft

#include <weft/net/address.hpp>

#include "net/address_text.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include <net/if.h>

// Reads addresses, with the care that an error deserves: every refusal knows its place in the text
// and how to write it right.

namespace weft {
namespace {

using detail::append_escaped;
using detail::quoted;
using detail::shown;
using detail::unix_complaint;
using detail::unix_prefix;
using detail::unix_unnamed_text;

using Bytes16 = std::array<std::uint8_t, 16>;

// --- faults -------------------------------------------------------------------------------------

/// Why a text is refused. A parser fills one in and gives nullopt.
struct Fault {
  std::size_t at = 0;
  std::string what;
  std::string hint;
};

std::nullopt_t fail(Fault& fault, std::size_t at, std::string what, std::string hint) {
  fault = {at, std::move(what), std::move(hint)};
  return std::nullopt;
}

std::string str(std::string_view text) {
  return std::string(text);
}

/// One byte; half of a UTF-8 character as its code.
std::string quoted_char(char c) {
  if (static_cast<unsigned char>(c) < 0x80) return quoted({&c, 1});
  std::string out = "\"";
  append_escaped(out, c);
  return out += '"';
}

[[noreturn]] void refuse(std::string_view text, const char* kind, const Fault& fault) {
  throw std::invalid_argument("cannot parse " + quoted(text) + " as " + kind + ": " + fault.what +
                              ", at position " + std::to_string(fault.at + 1) + "; " + fault.hint);
}

// --- numbers and literals: `at` is where `text` begins in the whole ------------------------------

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

std::optional<std::uint8_t> hex_digit(char c) {
  if (is_digit(c)) return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<std::uint8_t>(c - 'A' + 10);
  return std::nullopt;
}

/// `noun` names the number in a fault: "port".
std::optional<std::uint32_t> parse_decimal(std::string_view text, std::size_t at, std::uint32_t max,
                                           const std::string& noun, Fault& fault) {
  const auto hint = [max] { return "write a number from 0 to " + std::to_string(max); };
  if (text.empty()) return fail(fault, at, "the " + noun + " is missing", hint());
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_digit(text[i])) {
      return fail(fault, at + i, quoted_char(text[i]) + " in the " + noun + " is no digit", hint());
    }
    // Saturates just above max, so that no number of digits overflows.
    value = std::min<std::uint64_t>(value * 10 + static_cast<std::uint64_t>(text[i] - '0'),
                                    std::uint64_t{max} + 1);
  }
  if (value > max) {
    return fail(fault, at,
                "the " + noun + " " + quoted(text) + " is greater than " + std::to_string(max),
                hint());
  }
  if (text.size() > 1 && text[0] == '0') {
    return fail(fault, at, "the " + noun + " " + quoted(text) + " has a leading zero",
                "write " + std::to_string(value) + ", decimal");
  }
  return static_cast<std::uint32_t>(value);
}

std::optional<std::uint32_t> parse_v4(std::string_view text, std::size_t at, Fault& fault) {
  const auto parts = std::ranges::count(text, '.') + 1;
  if (parts != 4) {
    return fail(fault, at,
                quoted(text) + " has " + std::to_string(parts) + (parts == 1 ? " part" : " parts") +
                    ", an IPv4 address has four",
                "write it like 192.0.2.1");
  }
  std::uint32_t value = 0;
  std::size_t begin = 0;
  for (int i = 0; i < 4; ++i) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    const auto part =
        parse_decimal(text.substr(begin, end - begin), at + begin, 255, "IPv4 part", fault);
    if (!part) return std::nullopt;
    value = value << 8U | *part;
    begin = end + 1;
  }
  return value;
}

std::optional<std::uint16_t> parse_group(std::string_view text, std::size_t at, Fault& fault) {
  constexpr auto hint = "write groups of one to four hexadecimal digits between colons";
  if (text.empty()) return fail(fault, at, "an IPv6 group is empty", hint);
  unsigned value = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto digit = hex_digit(text[i]);
    if (!digit) {
      return fail(fault, at + i, quoted_char(text[i]) + " is no hexadecimal digit", hint);
    }
    if (i == 4) return fail(fault, at, "an IPv6 group has more than four digits", hint);
    value = value << 4U | *digit;
  }
  return static_cast<std::uint16_t>(value);
}

/// RFC 4291, section 2.2. Our own because inet_pton does not say where it stopped.
std::optional<Bytes16> parse_v6(std::string_view text, std::size_t at, Fault& fault) {
  constexpr auto hint = "write it like 2001:db8::1";
  std::array<std::uint16_t, 8> groups{};
  std::size_t used = 0;
  std::optional<std::size_t> gap;  // how many groups stand before "::"
  std::size_t i = 0;
  if (text.empty()) return fail(fault, at, "the IPv6 address is empty", hint);
  if (text.starts_with("::")) {
    gap = 0;
    i = 2;
  }
  while (i < text.size()) {
    const std::size_t end = std::min(text.find(':', i), text.size());
    const std::string_view group = text.substr(i, end - i);
    const bool is_last_v4 = end == text.size() && group.find('.') != group.npos &&
                            group.find_first_not_of("0123456789.") == group.npos;
    if (used + (is_last_v4 ? 2 : 1) > groups.size()) {
      return fail(fault, at + i, "an IPv6 address has only eight groups", hint);
    }
    if (is_last_v4) {
      const auto v4 = parse_v4(group, at + i, fault);
      if (!v4) return std::nullopt;
      groups[used++] = static_cast<std::uint16_t>(*v4 >> 16U);
      groups[used++] = static_cast<std::uint16_t>(*v4 & 0xffffU);
      break;
    }
    const auto value = parse_group(group, at + i, fault);
    if (!value) return std::nullopt;
    groups[used++] = *value;
    if (end == text.size()) break;
    i = end + 1;
    if (i == text.size()) return fail(fault, at + end, "the IPv6 address ends in one ':'", hint);
    if (text[i] == ':') {
      if (gap) return fail(fault, at + end, "an IPv6 address has only one '::'", hint);
      gap = used;
      ++i;
    }
  }
  if (!gap && used != 8) {
    return fail(fault, at,
                quoted(text) + " has " + std::to_string(used) +
                    " groups, an IPv6 address has eight unless '::' stands for some",
                hint);
  }
  if (gap && used == 8) {
    return fail(fault, at, "'::' stands for no group, all eight are there", "leave it out");
  }
  if (gap) {
    const auto first = groups.begin() + static_cast<std::ptrdiff_t>(*gap);
    const auto last = groups.begin() + static_cast<std::ptrdiff_t>(used);
    std::fill(first, std::move_backward(first, last, groups.end()), std::uint16_t{0});
  }
  Bytes16 bytes{};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    bytes[2 * g] = static_cast<std::uint8_t>(groups[g] >> 8U);
    bytes[2 * g + 1] = static_cast<std::uint8_t>(groups[g] & 0xffU);
  }
  return bytes;
}

std::optional<std::uint32_t> parse_scope(std::string_view text, std::size_t at, Fault& fault) {
  constexpr auto hint = "write the name or number of a network interface, like %eth0 or %2";
  if (text.empty()) return fail(fault, at, "the scope after '%' is missing", hint);
  if (all_digits(text)) return parse_decimal(text, at, UINT32_MAX, "scope", fault);
  if (text.size() < IFNAMSIZ && text.find('\0') == text.npos) {
    if (const unsigned index = ::if_nametoindex(str(text).c_str()); index != 0) return index;
  }
  return fail(fault, at, "this machine has no network interface " + quoted(text), hint);
}

/// What stands between the brackets; the port is still to be set.
std::optional<Address> parse_scoped_v6(std::string_view text, std::size_t at, Fault& fault) {
  const std::size_t percent = text.find('%');
  const auto bytes = parse_v6(text.substr(0, percent), at, fault);
  if (!bytes) return std::nullopt;
  if (percent == text.npos) return Address::v6(*bytes, 0);
  const auto scope = parse_scope(text.substr(percent + 1), at + percent + 1, fault);
  if (!scope) return std::nullopt;
  return Address::v6(*bytes, 0, *scope);
}

// --- host and port ------------------------------------------------------------------------------

struct Split {
  std::string_view host;
  std::size_t host_at = 0;
  bool bracketed = false;
  std::uint16_t port = 0;
};

std::nullopt_t fail_without_brackets(std::string_view text, Fault& fault) {
  Fault ignored;
  const std::size_t last = text.rfind(':');
  const std::string_view head = text.substr(0, last);
  const std::string_view tail = text.substr(last + 1);
  const bool is_all = parse_v6(text.substr(0, text.find('%')), 0, ignored).has_value();
  const bool is_head = parse_v6(head.substr(0, head.find('%')), 0, ignored) &&
                       parse_decimal(tail, 0, UINT16_MAX, "port", ignored);
  if (!is_all && !is_head) {
    const std::size_t second = text.find(':', text.find(':') + 1);
    return fail(fault, second, "there is more than one ':'",
                "write host:port, and IPv6 addresses in brackets like [::1]:80");
  }
  std::string hint = "write ";
  if (is_head) hint += "[" + shown(head) + "]:" + str(tail);
  if (is_head && is_all) hint += ", or ";
  if (is_all) hint += "[" + shown(text) + "]:80 with the port that you want";
  return fail(fault, 0, "an IPv6 address needs brackets before its port", hint);
}

std::optional<Split> split(std::string_view text, Fault& fault) {
  if (text.empty()) {
    return fail(fault, 0, "the text is empty", "write host:port, like 127.0.0.1:80 or [::1]:80");
  }
  if (const std::size_t url = text.find("://"); url != text.npos) {
    return fail(fault, url, "this is a URL", "write only its host and port, like 127.0.0.1:80");
  }
  Split parts;
  std::size_t colon = 0;
  if (text[0] == '[') {
    const std::size_t close = text.find(']');
    if (close == text.npos) {
      return fail(fault, text.size(), "the ']' is missing", "write it like [::1]:80");
    }
    parts.host = text.substr(1, close - 1);
    parts.host_at = 1;
    parts.bracketed = true;
    colon = close + 1;
    if (colon < text.size() && text[colon] != ':') {
      return fail(fault, colon, "after ']' comes ':' and the port",
                  "write " + shown(text.substr(0, colon)) + ":80 with the port that you want");
    }
  } else {
    colon = std::min(text.find(':'), text.size());
    if (text.find(':', colon + 1) != text.npos) return fail_without_brackets(text, fault);
    parts.host = text.substr(0, colon);
  }
  if (colon + 1 >= text.size()) {
    const std::string_view head = text.substr(0, colon);
    return fail(fault, text.size(), "the port is missing",
                all_digits(head) ? "write 127.0.0.1:" + shown(head) + " if this is the port"
                                 : "write " + shown(head) + ":80 with the port that you want");
  }
  const auto port = parse_decimal(text.substr(colon + 1), colon + 1, UINT16_MAX, "port", fault);
  if (!port) return std::nullopt;
  parts.port = static_cast<std::uint16_t>(*port);
  return parts;
}

/// Would some resolver take this for an IPv4 address? Then the last label is a number.
bool looks_like_v4(std::string_view host) {
  if (host.ends_with('.')) host.remove_suffix(1);
  const std::string_view label = host.substr(host.rfind('.') + 1);
  if (label.starts_with("0x") || label.starts_with("0X")) {
    return std::ranges::all_of(label.substr(2), [](char c) { return hex_digit(c).has_value(); });
  }
  return all_digits(label);
}

/// A host name: labels of letters, digits, '-' and '_'.
std::optional<std::string_view> parse_name(std::string_view host, std::size_t at, Fault& fault) {
  constexpr std::size_t name_max = 253;
  constexpr std::size_t label_max = 63;
  constexpr auto hint = "write a name like example.com, or an address like 192.0.2.1 or [::1]";
  for (std::size_t i = 0; i < host.size(); ++i) {
    const char c = host[i];
    if (static_cast<unsigned char>(c) >= 0x80) {
      return fail(fault, at + i, "a host name is ASCII",
                  "write an international name in its xn-- form");
    }
    if (!is_letter(c) && !is_digit(c) && c != '-' && c != '_' && c != '.') {
      return fail(fault, at + i, quoted_char(c) + " cannot stand in a host name", hint);
    }
  }
  std::string_view rest = host.ends_with('.') ? host.substr(0, host.size() - 1) : host;
  if (rest.size() > name_max) {
    return fail(fault, at, "the host name has more than 253 characters", hint);
  }
  for (std::size_t begin = 0; begin <= rest.size();) {
    const std::size_t end = std::min(rest.find('.', begin), rest.size());
    const std::string_view label = rest.substr(begin, end - begin);
    if (label.empty()) return fail(fault, at + begin, "a part of the host name is empty", hint);
    if (label.size() > label_max) {
      return fail(fault, at + begin, "a part of the host name has more than 63 characters", hint);
    }
    if (label.starts_with('-') || label.ends_with('-')) {
      return fail(fault, at + begin, "a part of the host name begins or ends with '-'", hint);
    }
    begin = end + 1;
  }
  return host;
}

// --- unix ---------------------------------------------------------------------------------------

std::optional<std::string> unescape(std::string_view text, std::size_t at, Fault& fault) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      out += text[i];
    } else if (text.substr(i, 2) == "\\\\") {
      out += text[++i];
    } else {
      const bool is_hex = text.substr(i, 2) == "\\x" && i + 3 < text.size();
      const auto high = is_hex ? hex_digit(text[i + 2]) : std::nullopt;
      const auto low = is_hex ? hex_digit(text[i + 3]) : std::nullopt;
      if (!high || !low) {
        return fail(fault, at + i, "'\\' begins no escape",
                    "write \\\\ for a backslash and \\xNN for the byte NN");
      }
      out += static_cast<char>(*high << 4U | *low);
      i += 3;
    }
  }
  return out;
}

std::optional<Address> parse_unix(std::string_view text, Fault& fault) {
  std::size_t at = unix_prefix.size();
  if (text.substr(at) == unix_unnamed_text) return Address::unix_unnamed();
  const bool abstract = text.substr(at).starts_with('@');
  if (abstract) ++at;
  const auto name = unescape(text.substr(at), at, fault);
  if (!name) return std::nullopt;
  auto complaint = unix_complaint(*name, abstract);
  if (!complaint.what.empty()) {
    return fail(fault, at, std::move(complaint.what), std::move(complaint.hint));
  }
  return abstract ? Address::unix_abstract(*name) : Address::unix_path(*name);
}

std::optional<Address> parse_address(std::string_view text, Fault& fault) {
  if (text.starts_with(unix_prefix)) return parse_unix(text, fault);
  const auto parts = split(text, fault);
  if (!parts) return std::nullopt;
  if (parts->bracketed) {
    const auto address = parse_scoped_v6(parts->host, parts->host_at, fault);
    return address ? std::optional(address->with_port(parts->port)) : std::nullopt;
  }
  if (parts->host.empty()) {
    const std::string port = std::to_string(parts->port);
    return fail(fault, 0, "the host is missing",
                "write 0.0.0.0:" + port + " or [::]:" + port +
                    " for all addresses, 127.0.0.1:" + port + " for this machine alone");
  }
  if (looks_like_v4(parts->host)) {
    const auto address = parse_v4(parts->host, 0, fault);
    return address ? std::optional(Address::v4(*address, parts->port)) : std::nullopt;
  }
  if (!parse_name(parts->host, 0, fault)) return std::nullopt;
  return fail(fault, 0, quoted(parts->host) + " is a name, not an address",
              "use resolve to look it up, or write an address like 127.0.0.1:" +
                  std::to_string(parts->port));
}

/// A host that is no name must be an address.
std::optional<HostPort> parse_host_port(std::string_view text, Fault& fault) {
  if (text.starts_with(unix_prefix)) {
    return fail(fault, 0, "a Unix socket has no host and port", "use Address::parse for it");
  }
  const auto parts = split(text, fault);
  if (!parts) return std::nullopt;
  const bool ok = parts->bracketed ? parse_scoped_v6(parts->host, parts->host_at, fault).has_value()
                  : parts->host.empty()        ? true
                  : looks_like_v4(parts->host) ? parse_v4(parts->host, 0, fault).has_value()
                                               : parse_name(parts->host, 0, fault).has_value();
  if (!ok) return std::nullopt;
  return HostPort{str(parts->host), parts->port};
}

}  // namespace

Address Address::parse(std::string_view text) {
  Fault fault;
  const auto address = parse_address(text, fault);
  if (!address) refuse(text, "an address", fault);
  return *address;
}

std::optional<Address> Address::try_parse(std::string_view text) {
  Fault ignored;
  return parse_address(text, ignored);
}

HostPort HostPort::parse(std::string_view text) {
  Fault fault;
  auto parsed = parse_host_port(text, fault);
  if (!parsed) refuse(text, "a host and port", fault);
  return std::move(*parsed);
}

}  // namespace weft

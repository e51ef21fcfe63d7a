#include <weft/net/address.hpp>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include <arpa/inet.h>

#include <gtest/gtest.h>
#include <rapidcheck.h>

namespace weft {
namespace {

std::string refusal(const std::string& text) {
  try {
    (void)Address::parse(text);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "nothing was thrown";
}

rc::Gen<Address> any_address() {
  const auto v4 = rc::gen::map(rc::gen::arbitrary<std::pair<std::uint32_t, std::uint16_t>>(),
                               [](auto p) { return Address::v4(p.first, p.second); });
  using Six = std::tuple<std::array<std::uint8_t, 16>, std::uint16_t, std::uint32_t>;
  // Half of the bytes zero, so that "::" appears.
  const auto byte =
      rc::gen::oneOf(rc::gen::just(std::uint8_t{0}), rc::gen::arbitrary<std::uint8_t>());
  const auto v6 = rc::gen::map(
      rc::gen::tuple(rc::gen::container<std::array<std::uint8_t, 16>>(byte),
                     rc::gen::arbitrary<std::uint16_t>(), rc::gen::arbitrary<std::uint32_t>()),
      [](const Six& s) { return Address::v6(std::get<0>(s), std::get<1>(s), std::get<2>(s)); });
  const auto name = rc::gen::resize(
      107, rc::gen::nonEmpty(rc::gen::container<std::string>(rc::gen::arbitrary<char>())));
  const auto abstract = rc::gen::map(name, [](const std::string& s) {
    return Address::unix_abstract(std::string_view(s).substr(0, 107));
  });
  const auto path = rc::gen::map(name, [](std::string s) {
    std::ranges::replace(s, '\0', '@');
    return Address::unix_path(std::string_view(s).substr(0, 107));
  });
  return rc::gen::oneOf(v4, v6, abstract, path, rc::gen::just(Address::unix_unnamed()));
}

TEST(AddressProperty, WhatIsPrintedParsesBack) {
  ASSERT_TRUE(rc::check("parse(to_string(a)) == a", [] {
    const Address address = *any_address().as("address");
    const std::string text = address.to_string();
    RC_ASSERT(Address::parse(text) == address);
    RC_ASSERT(Address::try_parse(text) == address);
    RC_ASSERT(Address::from_native(address.native(), address.native_size()) == address);
    RC_ASSERT(std::ranges::none_of(text, [](unsigned char c) { return c < 0x20; }));
    if (!address.is_unix()) RC_ASSERT(HostPort::parse(text).to_string() == text);
  }));
}

TEST(AddressProperty, OrderEqualityAndHashAgree) {
  ASSERT_TRUE(rc::check("one order", [] {
    const Address a = *any_address();
    const Address b = *rc::gen::oneOf(any_address(), rc::gen::just(a));
    const Address c = *any_address();
    RC_ASSERT((a == b) == ((a <=> b) == 0));
    RC_ASSERT((a < b) == (b > a));
    if (a == b) RC_ASSERT(std::hash<Address>()(a) == std::hash<Address>()(b));
    if (a < b && b < c) RC_ASSERT(a < c);
  }));
}

/// `text` after up to two small mistakes.
rc::Gen<std::string> almost(const std::string& text) {
  using Edit = std::tuple<std::size_t, char, int>;
  const auto edit =
      rc::gen::tuple(rc::gen::inRange<std::size_t>(0, text.size() + 1),
                     rc::gen::element(':', '.', '0', '1', '2', '9', 'f', 'F', 'g', ' ', '-'),
                     rc::gen::inRange(0, 3));
  const auto edits = rc::gen::mapcat(
      rc::gen::inRange<std::size_t>(0, 3),
      [edit](std::size_t count) { return rc::gen::container<std::vector<Edit>>(count, edit); });
  return rc::gen::map(edits, [text](const std::vector<Edit>& mistakes) {
    std::string out = text;
    for (const auto& [where, c, kind] : mistakes) {
      const std::size_t at = std::min(where, out.size());
      if (kind == 0) out.insert(at, 1, c);
      if (kind == 1) out.erase(at, 1);
      if (kind == 2) out.replace(at, 1, 1, c);
    }
    return out;
  });
}

// Our own parser of literals takes exactly what inet_pton takes, and reads the same.

TEST(AddressProperty, V6AgreesWithInetPton) {
  int taken = 0;
  int refused = 0;
  ASSERT_TRUE(rc::check("v6", [&] {
    const std::string text = *rc::gen::mapcat(
        rc::gen::element<std::string>("::", "::1", "1::", "1:2:3:4:5:6:7:8", "fe80::1:22:333:4444",
                                      "1:2:3:4:5:6:1.2.3.4", "::ffff:10.20.30.40", "a:b::c:d:e:f",
                                      "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::3:4:5:6:7:8"),
        almost);
    std::array<std::uint8_t, 16> bytes{};
    const bool is_v6 = ::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1;
    ++(is_v6 ? taken : refused);
    const auto ours = Address::try_parse("[" + text + "]:7");
    RC_ASSERT(ours.has_value() == is_v6);
    if (is_v6) RC_ASSERT(*ours == Address::v6(bytes, 7));
  }));
  EXPECT_TRUE(taken > 0 && refused > 0);
}

TEST(AddressProperty, V4AgreesWithInetPton) {
  int taken = 0;
  int refused = 0;
  ASSERT_TRUE(rc::check("v4", [&] {
    const std::string text = *rc::gen::mapcat(
        rc::gen::element<std::string>("0.0.0.0", "1.2.3.4", "255.255.255.255", "10.20.30.40"),
        almost);
    in_addr in{};
    const bool is_v4 = ::inet_pton(AF_INET, text.c_str(), &in) == 1;
    ++(is_v4 ? taken : refused);
    const auto ours = Address::try_parse(text + ":7");
    RC_ASSERT(ours.has_value() == is_v4);
    if (is_v4) RC_ASSERT(*ours == Address::v4(ntohl(in.s_addr), 7));
  }));
  EXPECT_TRUE(taken > 0 && refused > 0);
}

TEST(AddressProperty, NoTextBreaksTheParsers) {
  ASSERT_TRUE(rc::check("any text is parsed or refused", [] {
    const auto text = *rc::gen::container<std::string>(
        rc::gen::oneOf(rc::gen::element('[', ']', ':', '.', '%', '@', '\\', 'x', '0', '1', 'f'),
                       rc::gen::arbitrary<char>()));
    for (const std::string& whole : {text, "unix:" + text, "[" + text + "]:80"}) {
      const auto address = Address::try_parse(whole);
      if (address) {
        RC_ASSERT(Address::parse(address->to_string()) == *address);
      } else {
        RC_ASSERT(refusal(whole).find("at position ") != std::string::npos);
      }
      try {
        const HostPort parsed = HostPort::parse(whole);
        RC_ASSERT(HostPort::parse(parsed.to_string()) == parsed);
      } catch (const std::invalid_argument& e) {
        RC_ASSERT(std::string_view(e.what()).find("at position ") != std::string_view::npos);
      }
    }
  }));
}

}  // namespace
}  // namespace weft

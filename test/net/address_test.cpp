#include <weft/net/address.hpp>

#include <weft/base/unique_fd.hpp>

#include <algorithm>
#include <cstring>
#include <set>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include <net/if.h>

#include <gtest/gtest.h>

namespace weft {

void PrintTo(const Address& address, std::ostream* out) {
  *out << address.to_string();
}

namespace {

using namespace std::string_literals;

static_assert(std::is_trivially_copyable_v<Address>);
static_assert(sizeof(Address) <= 116);
static_assert(Address::native_capacity == 110);
static_assert(Address::unix_name_max == 107);

/// The message of the std::invalid_argument that `f` throws.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

TEST(Address, ParsesAndPrints) {
  struct Case {
    std::string text;
    std::string printed;
    int family;
    int port;
  };
  const Case cases[] = {
      {"127.0.0.1:80", "127.0.0.1:80", AF_INET, 80},
      {"0.0.0.0:0", "0.0.0.0:0", AF_INET, 0},
      {"255.255.255.255:65535", "255.255.255.255:65535", AF_INET, 65535},
      {"[::]:0", "[::]:0", AF_INET6, 0},
      {"[::1]:8080", "[::1]:8080", AF_INET6, 8080},
      {"[2001:DB8:0:0:1:0:0:1]:1", "[2001:db8::1:0:0:1]:1", AF_INET6, 1},
      {"[2001:db8:0:1:1:1:1:1]:1", "[2001:db8:0:1:1:1:1:1]:1", AF_INET6, 1},
      {"[0001:0002:0003:0004:0005:0006:0007:0008]:1", "[1:2:3:4:5:6:7:8]:1", AF_INET6, 1},
      {"[1:2:3:4:5:6:7::]:1", "[1:2:3:4:5:6:7:0]:1", AF_INET6, 1},
      {"[::2:3:4:5:6:7:8]:1", "[0:2:3:4:5:6:7:8]:1", AF_INET6, 1},
      {"[1::]:1", "[1::]:1", AF_INET6, 1},
      {"[::ffff:1.2.3.4]:1", "[::ffff:1.2.3.4]:1", AF_INET6, 1},
      {"[64:ff9b::1.2.3.4]:1", "[64:ff9b::102:304]:1", AF_INET6, 1},
      {"[fe80::1%2]:80", "[fe80::1%2]:80", AF_INET6, 80},
      {"[fe80::1%4294967295]:80", "[fe80::1%4294967295]:80", AF_INET6, 80},
      {"[fe80::1%0]:80", "[fe80::1]:80", AF_INET6, 80},
      {"unix:/run/app.sock", "unix:/run/app.sock", AF_UNIX, 0},
      {"unix:relative", "unix:relative", AF_UNIX, 0},
      {"unix:a:80", "unix:a:80", AF_UNIX, 0},
      {"unix:@name", "unix:@name", AF_UNIX, 0},
      {"unix:@@", "unix:@@", AF_UNIX, 0},
      {"unix:@a\\x00b", "unix:@a\\x00b", AF_UNIX, 0},
      {"unix:/\\x0A\\\\\\x41", "unix:/\\x0a\\\\A", AF_UNIX, 0},
      {"unix:\\x40a", "unix:\\x40a", AF_UNIX, 0},
      {"unix:(unnamed)", "unix:(unnamed)", AF_UNIX, 0},
      {"unix:/t\xc3\xa9st", "unix:/t\xc3\xa9st", AF_UNIX, 0},
      {"unix:" + std::string(107, 'p'), "unix:" + std::string(107, 'p'), AF_UNIX, 0},
      {"unix:@" + std::string(107, 'p'), "unix:@" + std::string(107, 'p'), AF_UNIX, 0},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    const Address address = Address::parse(c.text);
    EXPECT_TRUE(address);
    EXPECT_EQ(address.to_string(), c.printed);
    EXPECT_EQ(address.family(), c.family);
    EXPECT_EQ(address.port(), c.port);
    EXPECT_EQ(address.is_v4(), c.family == AF_INET);
    EXPECT_EQ(address.is_v6(), c.family == AF_INET6);
    EXPECT_EQ(address.is_unix(), c.family == AF_UNIX);
    EXPECT_EQ(address, Address::parse(c.printed));
    EXPECT_EQ(address, Address::try_parse(c.text));
    EXPECT_EQ(address, Address::from_native(address.native(), address.native_size()));
  }
}

struct Refused {
  std::string text;
  std::size_t position;
  std::string what;
  std::string hint;
};

void expect_refused(const Refused& c, const std::string& message) {
  const std::size_t hint_at = std::min(message.find("; "), message.size());
  const std::string what = message.substr(0, hint_at);
  EXPECT_TRUE(contains(what, c.what)) << message;
  EXPECT_TRUE(what.ends_with(", at position " + std::to_string(c.position))) << message;
  EXPECT_TRUE(contains(message.substr(hint_at), c.hint)) << message;
}

void expect_addresses_refused(std::initializer_list<Refused> cases) {
  for (const Refused& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_FALSE(Address::try_parse(c.text));
    expect_refused(c, refusal([&] { (void)Address::parse(c.text); }));
  }
}

TEST(Address, RefusesV4WithWhatWhereAndHow) {
  expect_addresses_refused({
      {"", 1, "empty", "127.0.0.1:80"},
      {"1.2.3.4", 8, "the port is missing", "write 1.2.3.4:80"},
      {"1.2.3.4:", 9, "the port is missing", "write 1.2.3.4:80"},
      {"8080", 5, "the port is missing", "write 127.0.0.1:8080"},
      {"localhost", 10, "the port is missing", "write localhost:80"},
      {":8080", 1, "the host is missing", "0.0.0.0:8080 or [::]:8080"},
      {":", 2, "the port is missing", "write :80"},
      {"1.2.3.4:65536", 9, "the port \"65536\" is greater than 65535", "0 to 65535"},
      {"1.2.3.4:99999999999999999999999", 9, "is greater than 65535", "0 to 65535"},
      {"1.2.3.4:080", 9, "the port \"080\" has a leading zero", "write 80"},
      {"1.2.3.4:8x", 10, "\"x\" in the port is no digit", "0 to 65535"},
      {"1.2.3.4:-1", 9, "\"-\" in the port is no digit", "0 to 65535"},
      {"1.2.3.4:80 ", 11, "\" \" in the port is no digit", "0 to 65535"},
      {"1.2.3.4:8\xc3\xa9", 10, "\"\\xc3\" in the port is no digit", "0 to 65535"},
      {"1.2.3.256:80", 7, "the IPv4 part \"256\" is greater than 255", "0 to 255"},
      {"01.2.3.4:80", 1, "\"01\" has a leading zero", "write 1"},
      {"1.2.00.4:80", 5, "\"00\" has a leading zero", "write 0"},
      {"1.2.3:80", 1, "has 3 parts, an IPv4 address has four", "192.0.2.1"},
      {"1.2.3.4.5:80", 1, "has 5 parts", "192.0.2.1"},
      {"1..3.4:80", 3, "the IPv4 part is missing", "0 to 255"},
      {"1.2.3.4.:80", 1, "has 5 parts", "192.0.2.1"},
      {"0x7f.1:80", 1, "has 2 parts", "192.0.2.1"},
      {"0x7f000001:80", 1, "has 1 part, an IPv4 address", "192.0.2.1"},
      {"0x7f.0.0.1:80", 2, "\"x\" in the IPv4 part is no digit", "0 to 255"},
      {"1.2.3.4:80:90", 11, "more than one ':'", "host:port"},
  });
}

TEST(Address, RefusesV6WithWhatWhereAndHow) {
  expect_addresses_refused({
      {"::1", 1, "needs brackets", "write [::1]:80 with"},
      {"::1:8080", 1, "needs brackets", "write [::1]:8080, or [::1:8080]:80 with"},
      {"1:2:3:4:5:6:7:8:80", 1, "needs brackets", "write [1:2:3:4:5:6:7:8]:80"},
      {"fe80::1%eth0:80", 1, "needs brackets", "[fe80::1%eth0]:80"},
      {"[::1]", 6, "the port is missing", "write [::1]:80"},
      {"[::1]:", 7, "the port is missing", "write [::1]:80"},
      {"[::1]80", 6, "after ']' comes ':'", "write [::1]:80"},
      {"[::1:80", 8, "the ']' is missing", "[::1]:80"},
      {"[]:80", 2, "the IPv6 address is empty", "2001:db8::1"},
      {"[::g]:80", 4, "\"g\" is no hexadecimal digit", "groups"},
      {"[::12345]:80", 4, "more than four digits", "groups"},
      {"[1:2]:80", 2, "\"1:2\" has 2 groups", "2001:db8::1"},
      {"[1:2:3:4:5:6:7:8:9]:80", 18, "only eight groups", "2001:db8::1"},
      {"[1:2:3:4:5:6:7:1.2.3.4]:80", 16, "only eight groups", "2001:db8::1"},
      {"[1::2::3]:80", 6, "only one '::'", "2001:db8::1"},
      {"[:::]:80", 4, "an IPv6 group is empty", "groups"},
      {"[:1::2]:80", 2, "an IPv6 group is empty", "groups"},
      {"[1::2:]:80", 6, "ends in one ':'", "2001:db8::1"},
      {"[1:2:3:4::5:6:7:8]:80", 2, "stands for no group", "leave it out"},
      {"[::1.2.3]:80", 4, "has 3 parts", "192.0.2.1"},
      {"[::1.2.3.999]:80", 10, "greater than 255", "0 to 255"},
      {"[1.2.3.4]:80", 2, "has 2 groups", "2001:db8::1"},
      {"[1.2.3.4::]:80", 3, "\".\" is no hexadecimal digit", "groups"},
      {"[fe80::1%]:80", 10, "the scope after '%' is missing", "%eth0"},
      {"[fe80::1%no-such-if]:80", 10, "no network interface \"no-such-if\"", "%eth0"},
      {"[fe80::1%an-interface-with-a-long-name]:80", 10, "no network interface", "%eth0"},
      {"[fe80::1%4294967296]:80", 10, "the scope \"4294967296\" is greater", "4294967295"},
  });
}

TEST(Address, RefusesNamesWithWhatWhereAndHow) {
  expect_addresses_refused({
      {"localhost:80", 1, "\"localhost\" is a name, not an address", "use resolve"},
      {"example.com:80", 1, "\"example.com\" is a name", "use resolve"},
      {"exam ple.com:80", 5, "\" \" cannot stand in a host name", "example.com"},
      {" 1.2.3.4:80", 1, "\" \" in the IPv4 part is no digit", "0 to 255"},
      {"http://1.2.3.4:80/", 5, "this is a URL", "127.0.0.1:80"},
      {"unix:", 6, "the path is missing", "unix:/run/app.sock"},
      {"unix:@", 7, "the abstract name is missing", "unix:@app"},
      {"unix:a\\b", 7, "'\\' begins no escape", "\\\\ for a backslash"},
      {"unix:a\\x4", 7, "'\\' begins no escape", "\\xNN"},
      {"unix:a\\xg0", 7, "'\\' begins no escape", "\\xNN"},
      {"unix:a\\x00", 6, "a path cannot contain a zero byte", "unix:@app"},
      {"unix:" + std::string(108, 'p'), 6, "the path has 108 bytes, but at most 107", "relative"},
      {"unix:@" + std::string(108, 'p'), 7, "the abstract name has 108 bytes", "shorter"},
  });
}

TEST(Address, AnErrorIsOneLineThatQuotesTheText) {
  const auto message = refusal([] { (void)Address::parse("a\nb\x01:80"); });
  EXPECT_TRUE(message.starts_with("cannot parse \"a\\x0ab\\x01:80\" as an address: ")) << message;
  EXPECT_TRUE(contains(message, "\"\\x0a\" cannot stand in a host name, at position 2")) << message;
  const auto long_one = refusal([] { (void)Address::parse(std::string(100'000, 'a')); });
  EXPECT_LT(long_one.size(), 1000U);
}

TEST(Address, ScopeMayBeAnInterfaceName) {
  const unsigned lo = ::if_nametoindex("lo");
  if (lo == 0) GTEST_SKIP() << "no interface lo";
  const Address address = Address::parse("[fe80::1%lo]:80");
  EXPECT_EQ(address.scope_id(), lo);
  EXPECT_EQ(address.to_string(), "[fe80::1%" + std::to_string(lo) + "]:80");
}

TEST(Address, Factories) {
  EXPECT_EQ(Address::v4(0x01020304, 5).to_string(), "1.2.3.4:5");
  EXPECT_EQ(Address::loopback(80).to_string(), "127.0.0.1:80");
  EXPECT_EQ(Address::loopback6(80).to_string(), "[::1]:80");
  EXPECT_EQ(Address::any(80).to_string(), "0.0.0.0:80");
  EXPECT_EQ(Address::any6(80).to_string(), "[::]:80");
  EXPECT_EQ(Address::v6({0xfe, 0x80}, 7, 3).to_string(), "[fe80::%3]:7");
  EXPECT_EQ(Address::unix_path("/a").to_string(), "unix:/a");
  EXPECT_EQ(Address::unix_abstract("a").to_string(), "unix:@a");
  EXPECT_EQ(Address::unix_unnamed().to_string(), "unix:(unnamed)");
  EXPECT_EQ(Address::unix_path("@a").to_string(), "unix:\\x40a");
  EXPECT_EQ(Address::unix_path("(unnamed)").to_string(), "unix:\\x28unnamed)");
  EXPECT_EQ(Address::unix_path("a\nb").to_string(), "unix:a\\x0ab");

  const Address none;
  EXPECT_FALSE(none);
  EXPECT_EQ(none.family(), AF_UNSPEC);
  EXPECT_EQ(none.native_size(), 0U);
  EXPECT_EQ(none.to_string(), "(none)");
}

TEST(Address, UnixNamesThatDoNotFit) {
  auto path = refusal([] { (void)Address::unix_path(std::string(200, 'x')); });
  EXPECT_TRUE(contains(path, "has 200 bytes, but at most 107 fit; use a shorter path")) << path;
  EXPECT_TRUE(contains(path, "\"xxx")) << path;
  auto name = refusal([] { (void)Address::unix_abstract(std::string(108, 'x')); });
  EXPECT_TRUE(contains(name, "has 108 bytes, but at most 107 fit; use a shorter name")) << name;
  EXPECT_TRUE(contains(refusal([] { (void)Address::unix_path(""); }), "path is missing"));
  EXPECT_TRUE(contains(refusal([] { (void)Address::unix_path("a\0b"s); }), "zero byte"));
  EXPECT_TRUE(contains(refusal([] { (void)Address::unix_abstract(""); }), "name is missing"));
}

TEST(Address, Questions) {
  EXPECT_TRUE(Address::parse("127.255.0.1:1").is_loopback());
  EXPECT_TRUE(Address::parse("[::1]:1").is_loopback());
  EXPECT_TRUE(Address::parse("[::ffff:127.0.0.1]:1").is_loopback());
  EXPECT_FALSE(Address::parse("[::ffff:128.0.0.1]:1").is_loopback());
  EXPECT_FALSE(Address::parse("126.0.0.1:1").is_loopback());
  EXPECT_FALSE(Address::parse("unix:/a").is_loopback());
  EXPECT_FALSE(Address().is_loopback());

  EXPECT_TRUE(Address::any(1).is_any());
  EXPECT_TRUE(Address::any6(1).is_any());
  EXPECT_FALSE(Address::loopback(1).is_any());
  EXPECT_FALSE(Address::unix_unnamed().is_any());
  EXPECT_FALSE(Address().is_any());

  const Address path = Address::unix_path("/a");
  EXPECT_EQ(path.unix_path(), "/a");
  EXPECT_EQ(path.unix_abstract(), "");
  EXPECT_TRUE(path.is_unix_path() && !path.is_unix_abstract() && !path.is_unix_unnamed());
  const Address abstract = Address::unix_abstract("a\0b"s);
  EXPECT_EQ(abstract.unix_path(), "");
  EXPECT_EQ(abstract.unix_abstract(), "a\0b"s);
  EXPECT_TRUE(!abstract.is_unix_path() && abstract.is_unix_abstract());
  EXPECT_TRUE(!abstract.is_unix_unnamed() && Address::unix_unnamed().is_unix_unnamed());
  EXPECT_FALSE(Address::loopback(1).is_unix_unnamed() || Address().is_unix_unnamed());
  EXPECT_EQ(Address::loopback(1).unix_path(), "");

  EXPECT_EQ(Address::loopback(80).host(), "127.0.0.1");
  EXPECT_EQ(Address::parse("[fe80::1%2]:80").host(), "fe80::1%2");
  EXPECT_EQ(path.host(), "unix:/a");
}

TEST(Address, WithPort) {
  EXPECT_EQ(Address::loopback(1).with_port(2), Address::loopback(2));
  EXPECT_EQ(Address::parse("[fe80::1%2]:1").with_port(65535), Address::parse("[fe80::1%2]:65535"));
  const auto message = refusal([] { (void)Address::unix_path("/a").with_port(80); });
  EXPECT_TRUE(contains(message, "cannot set port 80 of unix:/a")) << message;
  EXPECT_TRUE(contains(refusal([] { (void)Address().with_port(80); }), "of (none)"));
}

TEST(Address, DiffersInEachPartAndSortsByThem) {
  std::vector<Address> sorted = {
      Address(),
      Address::unix_unnamed(),
      Address::unix_abstract("a"),
      Address::unix_abstract("a\0"s),
      Address::unix_abstract("b"),
      Address::unix_path("a"),
      Address::unix_path("aa"),
      Address::unix_path("\xc3\xa9"),
      Address::parse("1.2.3.4:5"),
      Address::parse("1.2.3.4:6"),
      Address::parse("1.2.3.4:256"),  // as a number, not as bytes
      Address::parse("200.2.3.4:5"),
      Address::parse("[::ffff:1.2.3.4]:5"),
      Address::parse("[fe80::1]:5"),
      Address::parse("[fe80::1%1]:4"),
      Address::parse("[fe80::1%256]:4"),
      Address::parse("[fe80::2]:1"),
  };
  std::unordered_set<Address> hashed;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      SCOPED_TRACE(sorted[i].to_string() + " and " + sorted[j].to_string());
      EXPECT_EQ(sorted[i] == sorted[j], i == j);
      EXPECT_EQ(sorted[i] <=> sorted[j], i <=> j);
    }
    hashed.insert(sorted[i]);
  }
  EXPECT_EQ(hashed.size(), sorted.size());
  EXPECT_EQ(std::set<Address>(sorted.begin(), sorted.end()).size(), sorted.size());
}

TEST(Address, EqualityIgnoresPaddingAndFlowLabel) {
  sockaddr_in in;
  std::memset(&in, 0xff, sizeof(in));
  in.sin_family = AF_INET;
  in.sin_port = htons(80);
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* native = reinterpret_cast<const sockaddr*>(&in);
  EXPECT_EQ(Address::from_native(native, sizeof(in)), Address::loopback(80));
  EXPECT_EQ(std::hash<Address>()(Address::from_native(native, sizeof(in))),
            std::hash<Address>()(Address::loopback(80)));

  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(80);
  in6.sin6_addr = in6addr_loopback;
  in6.sin6_flowinfo = htonl(7);
  EXPECT_EQ(Address::from_native(reinterpret_cast<const sockaddr*>(&in6), sizeof(in6)),
            Address::loopback6(80));
}

/// What the kernel, or a program that fills in a sockaddr_un, may say of one path.
TEST(Address, PathsOfEachNativeSize) {
  sockaddr_un un;
  std::memset(&un, 'z', sizeof(un));
  un.sun_family = AF_UNIX;
  const auto* native = reinterpret_cast<const sockaddr*>(&un);

  EXPECT_EQ(Address::from_native(native, 2), Address::unix_unnamed());
  EXPECT_EQ(Address::from_native(native, 2 + 3), Address::unix_path("zzz"));  // no terminator
  un.sun_path[3] = '\0';
  EXPECT_EQ(Address::from_native(native, 2 + 4), Address::unix_path("zzz"));
  EXPECT_EQ(Address::from_native(native, sizeof(un)), Address::unix_path("zzz"));
  EXPECT_EQ(Address::from_native(native, sizeof(un)).native_size(), 2U + 4U);

  un.sun_path[3] = 'z';
  Address full;
  std::memcpy(full.native_buffer(), &un, Address::native_capacity);
  full.set_native_size(sizeof(un) + 1);  // the kernel counts the terminator that it had no room for
  EXPECT_EQ(full.native_size(), sizeof(un));
  EXPECT_EQ(full.unix_path(), std::string(108, 'z'));
  EXPECT_EQ(full.to_string(), "unix:" + std::string(108, 'z'));

  un.sun_path[0] = '\0';
  EXPECT_EQ(Address::from_native(native, 2 + 3), Address::unix_abstract("zz"));
  EXPECT_EQ(Address::from_native(native, sizeof(un)),
            Address::unix_abstract(std::string(107, 'z')));
  EXPECT_EQ(Address::from_native(native, 2 + 1).to_string(), "unix:@");
}

TEST(Address, RefusesForeignNativeAddresses) {
  sockaddr_storage foreign{};
  const auto* native = reinterpret_cast<const sockaddr*>(&foreign);
  EXPECT_EQ(Address::from_native(nullptr, 0), Address());
  EXPECT_EQ(Address::from_native(native, 0), Address());
  foreign.ss_family = AF_NETLINK;
  EXPECT_TRUE(contains(refusal([&] { (void)Address::from_native(native, 12); }),
                       "family " + std::to_string(AF_NETLINK) + " and 12 bytes"));
  for (const auto& [family, size] :
       {std::pair{AF_INET, sizeof(sockaddr_in)}, std::pair{AF_INET6, sizeof(sockaddr_in6)},
        std::pair{AF_UNIX, sizeof(sa_family_t)}}) {
    foreign.ss_family = static_cast<sa_family_t>(family);
    const auto enough = static_cast<socklen_t>(size);
    EXPECT_EQ(Address::from_native(native, enough).family(), family);
    EXPECT_EQ(Address::from_native(native, sizeof(foreign)).family(), family);
    Address address = Address::loopback(1);
    std::memcpy(address.native_buffer(), &foreign, Address::native_capacity);
    EXPECT_THROW(address.set_native_size(enough - 1), std::invalid_argument);
    EXPECT_EQ(address, Address());
  }
}

TEST(Address, TheKernelWritesIntoIt) {
  const UniqueFd tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Address wanted = Address::loopback(0);
  ASSERT_EQ(::bind(tcp.get(), wanted.native(), wanted.native_size()), 0);
  Address bound;
  socklen_t size = Address::native_capacity;
  ASSERT_EQ(::getsockname(tcp.get(), bound.native_buffer(), &size), 0);
  bound.set_native_size(size);
  EXPECT_NE(bound.port(), 0);
  EXPECT_EQ(bound, wanted.with_port(bound.port()));

  // Into the same object again: nothing of the former address is left.
  const UniqueFd local(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  size = Address::native_capacity;
  ASSERT_EQ(::getsockname(local.get(), bound.native_buffer(), &size), 0);
  bound.set_native_size(size);
  EXPECT_EQ(bound, Address::unix_unnamed());
  ASSERT_EQ(::bind(local.get(), bound.native(), bound.native_size()), 0);
  size = Address::native_capacity;
  ASSERT_EQ(::getsockname(local.get(), bound.native_buffer(), &size), 0);
  bound.set_native_size(size);
  EXPECT_TRUE(bound.is_unix_abstract());
  EXPECT_EQ(bound.unix_abstract().size(), 5U);  // the kernel's choice: five hexadecimal digits
  EXPECT_EQ(Address::parse(bound.to_string()), bound);
}

TEST(HostPort, Parses) {
  struct Case {
    std::string text;
    HostPort parsed;
  };
  const Case cases[] = {
      {"example.com:80", {"example.com", 80}},
      {"example.com.:80", {"example.com.", 80}},
      {"localhost:8080", {"localhost", 8080}},
      {"_srv.x-y.1a:1", {"_srv.x-y.1a", 1}},
      {"3com.com:1", {"3com.com", 1}},
      {":8080", {"", 8080}},
      {"[::1]:80", {"::1", 80}},
      {"[fe80::1%2]:80", {"fe80::1%2", 80}},
      {"1.2.3.4:65535", {"1.2.3.4", 65535}},
      {"xn--bcher-kva.example:0", {"xn--bcher-kva.example", 0}},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.text);
    EXPECT_EQ(HostPort::parse(c.text), c.parsed);
    EXPECT_EQ(c.parsed.to_string(), c.text);
  }
}

TEST(HostPort, RefusesWithWhatWhereAndHow) {
  const Refused cases[] = {
      {"", 1, "empty", "host:port"},
      {"example.com", 12, "the port is missing", "write example.com:80"},
      {"example.com:http", 13, "\"h\" in the port is no digit", "0 to 65535"},
      {"example.com:70000", 13, "greater than 65535", "0 to 65535"},
      {"::1:80", 1, "needs brackets", "[::1]:80"},
      {"a:b:80", 4, "more than one ':'", "host:port"},
      {"[example.com]:80", 3, "\"x\" is no hexadecimal digit", "groups"},
      {"1.2.3:80", 1, "has 3 parts", "192.0.2.1"},
      {"1.2.3.400:80", 7, "greater than 255", "0 to 255"},
      {"0x7f000001:80", 1, "has 1 part", "192.0.2.1"},
      {"*:80", 1, "\"*\" cannot stand in a host name", "example.com"},
      {"a..b:80", 3, "a part of the host name is empty", "example.com"},
      {".:80", 1, "a part of the host name is empty", "example.com"},
      {"a.-b:80", 3, "begins or ends with '-'", "example.com"},
      {"a-.b:80", 1, "begins or ends with '-'", "example.com"},
      {"b\xc3\xbc"
       "cher.example:80",
       2, "a host name is ASCII", "xn--"},
      {"a." + std::string(64, 'b') + ":80", 3, "more than 63 characters", "example.com"},
      {"http://example.com", 5, "this is a URL", "host and port"},
      {"unix:/a", 1, "a Unix socket has no host and port", "Address::parse"},
  };
  for (const Refused& c : cases) {
    SCOPED_TRACE(c.text);
    const auto message = refusal([&] { (void)HostPort::parse(c.text); });
    expect_refused(c, message);
    EXPECT_TRUE(contains(message, "as a host and port: ")) << message;
  }
  std::string name = "a";
  while (name.size() < 254) name += ".a";
  EXPECT_TRUE(contains(refusal([&] { (void)HostPort::parse(name + ":80"); }), "more than 253"));
}

}  // namespace
}  // namespace weft

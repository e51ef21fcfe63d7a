#include <weft/net/connect.hpp>

#include <weft/net/resolve.hpp>

#include "net/net.hpp"

#include <string>

#include <netdb.h>

using namespace weft;
using namespace weft::test;

namespace {

/// What went wrong, as people see it.
template <class Awaitable>
Coro<std::string> message_of(Awaitable awaitable) {
  try {
    co_await std::move(awaitable);
  } catch (const std::exception& error) {
    co_return error.what();
  }
  co_return "";
}

// GCC 12 cannot compile a braced list inside a co_await.
template <class... A>
std::vector<Address> list(const A&... addresses) {
  return {addresses...};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

REAL(Connect, T16_Refused) {
  const Address nobody = refusing_address();
  EXPECT_EQ(co_await error_of(TcpStream::connect_op(nobody)), ECONNREFUSED);
  const std::string what = co_await message_of(TcpStream::connect_op(nobody));
  EXPECT_TRUE(contains(what, nobody.to_string())) << what;
  EXPECT_THROW(static_cast<void>(TcpStream::connect_op(Address())), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(TcpStream::connect_op(std::vector<Address>{})),
               std::invalid_argument);
}

REAL(Connect, C16_TimeoutLeavesNothing) {
  const Silent silent = co_await co_silent();
  EXPECT_LE(silent.queued.size(), 4U);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE((co_await timeout(TcpStream::connect_op(silent.address()), 1ms)).has_value());
    EXPECT_EQ(open_descriptors(), before);
  }
}

REAL(Connect, F9_CancelLeavesNothing) {
  const Silent silent = co_await co_silent();
  const std::size_t before = open_descriptors();
  Scope scope;
  for (int i = 0; i < 10; ++i) {
    auto waiting = here.spawn(scope, [&]() -> Coro<> {
      static_cast<void>(co_await TcpStream::connect_op(silent.address()));
    });
    co_await sleep_op(100us);
    EXPECT_EQ(open_descriptors(), before + 1);
    waiting.cancel();
    EXPECT_TRUE((co_await waiting.join_op()).cancelled());
    EXPECT_EQ(open_descriptors(), before);
  }
}

TEST(Connect, T16_FamiliesTakeTurns) {
  const Address a4 = Address::v4(1, 1), b4 = Address::v4(2, 1), c4 = Address::v4(3, 1);
  const Address a6 = Address::loopback6(1), b6 = Address::loopback6(2);
  using All = std::vector<Address>;
  EXPECT_EQ(detail::take_turns({a6, b6, a4, b4, c4}), (All{a6, a4, b6, b4, c4}));
  EXPECT_EQ(detail::take_turns({a4, b4, c4, a6}), (All{a4, a6, b4, c4}));
  EXPECT_EQ(detail::take_turns({a4}), (All{a4}));
  EXPECT_EQ(detail::take_turns({a6, b6}), (All{a6, b6}));
  EXPECT_EQ(detail::take_turns({}), All{});
}

REAL(Connect, T16_FirstRefusedSecondWorks) {
  auto listener = TcpListener::bind("127.0.0.1:0");
  // The stagger does not matter: a failure is followed up at once.
  TcpStream stream = co_await TcpStream::connect_op(list(refusing_address(), listener.local()),
                                                    {.stagger = std::chrono::hours(1)});
  EXPECT_EQ(stream.peer(), listener.local());
}

REAL(Connect, T16_FirstSilentSecondWorks) {
  const Silent silent = co_await co_silent();
  const std::size_t before = open_descriptors();
  {
    auto listener = TcpListener::bind("127.0.0.1:0");
    TcpStream stream = co_await TcpStream::connect_op(
        list(silent.address(), silent.address(), listener.local()), {.stagger = 1ms});
    EXPECT_EQ(stream.peer(), listener.local());
    EXPECT_EQ(open_descriptors(), before + 2);  // those that were half open are gone
    // Without the stagger's help it waits for the first.
    auto late = co_await timeout(TcpStream::connect_op(list(silent.address(), listener.local()),
                                                       {.stagger = std::chrono::hours(1)}),
                                 5ms);
    EXPECT_FALSE(late.has_value());
  }
  EXPECT_EQ(open_descriptors(), before);
}

REAL(Connect, T16_LateFailureStartsTheNext) {
  const Silent silent = co_await co_silent();
  auto listener = TcpListener::bind("127.0.0.1:0");
  TcpStream stream = co_await TcpStream::connect_op(
      list(silent.address(), refusing_address(), listener.local()), {.stagger = 1ms});
  EXPECT_EQ(stream.peer(), listener.local());
}

REAL(Connect, T16_AllFailListsAll) {
  const Address one = refusing_address();
  const Address two = refusing_address();
  const std::string what = co_await message_of(TcpStream::connect_op(list(one, two)));
  EXPECT_TRUE(contains(what, one.to_string() + ": Connection refused")) << what;
  EXPECT_TRUE(contains(what, two.to_string() + ": Connection refused")) << what;
  EXPECT_EQ(co_await error_of(TcpStream::connect_op(list(one, two))), ECONNREFUSED);
}

REAL(Connect, C16_ManyAddressesInASelect) {
  const Silent silent = co_await co_silent();
  auto listener = TcpListener::bind("127.0.0.1:0");
  const std::vector<Address> all(6, silent.address());
  for (int i = 0; i < 20; ++i) {
    auto won = co_await race(TcpStream::connect_op(all, {.stagger = 100us}), sleep_op(1ms));
    EXPECT_EQ(won.index(), 1U);
    auto both = co_await race(TcpStream::connect_op(all, {.stagger = 100us}),
                              TcpStream::connect_op(listener.local()));
    EXPECT_EQ(both.index(), 1U);
    static_cast<void>(co_await listener.accept_op());
  }
}

REAL(Connect, T17_ByText) {
  auto listener = TcpListener::bind("127.0.0.1:0");
  const std::string text = listener.local().to_string();
  TcpStream stream = co_await TcpStream::co_connect(text);
  EXPECT_EQ(stream.peer(), listener.local());
  const Address nobody = refusing_address();
  const std::string what = co_await message_of(TcpStream::co_connect(nobody.to_string()));
  EXPECT_TRUE(contains(what, nobody.to_string() + ": Connection refused")) << what;
  EXPECT_NE(co_await message_of(TcpStream::co_connect("no port")), "");
}

REAL(Connect, T17_ByName) {
  auto listener = TcpListener::bind("127.0.0.1:0");
  const std::string name = "localhost:" + std::to_string(listener.local().port());
  TcpStream stream = co_await TcpStream::co_connect(name, {.stagger = 5ms});
  EXPECT_EQ(stream.peer(), listener.local());
  listener.close();
  const std::string what = co_await message_of(TcpStream::co_connect(name));
  EXPECT_TRUE(contains(what, name)) << what;
  EXPECT_TRUE(contains(what, "127.0.0.1")) << what;
}

// Names

REAL(Resolve, T17_LiteralsAreTheirOwnAnswer) {
  EXPECT_TRUE(resolve_op("127.0.0.1", 80).try_now());
  EXPECT_EQ(co_await resolve_op("127.0.0.1", 80), list(Address::loopback(80)));
  EXPECT_EQ(co_await resolve_op("::1", 80), list(Address::loopback6(80)));
  EXPECT_EQ((co_await resolve_op("", 80)).size(), 2U);
}

REAL(Resolve, T17_Localhost) {
  EXPECT_FALSE(resolve_op("localhost", 80).try_now());
  const std::vector<Address> all = co_await resolve_op("localhost", 80);
  for (const Address& address : all) {
    EXPECT_TRUE(address.is_loopback()) << address.to_string();
    EXPECT_EQ(address.port(), 80);
  }
}

// A name too long for the wire: the resolver says no without asking anybody.
const std::string no_name(70, 'x');

REAL(Resolve, T17_NoSuchName) {
  try {
    static_cast<void>(co_await resolve_op(no_name, 80));
    ADD_FAILURE() << "found";
  } catch (const ResolveError& error) {
    EXPECT_EQ(error.host(), no_name);
    EXPECT_NE(error.code(), 0);
    EXPECT_EQ(std::string(error.what()),
              "looking up " + no_name + ": " + ::gai_strerror(error.code()));
  }
}

REAL(Resolve, F9_CancelledWhileLookingUp) {
  Scope scope;
  for (int i = 0; i < 5; ++i) {
    auto asking = here.spawn(
        scope, []() -> Coro<> { static_cast<void>(co_await resolve_op("localhost", 80)); });
    asking.cancel();
    EXPECT_TRUE((co_await asking.join_op()).cancelled());
    static_cast<void>(co_await timeout(resolve_op("localhost", 80), 1us));
  }
}

EVERYWHERE(Resolve, T17_AWorldWithoutNames) {
  try {
    static_cast<void>(co_await resolve_op("somewhere.example", 80));
    ADD_FAILURE() << "found";
  } catch (const ResolveError& error) {
    // A simulation has names, though not this one.
    EXPECT_EQ(error.code(), here.engine() == Engine::sim ? EAI_NONAME : EAI_SYSTEM);
    EXPECT_FALSE(error.temporary());
    EXPECT_TRUE(contains(error.what(), "somewhere.example"));
  }
}

}  // namespace

// Cancelling anything at any moment: nothing leaks (REAL checks), and nothing that one side was
// told it has (a byte, a connection, a descriptor) is lost on the other.
#include "net/net.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>

using namespace weft;
using namespace weft::test;

namespace {

/// Cuts operations short in all the ways there are, as a seed says, and counts.
class Interrupter {
 public:
  Interrupter(Here& here, std::uint64_t seed) : here_(here), rng_(seed) {}

  [[nodiscard]] Rng& rng() { return rng_; }
  [[nodiscard]] std::size_t cut() const { return cut_; }

  /// What the operation gives, or nothing if it was cut short.
  template <class MakeOp>
  auto attempt(MakeOp make) -> Coro<std::optional<ResultOf<std::invoke_result_t<MakeOp&>>>> {
    using R = ResultOf<std::invoke_result_t<MakeOp&>>;
    std::optional<R> result;
    switch (rng_.below(4)) {
      case 0:
        result = co_await timeout(make(), some_time());
        break;
      case 1: {
        auto won = co_await race(sleep_op(some_time()), make());
        if (won.index() == 1) result = std::get<1>(std::move(won));
        break;
      }
      case 2: {  // a deadline around it
        auto outcome =
            co_await timeout(some_time(), [&]() -> Coro<R> { co_return co_await make(); });
        if (outcome.ok()) result = std::move(outcome).value();
        break;
      }
      default: {  // a task that is killed
        Scope scope({.on_failure = OnFailure::isolate});
        auto task = here_.spawn(scope, [&]() -> Coro<R> { co_return co_await make(); });
        if (rng_.below(3) != 0) co_await sleep_op(some_time());
        task.cancel();
        auto outcome = co_await task.join_op();
        if (outcome.ok()) result = std::move(outcome).value();
        break;
      }
    }
    if (!result) ++cut_;
    co_return result;
  }

 private:
  Duration some_time() {
    static constexpr std::array<std::uint32_t, 4> limits{1, 2'000, 30'000, 150'000};
    return Duration(rng_.below(limits[rng_.below(4)]));
  }

  Here& here_;
  Rng rng_;
  std::size_t cut_ = 0;
};

std::size_t goal() {
  return scaled(100, 1000, 10'000);
}

/// Writes until told to stop; every byte that a write said it took is counted.
Coro<std::uint64_t> write_and_cut(Interrupter& cutter, const Stream& to, std::uint64_t id,
                                  const bool& stop) {
  std::uint64_t sent = 0;
  while (!stop) {
    const auto data = pattern(1 + cutter.rng().below(40'000), sent, id);
    const auto n = co_await cutter.attempt([&] { return to.write_some_op(data); });
    sent += n.value_or(0);
  }
  to.shutdown_write();
  co_return sent;
}

Coro<std::uint64_t> read_and_cut(Interrupter& cutter, const Stream& from, std::uint64_t id) {
  std::vector<std::byte> buffer(50'000);
  std::uint64_t received = 0;
  for (;;) {
    const Bytes part = Bytes(buffer).first(1 + cutter.rng().below(50'000));
    const auto n = co_await cutter.attempt([&] { return from.read_op(part); });
    if (!n) continue;
    if (*n == 0) co_return received;
    EXPECT_TRUE(fits(part.first(*n), received, id)) << "after " << received;
    received += *n;
  }
}

REAL(NetCancel, F9_ReadsAndWritesLoseNoByte) {
  Interrupter cutter(here, 11);
  std::vector<Connected> all;
  for (int i = 0; i < 3; ++i) all.push_back(co_await co_connected());
  auto [a, b] = UnixStream::pair();
  bool stop = false;
  std::map<std::uint64_t, std::uint64_t> sent;
  std::map<std::uint64_t, std::uint64_t> received;
  Scope scope;
  auto carry = [&](const Stream& from, const Stream& to, std::uint64_t id) {
    here.spawn(scope,
               [&, id]() -> Coro<> { sent[id] = co_await write_and_cut(cutter, from, id, stop); });
    here.spawn(scope,
               [&, id]() -> Coro<> { received[id] = co_await read_and_cut(cutter, to, id); });
  };
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    carry(all[i].client, all[i].server, 2 * i);
    carry(all[i].server, all[i].client, 2 * i + 1);
  }
  carry(a, b, 100);
  while (cutter.cut() < goal()) co_await sleep_op(100us);
  stop = true;
  co_await scope.joined();
  EXPECT_EQ(sent.size(), 7U);
  EXPECT_EQ(sent, received);
}

REAL(NetCancel, F9_AcceptsAndConnectsLoseNoConnection) {
  Interrupter cutter(here, 12);
  auto listener = TcpListener::bind("127.0.0.1:0");
  const Address nobody = refusing_address();
  bool stop = false;
  std::set<std::uint64_t> served;
  std::size_t answered = 0;
  std::uint64_t last_id = 0;
  Scope scope;
  auto serve = [&](std::shared_ptr<TcpStream> stream) -> Coro<> {
    std::array<std::byte, 8> id;
    try {
      // A client whose connect was cut short has closed before it said anything.
      if (co_await read_fully(*stream, id) != id.size()) co_return;
      std::uint64_t number = 0;
      std::memcpy(&number, id.data(), id.size());
      EXPECT_TRUE(served.insert(number).second) << "served twice";
      co_await stream->write_op(id);
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), ECONNRESET);
    }
  };
  auto acceptor = here.spawn(scope, [&]() -> Coro<> {
    for (;;) {
      auto stream = co_await cutter.attempt([&] { return listener.accept_op(); });
      if (stream) {
        auto shared = std::make_shared<TcpStream>(std::move(*stream));
        here.spawn(scope, [&serve, shared] { return serve(shared); });
      }
    }
  });
  auto client = [&]() -> Coro<> {
    while (!stop) {
      std::vector<Address> where{listener.local()};
      if (cutter.rng().below(3) == 0) where.insert(where.begin(), nobody);
      auto stream = co_await cutter.attempt([&] { return TcpStream::connect_op(where); });
      if (!stream) continue;
      const std::uint64_t id = ++last_id;
      co_await stream->write_op(std::as_bytes(std::span(&id, 1)));
      std::array<std::byte, 8> answer;
      EXPECT_EQ(co_await read_fully(*stream, answer), 8U) << "an accepted connection was dropped";
      ++answered;
    }
  };
  std::vector<JoinHandle<void>> clients;
  for (int i = 0; i < 6; ++i) clients.push_back(here.spawn(scope, client));
  while (cutter.cut() < goal()) co_await sleep_op(100us);
  stop = true;
  for (auto& c : clients) co_await c.done_op();
  acceptor.cancel();
  co_await scope.joined();
  EXPECT_EQ(answered, last_id);
  EXPECT_EQ(served.size(), last_id);
}

REAL(NetCancel, F9_ReceivesLoseNoDescriptor) {
  Interrupter cutter(here, 13);
  auto [a, b] = UnixDatagram::pair();
  auto [passed, other] = UnixStream::pair();
  const std::array fds{passed.fd().number(), other.fd().number()};
  bool stop = false;
  std::size_t sent = 0;
  std::size_t received = 0;
  Scope scope;
  auto sender = here.spawn(scope, [&]() -> Coro<> {
    while (!stop) {
      const auto n = co_await cutter.attempt([&] { return a.send_op(as_bytes("two"), fds); });
      if (n) ++sent;
      if (cutter.rng().below(2) == 0) co_await sleep_op(Duration(cutter.rng().below(100'000)));
    }
    co_await a.send_op(as_bytes("end"));
  });
  for (bool end = false; !end;) {
    std::array<std::byte, 3> buffer;
    auto message = co_await cutter.attempt([&] { return b.recv_op(buffer); });
    stop = cutter.cut() >= goal();
    if (!message) continue;
    end = as_text(buffer) == "end";
    EXPECT_EQ(message->fds.size(), end ? 0U : 2U);
    EXPECT_FALSE(message->fds_lost);
    if (!end) ++received;
  }
  co_await scope.joined();
  EXPECT_EQ(sent, received);
}

}  // namespace

#include <weft/net/accept.hpp>

#include "net/net.hpp"

#include <ctime>
#include <deque>
#include <memory>
#include <set>

using namespace weft;
using namespace weft::test;

namespace {

// A World whose accept() gives what it is told to. Clocks are virtual in these.

struct Scripted final : World {
  std::deque<SysResult> answers;
  std::size_t calls = 0;
  std::set<int> closed;

  SysResult accept(int, sockaddr*, socklen_t*) override {
    ++calls;
    if (answers.empty()) return -EMFILE;
    const SysResult answer = answers.front();
    answers.pop_front();
    return answer;
  }
  SysResult close(int fd) noexcept override {
    closed.insert(fd);
    return 0;
  }
};

struct ScriptedListener {
  std::shared_ptr<Scripted> world = std::make_shared<Scripted>();
  Fd fd{world, 100, Source::Kind::tcp};
  std::shared_ptr<detail::Listening> listening = std::make_shared<detail::Listening>("scripted");

  [[nodiscard]] auto accept_op() const {
    return AcceptOp<TcpStream, Source::Kind::tcp>(fd.source(), listening);
  }
};

EVERYWHERE(Accept, T16_BrokenConnectionsAreSkipped) {
  ScriptedListener listener;
  listener.world->answers = {-ECONNABORTED, -EPROTO, -EHOSTUNREACH, -ENETDOWN, 7};
  const TcpStream stream = co_await listener.accept_op();
  EXPECT_EQ(stream.fd().number(), 7);
  EXPECT_EQ(listener.world->calls, 5U);
  EXPECT_EQ(listener.listening->starved, 0U);
}

EVERYWHERE(Accept, T16_EndlessBrokenConnectionsDoNotHoldTheWorker) {
  ScriptedListener listener;
  listener.world->answers.assign(1000, -ECONNABORTED);
  listener.world->answers.push_back(7);
  const Instant start = now();
  const TcpStream stream = co_await listener.accept_op();
  EXPECT_EQ(listener.world->calls, 1001U);
  EXPECT_GE(now() - start, 10 * accept_pause);
}

EVERYWHERE(Accept, T16_WantOfDescriptorsIsWaitedOut) {
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM}) {
    ScriptedListener listener;
    listener.world->answers.assign(100, -error);
    listener.world->answers.push_back(7);
    const Instant start = now();
    const TcpStream stream = co_await listener.accept_op();
    EXPECT_EQ(stream.fd().number(), 7);
    EXPECT_EQ(now() - start, 100 * accept_pause);
    EXPECT_EQ(listener.listening->starved, 100U);
  }
}

EVERYWHERE(Accept, T16_OtherErrorsAreThrown) {
  ScriptedListener listener;
  listener.world->answers = {-EINVAL};
  EXPECT_EQ(co_await error_of(listener.accept_op()), EINVAL);
}

/// Keeps waking whoever waits for it, for nothing.
struct FalseAlarms {
  using Result = void;
  static constexpr Reason reason{"alarm"};
  std::optional<SleepOp> sleep{};
  static ObjectId object() noexcept { return ObjectId::none; }
  static bool try_now() noexcept { return false; }
  Armed arm(Arm& arm) { return sleep.emplace(10ms).arm(arm); }
  void disarm(Arm& arm) noexcept { sleep->disarm(arm); }
  static bool confirm() noexcept { return false; }
  void take() const noexcept {}
};

EVERYWHERE(Accept, C16_ABusySelectDoesNotStartThePauseOver) {
  ScriptedListener listener;
  listener.world->answers = {-EMFILE, 7};
  const Instant start = now();
  auto won = co_await race(listener.accept_op(), FalseAlarms());
  EXPECT_EQ(won.index(), 0U);
  EXPECT_EQ(now() - start, accept_pause);
}

EVERYWHERE(Accept, F9_CancelledWhileItPauses) {
  ScriptedListener listener;
  EXPECT_FALSE((co_await timeout(listener.accept_op(), 1s)).has_value());
  EXPECT_EQ(listener.world->calls, 20U);
  listener.world->answers = {7};
  EXPECT_EQ((co_await listener.accept_op()).fd().number(), 7);
  EXPECT_TRUE(listener.world->closed.contains(7));
}

EVERYWHERE(Accept, T16_AnAcceptedDescriptorNobodyTakesIsClosed) {
  ScriptedListener listener;
  listener.world->answers = {7};
  {
    auto op = listener.accept_op();
    EXPECT_TRUE(op.try_now());
    auto moved = std::move(op);
    EXPECT_FALSE(listener.world->closed.contains(7));
  }
  EXPECT_TRUE(listener.world->closed.contains(7));
  co_return;
}

// The machine's

REAL(Accept, T16_CloseWakesTheAcceptor) {
  auto listener = std::make_unique<TcpListener>(TcpListener::bind("127.0.0.1:0"));
  Scope scope;
  auto one = here.spawn(scope, [&] { return error_of(listener->accept_op()); });
  auto two = here.spawn(scope, [&] { return error_of(listener->accept_op()); });
  co_await sleep_op(1ms);
  listener.reset();
  EXPECT_EQ((co_await one.join_op()).value(), EBADF);
  EXPECT_EQ((co_await two.join_op()).value(), EBADF);
}

REAL(Accept, F9_CancelLosesNoConnection) {
  constexpr std::size_t count = 60;
  auto listener = TcpListener::bind("127.0.0.1:0");
  Rng rng(7);
  std::vector<bool> seen(count);
  std::size_t served = 0;
  auto serve = [&](const TcpStream& stream) -> Coro<> {
    std::array<std::byte, 1> id;
    EXPECT_EQ(co_await stream.read_op(id), 1U);
    const auto number = static_cast<std::size_t>(id[0]);
    EXPECT_FALSE(seen[number]) << "served twice";
    seen[number] = true;
    ++served;
  };
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    for (std::size_t i = 0; i < count; ++i) {
      const TcpStream client = co_await TcpStream::connect_op(listener.local());
      const auto id = static_cast<std::byte>(i);
      co_await client.write_op(ConstBytes(&id, 1));
      if (i % 3 == 0) co_await sleep_op(Duration(rng.below(50'000)));
    }
  });
  while (served < count) {
    auto acceptor = here.spawn(scope, [&]() -> Coro<> {
      const TcpStream stream = co_await listener.accept_op();
      Shield shield;  // what was accepted is served
      co_await serve(stream);
    });
    if (rng.below(4) != 0) {
      co_await sleep_op(Duration(rng.below(100'000)));
      acceptor.cancel();
    }
    co_await acceptor.done_op();
    auto in_time = co_await timeout(listener.accept_op(), Duration(rng.below(60'000)));
    if (in_time) co_await serve(*in_time);
    if (served == count) break;
  }
  EXPECT_EQ(served, count);
  co_await scope.joined();
}

Duration cpu_time() {
  timespec t{};
  // tidy: allow(clock) measures whether the thread spins
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + Duration(t.tv_nsec);
}

REAL(Accept, T16_OutOfDescriptorsRecoversAndDoesNotSpin) {
  if (!FewDescriptors::possible()) co_return;
  auto listener = TcpListener::bind("127.0.0.1:0");
  std::vector<TcpStream> clients;
  for (int i = 0; i < 12; ++i) {
    clients.push_back(co_await TcpStream::connect_op(listener.local()));
  }
  Scope scope;
  {
    const FewDescriptors few(4);
    auto server = here.spawn(scope, [&]() -> Coro<> {
      for (;;) {
        auto stream = std::make_shared<TcpStream>(co_await listener.accept_op());
        here.spawn(scope, [stream]() -> Coro<> { co_await co_copy(*stream, *stream); });
      }
    });
    while (listener.starved() == 0) co_await sleep_op(1ms);

    const Duration cpu = cpu_time();
    const Instant start = now();
    const std::uint64_t tries = listener.starved();
    while (listener.starved() < tries + 3) co_await sleep_op(accept_pause);
    const auto elapsed = now() - start;
    EXPECT_LE(listener.starved() - tries, static_cast<std::uint64_t>(elapsed / accept_pause) + 1);
    EXPECT_LT(cpu_time() - cpu, elapsed / 5) << "it spins";

    // Descriptors come back one by one, and every client gets its turn.
    for (const TcpStream& client : clients) {
      std::array<std::byte, 4> buffer;
      co_await client.write_op(as_bytes("ping"));
      EXPECT_EQ(co_await read_fully(client, buffer), 4U);
      client.shutdown_write();
      EXPECT_EQ(co_await client.read_op(buffer), 0U);
    }
    server.cancel();
    co_await server.done_op();
  }
  co_await scope.joined();
}

}  // namespace

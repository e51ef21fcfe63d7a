// The same seeds give the same runs: again and again, and whatever the compiler and the machine.
#include <weft/sim/explore.hpp>
#include <weft/sim/network.hpp>
#include <weft/sync/atomic.hpp>

#include "support/everywhere.hpp"

#include <string>

namespace weft::test {
namespace {

/// A bit of everything that a run can be made of.
void everything() {
  sim::network().allow(sim::Faults::every());
  sim::network().bandwidth(10'000'000);
  sim::Host& server = sim::host("server");
  server.clock(37, 1s);
  server.start([] {
    std::optional<TcpListener> bound;
    while (!bound) {
      try {
        bound = TcpListener::bind("0.0.0.0:7");
      } catch (const std::system_error&) {  // too many open files, for once
        sleep(1ms);
      }
    }
    TcpListener& listener = *bound;
    Scope scope({.on_failure = OnFailure::isolate});
    for (;;) {
      auto stream = std::make_shared<TcpStream>(listener.accept());
      scope.spawn([stream] {
        try {
          const std::string text = Reader(*stream).read_all(1'000);
          File file = File::open("/log", OpenMode::write | OpenMode::create);
          file.write(as_bytes(text));
          file.sync();
          stream->write(as_bytes(text));
        } catch (const std::system_error&) {
        }
      });
    }
  });
  weft::atomic<int> done{0};
  Channel<int> results(2);
  Mutex mutex;
  int sum = 0;
  Scope scope({.on_failure = OnFailure::isolate});
  for (int i = 0; i < 3; ++i) {
    scope.spawn([&, i] {
      for (int k = 0; k < 2; ++k) {
        const auto reply = within({.deadline = now() + 5s}, [&](Scope&) {
          TcpStream stream = TcpStream::connect("server:7");
          stream.write(as_bytes(std::string(static_cast<std::size_t>(100 * (i + 1)), 'x')));
          stream.shutdown_write();
          return Reader(stream).read_all(1'000).size();
        });
        results.send(reply.ok() ? static_cast<int>(reply.value()) : 0);
        if (sim::pick(3) == 0) yield();
      }
      if (done.fetch_add(1) == 2) results.close();
    });
  }
  scope.spawn([&] {
    for (;;) {
      auto got = select(results.recv_op(), sleep_op(250ms));
      if (got.index() == 1) continue;
      if (!std::get<0>(got)) return;
      const auto guard = mutex.lock();
      sum += *std::get<0>(got);
    }
  });
  sleep(2s);
  sim::network().swizzle({"server"}, 1s);
  if (sim::pick(2) == 1) server.restart();
  scope.join();
}

std::uint64_t hash_of(std::uint64_t seed) {
  sim::Engine engine;
  const auto strategy = sim::make_strategy("portfolio");
  const sim::Run run = engine.run({.strategy = strategy.get(), .seed = seed}, everything);
  EXPECT_FALSE(run.failure) << seed << ": " << run.failure->what;
  EXPECT_GT(run.steps, 100U);
  return run.hash;
}

TEST(Same, B3_ASeedIsTheSameRunAThousandTimes) {
  const std::uint64_t first = hash_of(1);
  EXPECT_NE(first, hash_of(2));
  for (std::size_t i = 0; i < scaled(20, 1'000, 1'000); ++i) ASSERT_EQ(hash_of(1), first) << i;
}

// Changes with the simulator: with what it draws, and in which order. Then put the new number here;
// it must be the same for both compilers, and on aarch64.
TEST(Same, B3_RunsAreTheSameOnEveryMachine) {
  constexpr std::uint64_t as_ever = 17'548'758'088'955'807'140ULL;
  std::uint64_t all = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) all = mix(all ^ hash_of(seed));
  EXPECT_EQ(all, as_ever) << "on this machine, with this compiler";
}

}  // namespace
}  // namespace weft::test

// The checker itself, on histories whose answer is known; and a store on a simulated host.
#include <weft/sim/linearizable.hpp>

#include <weft/sim/explore.hpp>
#include <weft/sim/network.hpp>

#include "support/everywhere.hpp"

#include <string>
#include <system_error>

namespace weft::test {
namespace {

struct Call {
  bool write;
  int value;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};
struct Register {
  int value = 0;
  bool apply(const Call& call) {
    if (!call.write) return value == call.value;
    value = call.value;
    return true;
  }
  [[nodiscard]] std::string key() const { return std::to_string(value); }
};

TEST(LinearHistory, C17_KnownAnswers) {
  using Calls = std::vector<Call>;
  const auto ok = [](const Calls& calls) { return sim::linearizable(calls, Register{}); };
  EXPECT_TRUE(ok({}));
  EXPECT_TRUE(ok({{true, 1, 1, 2}, {false, 1, 3, 4}}));
  EXPECT_FALSE(ok({{true, 1, 1, 2}, {false, 0, 3, 4}}));
  // While it is being written, either may be read; but not the old one after the new one.
  EXPECT_TRUE(ok({{true, 1, 1, 6}, {false, 0, 2, 3}, {false, 1, 4, 5}}));
  EXPECT_FALSE(ok({{true, 1, 1, 6}, {false, 1, 2, 3}, {false, 0, 4, 5}}));
  // A write of which nobody knows may come late, or never, but not before it began.
  EXPECT_TRUE(ok({{true, 1, 1, sim::end_unknown}, {false, 0, 5, 6}, {false, 1, 7, 8}}));
  EXPECT_TRUE(ok({{true, 1, 1, sim::end_unknown}, {false, 0, 5, 6}}));
  EXPECT_FALSE(ok({{false, 1, 1, 2}, {true, 1, 3, sim::end_unknown}}));
}

/// A store that answers from a copy it refreshes now and then, if it is lazy.
void serve_register(bool lazy) {
  TcpListener listener = TcpListener::bind("0.0.0.0:80");
  int value = 0;
  int copy = 0;
  Scope scope({.on_failure = OnFailure::isolate});
  scope.spawn([&] {
    for (;;) {
      sleep(10ms);
      copy = value;
    }
  });
  for (;;) {
    auto stream = std::make_shared<TcpStream>(listener.accept());
    scope.spawn([&, stream] {
      try {
        Reader reader(*stream);
        while (const auto line = reader.line()) {
          if (*line != "get") value = std::stoi(std::string(*line));
          stream->write(std::to_string(lazy ? copy : value) + "\n");
        }
      } catch (const std::system_error&) {
      }
    });
  }
}

void use_register(bool lazy) {
  sim::network().allow({.resets = true});
  sim::host("store").start([lazy] { serve_register(lazy); });
  sleep(1ms);
  sim::History<Call> history;
  Scope scope;
  for (int client = 0; client < 3; ++client) {
    scope.spawn([&, client] {
      for (int i = 0; i < 3; ++i) {
        Call call{
            .write = sim::pick(2) == 0, .value = 10 * client + i + 1, .begin = history.tick()};
        try {
          const TcpStream stream = TcpStream::connect("store:80");
          stream.write((call.write ? std::to_string(call.value) : std::string("get")) + "\n");
          Reader reader(stream);
          const auto line = reader.line();
          if (!line) throw std::system_error(ECONNRESET, std::generic_category());
          if (!call.write) call.value = std::stoi(std::string(*line));
          history.note(call);
        } catch (const std::system_error&) {
          if (call.write) history.unknown(call);
        }
      }
    });
  }
  scope.join();
  sim::check(sim::linearizable(history.calls(), Register{}), "reads are up to date");
}

TEST(LinearHistory, C17_AStoreThatAnswersFromAnOldCopyIsFound) {
  const sim::Options options{
      .runs = scaled(100, 1'000, 20'000), .save_tape = false, .progress = false};
  const auto right = sim::explore(options, [] { use_register(false); });
  EXPECT_TRUE(right.ok()) << right.text();
  const auto wrong = sim::explore(options, [] { use_register(true); });
  EXPECT_TRUE(wrong.found);
}

}  // namespace
}  // namespace weft::test

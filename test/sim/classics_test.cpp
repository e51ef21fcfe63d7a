// Known mistakes are found, soon; each failure can be repeated exactly; and what is right is left
// alone.
#include "sim/classics.hpp"

#include <weft/sim/explore.hpp>
#include <weft/sim/network.hpp>

#include "support/everywhere.hpp"

#include <algorithm>
#include <cstdio>
#include <set>

namespace weft::test {
namespace {

class Classics : public testing::TestWithParam<Classic> {};
INSTANTIATE_TEST_SUITE_P(Sim, Classics, testing::ValuesIn(all_classics),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Classics, B2_TheMistakeIsFoundAndRepeated) {
  const auto report =
      sim::explore({.name = GetParam().name, .runs = 10'000, .save_tape = false, .progress = false},
                   GetParam().wrong);
  ASSERT_TRUE(report.found) << report.text();
  const sim::Found& found = *report.found;
  EXPECT_LE(found.plainest.edits(), found.tape.edits());
  EXPECT_NE(found.timeline.find("main (1)"), std::string::npos);
  RecordProperty("runs", static_cast<int>(found.run));

  sim::Engine engine;
  const std::size_t times = scaled(20, 1'000, 1'000);
  for (std::size_t i = 0; i < times; ++i) {
    const sim::Run run = engine.run({.tape = &found.plainest, .strict = true}, GetParam().wrong);
    ASSERT_TRUE(run.failure && run.failure->same_as(found.failure)) << i;
    ASSERT_EQ(run.hash, found.plainest.hash) << i;
  }
}

TEST_P(Classics, B2_WithoutTheMistakeThereIsNoAlarm) {
  const auto report = sim::explore({.name = GetParam().name,
                                    .runs = scaled(500, 40'000, 400'000),
                                    .save_tape = false,
                                    .progress = false},
                                   GetParam().right);
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_GE(report.runs, scaled(500, 40'000, 400'000));
}

// Every strategy finds the simplest of them; and they all have that in common.
TEST(Strategies, B2_AllOfThemFindALostUpdate) {
  for (const char* strategy :
       {"random", "pct:2", "pct:3", "pos", "surw", "exhaustive", "exhaustive:all", "portfolio"}) {
    const auto report =
        sim::explore({.runs = 1'000, .strategy = strategy, .save_tape = false, .progress = false},
                     &classics::account<false>);
    ASSERT_TRUE(report.found) << strategy;
    EXPECT_EQ(report.found->failure.kind, sim::Failure::Kind::check);
    EXPECT_EQ(report.found->plainest.edits(), 1U) << strategy;
  }
}

// The search that leaves nothing out tells when it is through; the reduced one is through much
// sooner, and finds the same.
TEST(Strategies, B2_TheExhaustiveSearchComesToAnEnd) {
  const auto count = [](const char* strategy, void (*body)()) {
    const auto report = sim::explore(
        {.runs = 1'000'000, .strategy = strategy, .save_tape = false, .progress = false}, body);
    EXPECT_TRUE(report.ok()) << report.text();
    EXPECT_TRUE(report.everything);
    return report.runs;
  };
  const auto two_steps_each = +[] {
    atomic<int> x{0};
    atomic<int> y{0};
    Scope scope;
    scope.spawn([&] {
      x.fetch_add(1);
      x.fetch_add(1);
    });
    scope.spawn([&] {
      y.fetch_add(1);
      y.fetch_add(1);
    });
    scope.join();
  };
  const std::uint64_t all = count("exhaustive:all", two_steps_each);
  const std::uint64_t reduced = count("exhaustive", two_steps_each);
  EXPECT_GT(all, 5 * reduced);

  const auto wrong = sim::explore(
      {.runs = 1'000'000, .strategy = "exhaustive", .save_tape = false, .progress = false},
      &classics::bluetooth<false>);
  EXPECT_TRUE(wrong.found) << wrong.text();
  EXPECT_GT(count("exhaustive", &classics::bluetooth<true>), 10U);
}

/// All outcomes of a small program, by two searches: the reduction must not lose one.
TEST(Strategies, B2_TheReductionLosesNoOutcome) {
  const auto outcomes = [](const char* strategy, std::uint32_t program) {
    std::set<std::string> seen;
    const auto report = sim::explore(
        {.runs = 3'000'000, .strategy = strategy, .save_tape = false, .progress = false}, [&] {
          std::array<atomic<int>, 2> x{};
          std::array<int, 3> read{};
          Rng rng(program);
          Scope scope;
          for (std::size_t t = 0; t < 3; ++t) {
            std::array<std::uint32_t, 2> steps{rng.below(6), rng.below(6)};
            scope.spawn([&, t, steps] {
              for (const std::uint32_t step : steps) {
                auto& object = x[step % 2];
                if (step < 2) {
                  object.store(static_cast<int>(t) + 1);
                } else if (step < 4) {
                  read[t] = read[t] * 10 + object.load();
                } else {
                  object.fetch_add(3);
                }
              }
            });
          }
          scope.join();
          std::string outcome;
          for (const int r : read) outcome += std::to_string(r) + " ";
          seen.insert(outcome + std::to_string(x[0].load()) + " " + std::to_string(x[1].load()));
        });
    EXPECT_TRUE(report.ok() && report.everything) << report.text();
    return seen;
  };
  for (std::uint32_t program = 1; program <= scaled(1, 4, 60); ++program) {
    EXPECT_EQ(outcomes("exhaustive", program), outcomes("exhaustive:all", program)) << program;
  }
}

/// The outcomes of a body that says what came of it, by an exhaustive search.
template <class Body>
std::set<std::string> outcomes_of(const char* strategy, Body body) {
  std::set<std::string> seen;
  const auto report = sim::explore({.runs = 1'000'000,
                                    .strategy = strategy,
                                    .paranoid = 7,
                                    .save_tape = false,
                                    .progress = false},
                                   [&] { seen.insert(body()); });
  EXPECT_TRUE(report.ok() && report.everything) << report.text();
  return seen;
}

// A failing task's end stops its siblings; a yield disables who yields. Both are more than they
// look.
TEST(Strategies, B2_TheReductionKnowsFailuresAndYields) {
  const auto failure = [] {
    atomic<int> x{0};
    try {
      Semaphore semaphore(10);
      Scope scope;
      scope.spawn([] { throw std::runtime_error("no"); });
      scope.spawn([&] {
        static_cast<void>(semaphore.acquire());
        x.store(1);
        static_cast<void>(semaphore.acquire());
        x.store(2);
      });
      scope.join();
    } catch (const std::runtime_error&) {
    }
    return std::to_string(x.load());
  };
  EXPECT_EQ(outcomes_of("exhaustive", failure), (std::set<std::string>{"0", "1", "2"}));
  const auto yields = [] {
    atomic<int> b{0};
    atomic<int> c{0};
    atomic<int> q{0};
    std::string read;
    Scope scope;
    scope.spawn([&] {
      q.store(1);
      c.store(1);
    });
    scope.spawn([&] { b.store(1); });
    scope.spawn([&] {
      yield();
      read += std::to_string(b.load());
      read += std::to_string(c.load());
    });
    scope.join();
    return read;
  };
  EXPECT_EQ(outcomes_of("exhaustive", yields), outcomes_of("exhaustive:all", yields));
}

// Whether it is cancelled before it begins makes a difference.
TEST(Strategies, B2_TheReductionKnowsBeginnings) {
  const auto body = [] {
    atomic<int> x{0};
    atomic<int> y{0};
    Scope scope;
    auto one = scope.spawn([&] { x.store(1); });
    auto other = scope.spawn([&] { y.store(1); });
    one.cancel();
    other.cancel();
    scope.join();
    return std::to_string(x.load()) + std::to_string(y.load());
  };
  EXPECT_EQ(outcomes_of("exhaustive", body), outcomes_of("exhaustive:all", body));
}

// What goes through the outside hangs together, though the sockets are others.
TEST(Strategies, B2_TheReductionKnowsTheOutside) {
  const auto body = [] {
    std::string heard;
    sim::host("server").start([&] {
      UdpSocket socket = UdpSocket::bind("0.0.0.0:9");
      std::array<std::byte, 4> buffer{};
      for (int i = 0; i < 3; ++i) {
        const auto got = socket.recv_from(buffer);
        heard += as_text(std::span(buffer).first(got.size));
      }
    });
    sim::network().latency(1ms, 1ms);
    sleep(1ms);
    Scope scope;
    for (const char* word : {"a", "b", "c"}) {
      scope.spawn([word] {
        const UdpSocket socket = UdpSocket::bind("0.0.0.0:0");
        socket.send_to(as_bytes(word), Address::parse("10.0.0.2:9"));
      });
    }
    scope.join();
    sleep(1s);
    return heard;
  };
  EXPECT_EQ(outcomes_of("exhaustive", body).size(), 6U);
}

// A run that cannot be repeated is reported, by whichever strategy.
TEST(Strategies, B2_WhatCannotBeRepeatedIsSaid) {
  int calls = 0;
  const auto report = sim::explore({.runs = 1'000,
                                    .strategy = "exhaustive:all",
                                    .paranoid = 0,
                                    .shrink = false,
                                    .save_tape = false,
                                    .progress = false},
                                   [&] {
                                     atomic<int> x{0};
                                     Scope scope;
                                     const int tasks = ++calls % 11 == 0 ? 3 : 2;
                                     for (int i = 0; i < tasks; ++i) {
                                       scope.spawn([&] { x.fetch_add(1); });
                                     }
                                     scope.join();
                                   });
  EXPECT_FALSE(report.ok());
}

// A look at whether a task is done is something that others can come before.
TEST(Strategies, B2_DoneIsAPoint) {
  const auto seen = outcomes_of("exhaustive", [] {
    atomic<int> x{0};
    Scope scope;
    auto task = scope.spawn([&] { x.store(1); });
    const int value = x.load();
    const bool done = task.done();
    scope.join();
    return std::to_string(value) + (done ? "1" : "0");
  });
  EXPECT_EQ(seen, (std::set<std::string>{"00", "01", "10", "11"}));
}

TEST(Strategies, B2_AnUnknownOneIsRefused) {
  try {
    static_cast<void>(sim::make_strategy("pct:none"));
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("surw"), std::string::npos);
  }
}

// Schedules a second, on the small ones; shown, and only a very slow machine fails.
TEST(Strategies, B2_ManyRunsASecond) {
  std::vector<double> rates;
  for (const Classic& classic : all_classics) {
    const auto report = sim::explore({.name = classic.name,
                                      .runs = scaled(200, 5'000, 20'000),
                                      .save_tape = false,
                                      .progress = false},
                                     classic.right);
    if (report.steps / report.runs < 50) {
      rates.push_back(static_cast<double>(report.runs) / report.seconds);
    }
  }
  std::ranges::sort(rates);
  std::printf("median %.0f runs a second\n", rates[rates.size() / 2]);
  EXPECT_GT(rates[rates.size() / 2], 1'000.0);
}

}  // namespace
}  // namespace weft::test

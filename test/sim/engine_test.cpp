// The simulation's engine: time, order, failures of all kinds, tapes.
#include <weft/sim/explore.hpp>
#include <weft/sync/atomic.hpp>

#include "support/everywhere.hpp"

#include <set>
#include <string>
#include <vector>

namespace weft::test {
namespace {

using sim::Failure;

sim::Options quietly(std::string strategy = "portfolio", std::uint64_t runs = 1'000) {
  return {.runs = runs, .strategy = std::move(strategy), .save_tape = false, .progress = false};
}

// F14, F15: time

TEST(Sim, F14_TimeJumpsAndRunningTakesNone) {
  const auto report = sim::explore(quietly("fifo"), [] {
    std::vector<int> order;
    Scope scope;
    for (const int ms : {30, 10, 20}) {
      scope.spawn([&, ms] {
        sleep(std::chrono::milliseconds(ms));
        EXPECT_EQ(now(), Instant(std::chrono::milliseconds(ms)));
        order.push_back(ms);
      });
    }
    sleep(std::chrono::hours(1000));
    EXPECT_EQ(now(), Instant(std::chrono::hours(1000)));
    scope.join();
    EXPECT_EQ(order, (std::vector<int>{10, 20, 30}));
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_GE(report.simulated, std::chrono::hours(1000));
  EXPECT_LT(report.seconds, 60.0);
}

/// The orders in which three go on that are due at the same instant.
std::set<std::vector<int>> orders_by(const char* strategy) {
  std::set<std::vector<int>> orders;
  const auto report = sim::explore(quietly(strategy), [&] {
    std::vector<int> order;
    Scope scope;
    for (int i = 0; i < 3; ++i) {
      scope.spawn([&, i] {
        sleep(1s);
        order.push_back(i);
      });
    }
    scope.join();
    orders.insert(order);
  });
  EXPECT_TRUE(report.ok()) << report.text();
  return orders;
}

TEST(Sim, F15_WhatIsDueAtTheSameInstantIsPermuted) {
  EXPECT_EQ(orders_by("random").size(), 6U);
}

TEST(Sim, F15_InTurnThereIsOneOrder) {
  EXPECT_EQ(orders_by("fifo"), (std::set<std::vector<int>>{{0, 1, 2}}));
}

// S10: behaviour that is the same everywhere

TEST(Sim, S10_ThreeFibersThatYieldTakeTurns) {
  std::string out;
  const auto report = sim::explore(quietly("fifo"), [&] {
    out.clear();
    Scope scope;
    for (char c = 'A'; c <= 'C'; ++c) {
      scope.spawn([&, c] {
        for (int i = 0; i < 3; ++i) {
          out += c;
          yield();
        }
      });
    }
    scope.join();
  });
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(out, "ABCABCABC");
}

// Failures

TEST(Sim, S9_ADeadlockIsFoundAndTold) {
  const auto report = sim::explore(quietly(), [] {
    Mutex a;
    Mutex b;
    Scope scope;
    scope.spawn(
        [&] {
          const auto first = a.lock();
          const auto second = b.lock();
        },
        {.name = "one"});
    scope.spawn(
        [&] {
          const auto first = b.lock();
          const auto second = a.lock();
        },
        {.name = "two"});
    scope.join();
  });
  ASSERT_TRUE(report.found);
  EXPECT_EQ(report.found->failure.kind, Failure::Kind::deadlock);
  EXPECT_NE(report.found->failure.what.find("one (tid 2, fiber) blocked: mutex #2"),
            std::string::npos)
      << report.text();
  EXPECT_NE(report.found->failure.what.find("task 'two' (tid 3) holds mutex #2"), std::string::npos)
      << report.text();
  EXPECT_EQ(report.found->plainest.edits(), 1U);
}

TEST(Sim, S8_WhatBlocksMayWakeTasks) {
  const auto report = sim::explore(quietly(), [] {
    Channel<int> channel(1);
    Scope scope;
    scope.spawn([&] { blocking([&] { channel.send(1); }); });
    sim::check(channel.recv() == 1, "it is sent");
    scope.join();
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Sim, S9_ALivelockIsFound) {
  // Both wait for the other to be through, politely. It cannot be stopped by a cancellation either.
  const auto spin = [] {
    atomic<bool> done{false};
    Scope scope;
    scope.spawn([&] {
      while (!done.load()) {
      }
    });
    scope.join();
  };
  const auto report = sim::explore(quietly("random", 1), spin);
  ASSERT_TRUE(report.found) << report.text();
  EXPECT_EQ(report.found->failure.kind, Failure::Kind::livelock);
  const auto polite = sim::explore(quietly("pct:2", 10), [] {
    Scope scope;
    scope.spawn([&] {
      for (;;) yield();
    });
    scope.join();
  });
  ASSERT_TRUE(polite.found);
  EXPECT_EQ(polite.found->failure.kind, Failure::Kind::livelock);
}

// Who spins for somebody who has not begun yet is not stuck, however unfair the strategy.
TEST(Sim, S9_AnUnfairOrderIsNoLivelock) {
  const auto wait_for_another = [] {
    atomic<bool> done{false};
    Scope scope;
    for (int i = 0; i < 2; ++i) {
      scope.spawn([&] {
        while (!done.load()) yield();
      });
    }
    scope.spawn([&] { done.store(true); });
    scope.join();
  };
  for (const char* strategy : {"exhaustive", "pos", "pct:3", "portfolio"}) {
    sim::Options options = quietly(strategy, 3'000);
    options.engine.most_idle_steps = 200;
    const auto report = sim::explore(options, wait_for_another);
    EXPECT_TRUE(report.ok()) << strategy << ": " << report.text();
  }
}

TEST(Sim, S9_ARunThatNeverEndsIsEnded) {
  sim::Options options = quietly("random", 1);
  options.engine.most_steps = 10'000;
  const auto report = sim::explore(options, [] {
    for (;;) sleep(1ms);
  });
  ASSERT_TRUE(report.found);
  EXPECT_EQ(report.found->failure.kind, Failure::Kind::too_long);
}

TEST(Sim, S9_StarvationIsFoundIfOneAsks) {
  sim::Options options = quietly("pct:1", 20);
  options.engine.most_passes = 500;
  const auto report = sim::explore(options, [] {
    atomic<int> x{0};
    Scope scope;
    scope.spawn([&] {
      for (int i = 0; i < 2'000; ++i) x.fetch_add(1);
    });
    scope.spawn([&] { x.fetch_add(1); });
    scope.join();
  });
  ASSERT_TRUE(report.found);
  EXPECT_EQ(report.found->failure.kind, Failure::Kind::starved);
}

TEST(Sim, B2_WhatATaskThrowsIsAFailure) {
  const auto thrown = sim::explore(quietly(), [] {
    Scope scope;
    scope.spawn([] { throw std::runtime_error("broken"); });
    scope.join();
  });
  ASSERT_TRUE(thrown.found);
  EXPECT_NE(thrown.found->failure.what.find("broken"), std::string::npos);
  const auto unhandled =
      sim::explore(quietly(), [] { this_io().spawn([] { throw std::runtime_error("alone"); }); });
  ASSERT_TRUE(unhandled.found);
  EXPECT_NE(unhandled.found->failure.what.find("alone"), std::string::npos);
}

TEST(Sim, B2_ACoroutineAsBody) {
  const auto report = sim::explore(quietly(), []() -> Coro<> {
    Channel<int> channel(0);
    Scope scope;
    scope.spawn([&]() -> Coro<> { static_cast<void>(co_await channel.send_op(7)); });
    EXPECT_EQ(co_await channel.recv_op(), 7);
    co_await scope.joined();
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Sim, B2_Monitors) {
  const auto count_to = [](int limit) {
    return [limit] {
      atomic<int> x{0};
      const sim::always small("x stays below 3", [&] { return x.load() < 3; });
      Scope scope;
      for (int i = 0; i < limit; ++i) {
        scope.spawn([&] {
          x.fetch_add(1);
          x.fetch_sub(1);
        });
      }
      scope.join();
    };
  };
  EXPECT_TRUE(sim::explore(quietly(), count_to(2)).ok());
  const auto report = sim::explore(quietly(), count_to(3));
  ASSERT_TRUE(report.found);
  EXPECT_EQ(report.found->failure.kind, Failure::Kind::monitor);
  EXPECT_EQ(report.found->failure.key, "x stays below 3");

  const auto both_at_once = [](bool can) {
    return [can] {
      atomic<int> x{0};
      const sim::eventually met("both are in", [&] { return x.load() == 2; });
      Scope scope;
      for (int i = 0; i < (can ? 2 : 1); ++i) scope.spawn([&] { x.fetch_add(1); });
      scope.join();
    };
  };
  EXPECT_TRUE(sim::explore(quietly(), both_at_once(true)).ok());
  EXPECT_TRUE(sim::explore(quietly(), both_at_once(false)).found);
}

TEST(Sim, B2_BuggifyAndPickAreOnTheTape) {
  EXPECT_FALSE(buggify());
  EXPECT_EQ(sim::pick(7), 0U);
  int rare = 0;
  int picked = 0;
  const auto report = sim::explore(quietly("random", 2'000), [&] {
    for (int i = 0; i < 4; ++i) rare += buggify() ? 1 : 0;
    picked += sim::pick(3) == 2 ? 1 : 0;
  });
  EXPECT_TRUE(report.ok());
  EXPECT_GT(rare, 100);
  EXPECT_LT(rare, 2'000);
  EXPECT_GT(picked, 300);
  const auto fails = sim::explore(quietly("random", 2'000), [] {
    const bool odd = buggify();
    const std::uint32_t n = sim::pick(10);
    sim::check(!odd || n < 7, "only if both");
  });
  ASSERT_TRUE(fails.found);
  // The site is on, it happens, and the smallest number that will do.
  EXPECT_EQ(fails.found->plainest.edits(), 3U) << fails.found->plainest.text();
  EXPECT_EQ(fails.found->plainest.choices.at(2).taken, 7U);
}

// Tapes

TEST(Tape, B2_TextAndBack) {
  sim::Tape tape;
  tape.name = "A name, with spaces";
  tape.seed = 18446744073709551615ULL;
  tape.strategy = "pct:3";
  tape.hash = 0x0123456789abcdefULL;
  for (std::uint32_t i = 0; i < 30; ++i) {
    tape.choices.push_back({.kind = i % 2 == 0 ? sim::Kind::task : sim::Kind::fault,
                            .among = i + 2,
                            .taken = i % 3 == 0 ? 0U : i});
  }
  tape.choices.push_back({.kind = sim::Kind::select, .among = 2, .taken = 1});
  const sim::Tape back = sim::Tape::parse(tape.text());
  EXPECT_EQ(back.name, tape.name);
  EXPECT_EQ(back.seed, tape.seed);
  EXPECT_EQ(back.strategy, tape.strategy);
  EXPECT_EQ(back.hash, tape.hash);
  EXPECT_EQ(back.choices, tape.choices);
}

TEST(Tape, B2_WhatIsNoTapeIsRefusedWithItsLine) {
  const auto error = [](const std::string& text) {
    try {
      static_cast<void>(sim::Tape::parse(text));
    } catch (const sim::BadTape& e) {
      return std::string(e.what());
    }
    return std::string("none");
  };
  EXPECT_NE(error("").find("empty"), std::string::npos);
  EXPECT_NE(error("weft-tape 2\n").find("line 1"), std::string::npos);
  EXPECT_NE(error("weft-tape 1\nname x\nseed one fifo\n").find("line 3"), std::string::npos);
  EXPECT_NE(error("weft-tape 1\nname x\nt2=2\n").find("not there"), std::string::npos);
  EXPECT_NE(error("weft-tape 1\nname x\nx2=1\n").find("line 3"), std::string::npos);
  EXPECT_NE(error("weft-tape 1\nname x\nt2=1z\n").find("line 3"), std::string::npos);
  EXPECT_THROW(static_cast<void>(sim::Tape::load("no/such/tape")), std::system_error);
}

void lost_update(int tasks) {
  atomic<int> x{0};
  Scope scope;
  for (int i = 0; i < tasks; ++i) scope.spawn([&] { x.store(x.load() + 1); });
  scope.join();
  sim::check(x.load() == tasks, "lost");
}

TEST(Tape, B2_AStaleTapeIsRecognised) {
  const auto report = sim::explore(quietly(), [] { lost_update(2); });
  ASSERT_TRUE(report.found);
  const sim::Tape& tape = report.found->plainest;
  sim::Engine engine;
  const sim::Run same = engine.run({.tape = &tape, .strict = true}, [] { lost_update(2); });
  ASSERT_TRUE(same.failure);
  EXPECT_EQ(same.hash, tape.hash);
  try {
    static_cast<void>(engine.run({.tape = &tape, .strict = true}, [] { lost_update(3); }));
    FAIL() << "it was taken for the tape of another program";
  } catch (const sim::BadTape& e) {
    EXPECT_NE(std::string(e.what()).find("does not fit"), std::string::npos) << e.what();
  }
  // And the engine is as good as new.
  EXPECT_TRUE(engine.run({.tape = &tape, .strict = true}, [] { lost_update(2); }).failure);
}

/// Sets a variable for the time of a test.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) {
    ::setenv(name, value.c_str(), 1);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() { ::unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Tape, B2_TheReplayLineRepeatsTheFailure) {
  const std::string directory = testing::TempDir() + "weft-tapes-test";
  const Environment tapes("WEFT_TAPES", directory);
  sim::Options options = quietly();
  options.save_tape = true;
  options.name = "Tape.replay";
  const auto first = sim::explore(options, [] { lost_update(3); });
  ASSERT_TRUE(first.found);
  ASSERT_FALSE(first.found->tape_file.empty());
  EXPECT_NE(first.found->replay.find("WEFT_REPLAY=" + first.found->tape_file), std::string::npos);
  const Environment replay("WEFT_REPLAY", first.found->tape_file);
  const auto again = sim::explore(options, [] { lost_update(3); });
  ASSERT_TRUE(again.found);
  EXPECT_EQ(again.runs, 1U);
  EXPECT_EQ(again.found->timeline, first.found->timeline);
  EXPECT_THROW(static_cast<void>(sim::explore(options, [] { lost_update(2); })), sim::BadTape);
  // Another test has nothing to do with it.
  options.name = "Another";
  options.save_tape = false;
  EXPECT_TRUE(sim::explore(options, [] {}).ok());
}

TEST(Tape, B2_SeedsFromTheEnvironment) {
  const Environment seeds("WEFT_SEEDS", "5..24");
  EXPECT_EQ(sim::explore(quietly(), [] { yield(); }).runs, 21U);  // and the quiet one
  const Environment one("WEFT_SEED", "7");
  {
    const Environment bad("WEFT_SEEDS", "5-9");
    EXPECT_THROW(static_cast<void>(sim::explore(quietly(), [] {})), std::invalid_argument);
  }
}

#if !defined(WEFT_TSAN)
TEST(Sim, B2_InSeveralProcesses) {
  const Environment jobs("WEFT_JOBS", "2");
  const auto fine = sim::explore(quietly("random", 1'000), [] { lost_update(1); });
  EXPECT_TRUE(fine.ok()) << fine.text();
  EXPECT_EQ(fine.runs, 1'002U);
  const auto report = sim::explore(quietly("random", 1'000), [] { lost_update(2); });
  ASSERT_TRUE(report.found) << report.text();
  EXPECT_EQ(report.found->plainest.edits(), 1U);
}
#endif

// A predicate is asked under a lock: what it looks at is no point there.
TEST(Sim, B2_APredicateOfAParkerMayLookAtAtomics) {
  const auto report = sim::explore(quietly(), [] {
    Parker parker;
    atomic<int> ready{0};
    Scope scope;
    scope.spawn([&] {
      ready.store(1);
      parker.unpark();
    });
    parker.park_if([&] { return ready.load() == 0; });
    sim::check(ready.load() == 1, "it was woken for that");
    scope.join();
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

// The same tape, the same run: also on another engine, after other runs, with other addresses.
TEST(Sim, S11_TheSameSeedGivesTheSameRun) {
  const auto body = [] {
    Channel<int> channel(2);
    Mutex mutex;
    atomic<int> sum{0};
    Scope scope;
    for (int i = 0; i < 4; ++i) {
      scope.spawn([&, i] {
        for (int k = 0; k < 5; ++k) {
          static_cast<void>(channel.send(k));
          if (sim::pick(3) == 1) sleep(std::chrono::milliseconds(i));
        }
      });
      scope.spawn([&] {
        for (int k = 0; k < 5; ++k) {
          const int got = channel.recv().value();
          const auto guard = mutex.lock();
          sum.store(sum.load() + got);
        }
      });
    }
    scope.join();
    sim::check(sum.load() == 40, "conserved");
  };
  const auto strategy = sim::make_strategy("portfolio");
  std::vector<std::uint64_t> hashes;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::unique_ptr<char[]>> elsewhere;
    for (int i = 0; i < round * 100; ++i) elsewhere.push_back(std::make_unique<char[]>(64));
    sim::Engine engine;
    const sim::Profile profile = engine.run({.trace = true}, body).profile;
    for (std::uint64_t seed = 0; seed < scaled(50, 500, 1'000); ++seed) {
      const sim::Run run =
          engine.run({.strategy = strategy.get(), .seed = seed, .profile = &profile}, body);
      ASSERT_FALSE(run.failure) << run.failure->what;
      if (round == 0) {
        hashes.push_back(run.hash);
      } else {
        ASSERT_EQ(run.hash, hashes[seed]) << seed;
      }
    }
  }
  EXPECT_GT(std::set<std::uint64_t>(hashes.begin(), hashes.end()).size(), hashes.size() / 2);
}

}  // namespace
}  // namespace weft::test

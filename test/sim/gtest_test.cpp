// Simulations as tests.
#include <weft/sim/gtest.hpp>

#include <weft/sync/atomic.hpp>

#include "support/everywhere.hpp"

#include <cstdlib>

namespace weft::test {
namespace {

WEFT_SIM_TEST(SimTest, B2_ABodyIsExplored) {
  atomic<int> balance{0};
  Scope scope;
  for (int i = 0; i < 2; ++i) scope.spawn([&] { balance.fetch_add(50); });
  scope.join();
  EXPECT_EQ(balance.load(), 100);
}
TEST(SimTest, B2_ManyTimes) {
  int runs = 0;
  sim::explore_test({.progress = false}, [&] { ++runs; });
  EXPECT_GT(runs, 1'000);
}

WEFT_SIM_TEST_WITH(SimTest, B2_WithOptions, (sim::Options{.runs = 10, .strategy = "pct:2"})) {
  EXPECT_TRUE(sim::simulated());
}

void lose_a_deposit() {
  atomic<int> balance{0};
  Scope scope;
  for (int i = 0; i < 2; ++i) scope.spawn([&] { balance.store(balance.load() + 50); });
  scope.join();
  EXPECT_EQ(balance.load(), 100);
}

// One failure, however many runs have failed on the way; with the timeline, and the way back.
TEST(SimTest, B2_AFailedExpectationIsReportedOnceWithItsRun) {
  const std::string directory = testing::TempDir() + "weft-tapes-gtest";
  ::setenv("WEFT_TAPES", directory.c_str(), 1);
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    sim::explore_test({.progress = false}, &lose_a_deposit);
  }
  ::unsetenv("WEFT_TAPES");
  ASSERT_EQ(failures.size(), 1);
  const std::string text = failures.GetTestPartResult(0).message();
  for (const char* part :
       {"balance.load()", "load @1", "It passes if",
        "WEFT_REPLAY=", "--gtest_filter=SimTest.B2_AFailedExpectationIsReportedOnceWithItsRun"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

/// Explores as the running test, paranoid; the failures.
std::string failures_of(const std::function<void()>& body) {
  ::setenv("WEFT_PARANOID", "1", 1);
  testing::TestPartResultArray failures;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    sim::explore_test({.runs = 1, .progress = false}, body);
  }
  ::unsetenv("WEFT_PARANOID");
  return failures.size() == 0 ? "" : failures.GetTestPartResult(0).message();
}

// This variable is set there, and not here.
TEST(SimTest, B3_ARunThatDependsOnTheProcessIsNoticedByAnother) {
  const std::string text = failures_of([] {
    if (std::getenv("WEFT_REPLAY") != nullptr) yield();
  });
  EXPECT_NE(text.find("in another process"), std::string::npos) << text;
}
TEST(SimTest, B3_ARunThatDoesNotIsTheSameThere) {
  EXPECT_EQ(failures_of([] {
              Channel<int> channel;
              Scope scope;
              scope.spawn([&] { channel.send(1); });
              EXPECT_EQ(channel.recv(), 1);
              scope.join();
            }),
            "");
}

}  // namespace
}  // namespace weft::test

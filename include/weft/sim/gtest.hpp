/// Simulations as GoogleTest tests.
///
///     WEFT_SIM_TEST(Account, NoDepositIsLost) {
///       weft::atomic<int> balance{0};
///       weft::Scope scope;
///       for (int i = 0; i < 2; ++i) scope.spawn([&] { balance.fetch_add(50); });
///       scope.join();
///       EXPECT_EQ(balance.load(), 100);
///     }
///
/// The body is explored (sim/explore.hpp); EXPECT and ASSERT work as usual, and concern the run
/// they are in. WEFT_SIM_TEST_WITH(suite, name, (weft::sim::Options{.runs = 100})) has options. The
/// environment variables of explore() hold for these tests.
#pragma once

#include <weft/sim/explore.hpp>

#include <optional>
#include <string>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

namespace weft::sim {

/// Explores `body` as the test that is running now, which fails if a run does.
inline void explore_test(Options options, const std::function<void()>& body) {
  const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
  options.name = std::string(test.test_suite_name()) + "." + test.name();
  options.arguments = {"--gtest_filter=" + options.name};
  Report report;
  {
    testing::TestPartResultArray results;
    int seen = 0;
    // What fails is not a failure of the test until it is reported: most runs are only looked at.
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    options.after_run = [&]() -> std::optional<Failure> {
      const int from = std::exchange(seen, results.size());
      for (int i = from; i < results.size(); ++i) {
        const testing::TestPartResult& part = results.GetTestPartResult(i);
        if (!part.failed()) continue;
        const std::string where =
            std::string(part.file_name() == nullptr ? "?" : part.file_name()) + ":" +
            std::to_string(part.line_number());
        return Failure{
            .kind = Failure::Kind::check, .key = where, .what = where + ": " + part.message()};
      }
      return std::nullopt;
    };
    report = explore(options, body);
  }
  testing::Test::RecordProperty("runs", std::to_string(report.runs));
  if (!report.ok()) ADD_FAILURE() << report.text();
}

}  // namespace weft::sim

#define WEFT_SIM_TEST_WITH(suite, name, options)                                  \
  static void weft_sim_body_##suite##_##name();                                   \
  TEST(suite, name) {                                                             \
    ::weft::sim::explore_test(options, [] { weft_sim_body_##suite##_##name(); }); \
  }                                                                               \
  static void weft_sim_body_##suite##_##name()

#define WEFT_SIM_TEST(suite, name) WEFT_SIM_TEST_WITH(suite, name, ::weft::sim::Options{})

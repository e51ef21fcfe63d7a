#include "support/everywhere.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace weft::test {
namespace {

EVERYWHERE(Join, S5_ReadyBeforeAwaitDoesNotPark) {
  Scope scope;
  auto handle = here.spawn(scope, []() -> Coro<int> { co_return 3; });
  co_await handle.done_op();
  EXPECT_TRUE(handle.done());
  EXPECT_EQ(handle.state(), TaskState::complete);
  EXPECT_EQ((co_await handle.join_op()).value(), 3);
  co_await scope.joined();
}

CONCURRENT(Join, ManyJoinersSeeOneResult) {
  Scope scope;
  auto shared = here.spawn(scope,
                           []() -> Coro<std::string> {
                             co_await sleep_op(3ms);
                             co_return "once";
                           })
                    .share();
  std::atomic<int> seen{0};
  for (int i = 0; i < 5; ++i) {
    here.spawn(scope, [&, shared]() -> Coro<> {
      const Outcome<std::string>& outcome = (co_await shared.join_op()).get();
      EXPECT_EQ(outcome.value(), "once");
      ++seen;
    });
  }
  co_await scope.joined();
  EXPECT_EQ(seen, 5);
}

CONCURRENT(Join, TimeoutLeavesTheResultForLater) {
  Scope scope;
  auto handle = here.spawn(scope, []() -> Coro<int> {
    co_await sleep_op(10ms);
    co_return 9;
  });
  EXPECT_FALSE((co_await timeout(handle.join_op(), 4ms)).has_value());
  EXPECT_EQ(now(), Instant(4ms));
  EXPECT_EQ((co_await handle.join_op()).value(), 9);
  co_await scope.joined();
}

EVERYWHERE(Join, F2_OutcomesAreThreeWay) {
  Scope scope({.on_failure = OnFailure::isolate});
  auto ok = here.spawn(scope, []() -> Coro<int> { co_return 1; });
  auto bad = here.spawn(scope, []() -> Coro<int> {
    throw std::runtime_error("bad");
    co_return 1;
  });
  EXPECT_TRUE((co_await ok.join_op()).ok());
  const auto failed = co_await bad.join_op();
  EXPECT_TRUE(failed.failed());
  EXPECT_FALSE(failed.cancelled());
  EXPECT_THROW(failed.value(), std::runtime_error);
  scope.cancel();
  auto stopped = here.spawn(scope, []() -> Coro<int> { co_return 1; });
  const auto cancelled = co_await stopped.join_op();
  EXPECT_TRUE(cancelled.cancelled());
  EXPECT_EQ(cancelled.reason(), CancelReason::requested);
  EXPECT_THROW(cancelled.value(), CancelledError);
  co_await scope.joined();
}

TEST(Join, HandlesOutliveScopeAndLoop) {
  JoinHandle<int> handle;
  {
    Loop loop;
    handle = loop.run([] {
      Scope scope;
      return scope.spawn([] { return 11; });
    });
  }
  EXPECT_TRUE(handle.done());
  EXPECT_EQ(handle.join().value(), 11);
}

TEST(Join, FromAPlainThread) {
  Loop loop({.on_deadlock = OnDeadlock::wait});
  Channel<int> work;
  auto handle = loop.spawn([&] { return *work.recv() * 2; });
  std::thread driver([&] { loop.run(); });
  std::thread joiner([&] { EXPECT_EQ(handle.get(), 42); });
  work.send(21);
  joiner.join();
  driver.join();
}

TEST(JoinDeathTest, TakingAResultTwiceIsReported) {
  EXPECT_DEATH(block_on([] {
                 Scope scope;
                 auto handle = scope.spawn([] { return 1; }, {.name = "once"});
                 handle.get();
                 handle.get();
               }),
               "result of task 'once'.*already taken; use share");
}

TEST(Join, UnhandledFailuresAreReported) {
  std::vector<std::string> reports;
  Loop loop({.io = {.on_unhandled = [&](const Task& task, const std::exception_ptr& error) {
               reports.push_back(std::string(task.name()) + ": " + describe(error));
             }}});
  loop.spawn([] { throw std::runtime_error("nobody listens"); }, {.name = "lonely"});
  auto kept = loop.spawn([] { throw std::runtime_error("somebody does"); });
  loop.run();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(reports[0], "lonely: nobody listens");
  EXPECT_TRUE(kept.join().failed());
}

}  // namespace
}  // namespace weft::test

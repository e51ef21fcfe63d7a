#include "support/everywhere.hpp"

#include <atomic>
#include <functional>
#include <stdexcept>
#include <string>

namespace weft::test {
namespace {

EVERYWHERE(Scope, JoinWaitsForChildren) {
  std::atomic<int> done{0};
  Scope scope;
  for (int i = 0; i < 3; ++i) {
    here.spawn(scope, [&, i]() -> Coro<> {
      co_await sleep_op(1ms * i);
      ++done;
    });
  }
  co_await scope.joined();
  EXPECT_EQ(done, 3);
}

CONCURRENT(Scope, F10_FirstErrorCancelsSiblingsAndIsRethrown) {
  bool unwound = false;
  bool later = false;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    struct Note {
      bool& flag;
      ~Note() { flag = true; }
    } note{unwound};
    co_await sleep_op(1h);
    later = true;
  });
  here.spawn(scope, []() -> Coro<> {
    co_await sleep_op(5ms);
    throw std::runtime_error("boom");
  });
  try {
    co_await scope.joined();
    ADD_FAILURE() << "joined() must rethrow";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "boom");
  }
  EXPECT_TRUE(unwound);
  EXPECT_FALSE(later);
  EXPECT_EQ(now(), Instant(5ms)) << "virtual time must not advance to a cancelled deadline";
}

CONCURRENT(Scope, KeepGoingLetsSiblingsFinish) {
  bool finished = false;
  Scope scope({.on_failure = OnFailure::keep_going});
  here.spawn(scope, []() -> Coro<> {
    throw std::runtime_error("first");
    co_return;
  });
  here.spawn(scope, [&]() -> Coro<> {
    co_await sleep_op(5ms);
    finished = true;
  });
  try {
    co_await scope.joined();
    ADD_FAILURE() << "must rethrow";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_TRUE(finished);
}

EVERYWHERE(Scope, F5_CancelIsIdempotentAndGoesDownNotUp) {
  Scope outer;
  {
    Scope inner;
    inner.cancel(CancelReason::requested);
    inner.cancel(CancelReason::killed);
    EXPECT_EQ(inner.cancel_reason(), CancelReason::requested) << "the first reason stays";
    EXPECT_FALSE(outer.cancelled());
    co_await sleep_op(1ms);  // the body is not part of a Scope
  }
  outer.cancel(CancelReason::shutdown);
  Scope late;  // under the task, not under outer
  EXPECT_FALSE(late.cancelled());
}

CONCURRENT(Scope, F5_AChildScopeUnderACancelledParentIsBornCancelled) {
  Scope scope;
  CancelReason seen = CancelReason::none;
  auto handle = here.spawn(scope, [&]() -> Coro<> {
    co_await next_turn();
    try {
      co_await sleep_op(1h);
    } catch (const Cancelled&) {
      Scope born;
      seen = born.cancel_reason();
      throw;
    }
  });
  co_await sleep_op(1ms);
  scope.cancel(CancelReason::requested);
  co_await scope.joined();
  EXPECT_EQ(seen, CancelReason::requested);
  EXPECT_TRUE((co_await handle.join_op()).cancelled());
}

EVERYWHERE(Scope, F5_FinishedChildrenLeaveNothingInALongLivedParent) {
  Scope scope;
  for (int i = 0; i < 1000; ++i) here.spawn(scope, []() -> Coro<> { co_return; });
  if (here.concurrent()) co_await sleep_op(1ms);
  EXPECT_EQ(scope.size(), 0U);
  int children = 0;
  scope.for_each_child([&](const CancelNode&) { ++children; });
  EXPECT_EQ(children, 0);
}

CONCURRENT(Scope, C24_TheNearestDeadlineCounts) {
  Scope outer({.deadline = now() + 10ms});
  auto handle = here.spawn(outer, [&]() -> Coro<> {
    auto longer = co_await within({.deadline = now() + 1h}, [](Scope& s) -> Coro<> {
      EXPECT_EQ(s.deadline(), Instant(10ms));
      co_await sleep_op(2h);
    });
    (void)longer;
    ADD_FAILURE() << "cancellation from outside must pass through within()";
  });
  const auto outcome = co_await handle.join_op();
  EXPECT_EQ(outcome.reason(), CancelReason::timeout);
  EXPECT_EQ(now(), Instant(10ms));
  co_await outer.joined();
}

CONCURRENT(Scope, ADeadlineThatIsNotReachedLeavesNoTimer) {
  auto outcome = co_await within({.deadline = now() + 1h}, [](Scope&) -> Coro<int> {
    co_await sleep_op(1ms);
    co_return 1;
  });
  EXPECT_EQ(outcome.value(), 1);
  co_await sleep_op(1ms);
  EXPECT_EQ(now(), Instant(2ms));
}

CONCURRENT(Scope, F12_TimeoutIsDistinguishable) {
  auto slow = [] {
    return []() -> Coro<int> {
      co_await sleep_op(1h);
      co_return 1;
    };
  };
  auto timed = co_await timeout(5ms, slow());
  EXPECT_EQ(timed.reason(), CancelReason::timeout);
  auto requested = co_await within({}, [&](Scope& s) -> Coro<int> {
    s.cancel();
    co_return co_await slow()();
  });
  EXPECT_EQ(requested.reason(), CancelReason::requested);
  EXPECT_EQ(now(), Instant(5ms));
}

CONCURRENT(Scope, WithinIncludesTheBody) {
  // A failing child interrupts the body's own wait.
  auto outcome = co_await within({}, [&](Scope& s) -> Coro<int> {
    here.spawn(s, []() -> Coro<> {
      co_await sleep_op(2ms);
      throw std::runtime_error("child");
    });
    co_await sleep_op(1h);
    co_return 1;
  });
  EXPECT_TRUE(outcome.failed());
  EXPECT_EQ(describe(outcome.error()), "child");
  EXPECT_EQ(now(), Instant(2ms));
}

CONCURRENT(Scope, WithinWaitsForChildrenAfterTheBodyThrew) {
  bool cleaned = false;
  auto outcome = co_await within({}, [&](Scope& s) -> Coro<> {
    here.spawn(s, [&]() -> Coro<> {
      try {
        co_await sleep_op(1h);
      } catch (const Cancelled& c) {
        EXPECT_EQ(c.reason(), CancelReason::sibling_failed);
        cleaned = true;
        throw;
      }
    });
    co_await all_others_wait();
    throw std::logic_error("body");
  });
  EXPECT_TRUE(cleaned);
  EXPECT_EQ(describe(outcome.error()), "body");
}

CONCURRENT(Scope, ShieldDefersCancellation) {
  Scope scope;
  std::string trace;
  auto handle = here.spawn(scope, [&]() -> Coro<> {
    {
      Shield shield;
      co_await sleep_op(10ms);  // deaf
      trace += "cleaned ";
      auto inner = co_await timeout(5ms, []() -> Coro<> { co_await sleep_op(1h); });
      trace += to_string(inner.reason());  // scopes under a shield still work
    }
    co_await sleep_op(1h);
    trace += " never";
  });
  co_await sleep_op(1ms);
  handle.cancel();
  EXPECT_TRUE((co_await handle.join_op()).cancelled());
  EXPECT_EQ(trace, "cleaned timeout");
  EXPECT_EQ(now(), Instant(15ms));
  co_await scope.joined();
}

TEST(Scope, TheDestructorJoinsAndRethrows) {
  Loop loop({.kernel = make_virtual_kernel()});
  bool done = false;
  EXPECT_THROW(loop.run([&] {
    Scope scope({.on_failure = OnFailure::keep_going});
    scope.spawn([&] {
      sleep(3ms);
      done = true;
    });
    scope.spawn([] { throw std::runtime_error("x"); });
  }),
               std::runtime_error);
  EXPECT_TRUE(done);
}

TEST(Scope, LeavingByAnExceptionCancelsTheChildrenAndKeepsThatException) {
  Loop loop({.kernel = make_virtual_kernel()});
  std::string what;
  loop.run([&] {
    try {
      Scope scope;
      scope.spawn([] { sleep(1h); });
      yield();
      throw std::runtime_error("mine");
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
  });
  EXPECT_EQ(what, "mine");
  EXPECT_EQ(loop.now(), Instant{});
}

TEST(Scope, OutsideOfTasksAnIoMustBeNamed) {
  EXPECT_THROW(Scope{}, std::logic_error);
  Loop loop;
  Scope scope(loop);
  auto handle = scope.spawn([] { return 5; });
  loop.run();
  EXPECT_EQ(handle.get(), 5);
}

TEST(Scope, ADeepTreeIsCancelledWithoutRecursion) {
  const auto depth = static_cast<int>(fibers_at_once(scaled(1'000, 20'000, 20'000)));
  Loop loop({.io = {.stack_size = 32 << 10}, .kernel = make_virtual_kernel()});
  int unwound = 0;
  loop.run([&] {
    Scope top;
    std::function<void(int)> grow = [&](int left) {
      if (left == 0) return sleep(1h);
      struct Count {
        int& n;
        ~Count() { ++n; }
      } count{unwound};
      Scope scope;
      scope.spawn([&, left] { grow(left - 1); });
      scope.join();
    };
    top.spawn([&] { grow(depth); });
    sleep(1ms);
    top.cancel();
  });
  EXPECT_EQ(unwound, depth);
}

}  // namespace
}  // namespace weft::test

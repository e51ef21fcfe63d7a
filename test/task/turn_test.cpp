// Whoever joins a task that has not begun gives it its turn (Worker::give_turn_to), and coroutines
// that yield go straight on with the next one. Nobody may notice more than the order.
#include "support/everywhere.hpp"

#include <array>
#include <atomic>
#include <cfenv>
#include <cstdint>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>

namespace weft::test {
namespace {

/// On a loop, and on a pool of one: nobody steals there.
template <class F>
void on_both(F body) {
  Loop loop;
  loop.run(body);
  Pool pool({.workers = 1, .report_stuck_after = Duration::zero(), .most_spares = 0});
  pool.run(body);
}

/// How often the task named "joiner" has been in each state.
class Counts final : public Observer {
 public:
  void on_edge(const Task& task, TaskState, TaskState to) noexcept override {
    if (task.name() == "joiner") ++times_[static_cast<std::size_t>(to)];
  }
  [[nodiscard]] int times(TaskState state) const { return times_[static_cast<std::size_t>(state)]; }

 private:
  std::array<int, 5> times_{};
};

/// Runs `joiner`, which joins twenty tasks and may wait for two.
template <class F>
void expect_turns(F joiner) {
  Counts on_loop;
  Loop loop;
  loop.observe(&on_loop);
  loop.spawn(joiner, {.name = "joiner"});
  loop.run();
  EXPECT_LE(on_loop.times(TaskState::blocked), 2);
  EXPECT_GE(on_loop.times(TaskState::ready), 20);

  Counts on_pool;
  Pool pool({.workers = 1, .report_stuck_after = Duration::zero(), .most_spares = 0});
  pool.observe(&on_pool);
  pool.spawn(joiner, {.name = "joiner"});
  pool.run();
  EXPECT_LE(on_pool.times(TaskState::blocked), 2);
  EXPECT_GE(on_pool.times(TaskState::ready), 20);
}

TEST(Turn, C20_WhoJoinsATaskThatHasNotBegunNeedNotWait) {
  expect_turns([] {
    Scope scope;
    scope.spawn([]() -> Coro<> { co_return; }).get();  // now there is a runner,
    scope.spawn([] {}).get();                          // and a warm fiber
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(scope.spawn([i] { return i; }).get(), i);
      EXPECT_EQ(scope.spawn([i]() -> Coro<int> { co_return i; }).get(), i);
    }
    EXPECT_EQ(scope.size(), 0U);
  });
}

TEST(Turn, C20_NorNeedACoroutine) {
  expect_turns([]() -> Coro<> {
    Scope scope;
    for (int i = 0; i < 20; ++i) {
      auto child = scope.spawn([i]() -> Coro<int> { co_return i; });
      const Outcome<int> end = co_await child.join_op();
      EXPECT_EQ(end.value(), i);
    }
    co_await scope.joined();
  });
}

// The turn was given in vain: the child waits, fails, or is cancelled before it begins.
TEST(Turn, S5_ACoroutineThatGaveItsTurnWaitsIfItMust) {
  on_both([]() -> Coro<> {
    Scope scope({.on_failure = OnFailure::isolate});
    auto waits = scope.spawn([]() -> Coro<int> {
      co_await sleep_op(1ms);
      co_return 1;
    });
    const Outcome<int> one = co_await waits.join_op();
    EXPECT_EQ(one.value(), 1);
    auto yields = scope.spawn([]() -> Coro<int> {
      for (int i = 0; i < 1000; ++i) co_await next_turn();
      co_return 2;
    });
    const Outcome<int> two = co_await yields.join_op();
    EXPECT_EQ(two.value(), 2);
    auto fails = scope.spawn([]() -> Coro<int> {
      throw std::runtime_error("as planned");
      co_return 3;
    });
    const Outcome<int> three = co_await fails.join_op();
    EXPECT_TRUE(three.failed());
    auto never = scope.spawn([]() -> Coro<int> { co_return 4; });
    never.cancel();
    const Outcome<int> four = co_await never.join_op();
    EXPECT_TRUE(four.cancelled());
    co_await scope.joined();
  });
}

// While it has given its turn it can be cancelled like anybody who is ready: it takes nothing then.
TEST(Turn, S6_ACoroutineIsCancelledByWhomItGaveItsTurn) {
  on_both([]() -> Coro<> {
    Scope scope;
    bool went_on = false;
    JoinHandle<int> child;
    auto joiner = scope.spawn([&]() -> Coro<> {
      Scope inner;
      child = inner.spawn([me = this_task()]() -> Coro<int> {
        me->cancel_tree(CancelReason::killed);
        co_return 7;
      });
      static_cast<void>(co_await child.join_op());
      went_on = true;
    });
    const Outcome<void> end = co_await joiner.join_op();
    EXPECT_TRUE(end.cancelled());
    EXPECT_FALSE(went_on);
    EXPECT_TRUE(child.done());
    const Outcome<int> kept = co_await child.join_op();
    EXPECT_EQ(kept.value(), 7);
    co_await scope.joined();
  });
}

TEST(Turn, T2_OnALoopItOvertakesNobody) {
  Loop loop;
  std::string order;
  loop.run([&] {
    Scope scope;
    scope.spawn([] {}).get();
    auto a = scope.spawn([&] { order += 'a'; });
    auto b = scope.spawn([&] { order += 'b'; });
    a.get();
    order += 'p';
    b.get();
    auto d = scope.spawn([&] { order += 'd'; });
    auto e = scope.spawn([&] { order += 'e'; });
    e.get();
    order += 'p';
  });
  EXPECT_EQ(order, "abpdep");
}

TEST(Turn, F2_FibersThatAreUsedAgainHaveNoExceptionsOfOthers) {
  on_both([] {
    Scope scope;
    for (int i = 0; i < 3; ++i) {
      try {
        throw std::runtime_error("the joiner's");
      } catch (...) {
        scope
            .spawn([&] {
              EXPECT_EQ(std::current_exception(), nullptr);
              EXPECT_EQ(std::uncaught_exceptions(), 0);
              try {
                throw std::logic_error("the child's");
              } catch (const std::logic_error&) {
                sleep(1us);  // leaves its stack within the handler
              }
            })
            .get();
        EXPECT_EQ(describe(std::current_exception()), "the joiner's");
      }
      auto fails = scope.spawn([] { throw std::runtime_error("on purpose"); }, {.isolated = true});
      EXPECT_THROW(fails.get(), std::runtime_error);
    }
  });
}

TEST(Turn, C1_FibersThatAreUsedAgainHaveNoRoundingOfOthers) {
  on_both([] {
    Scope scope;
    for (const bool keep : {false, true, false}) {
      std::fesetround(FE_UPWARD);
      scope
          .spawn(
              [&] {
                EXPECT_EQ(std::fegetround(), FE_TONEAREST);
                std::fesetround(FE_DOWNWARD);
                yield();
                EXPECT_EQ(std::fegetround(), FE_DOWNWARD);
              },
              {.keep_float_control = keep})
          .get();
      EXPECT_EQ(std::fegetround(), FE_UPWARD);
      std::fesetround(FE_TONEAREST);
      auto child = scope.spawn([]() -> Coro<> {
        EXPECT_EQ(std::fegetround(), FE_TONEAREST);
        std::fesetround(FE_DOWNWARD);
        co_await next_turn();
        EXPECT_EQ(std::fegetround(), FE_TONEAREST) << "a coroutine keeps none";
      });
      child.get();
      EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    }
  });
}

#if defined(__x86_64__)
// By intrinsics, which leave the other control word alone.
TEST(Turn, C1_NorOneThatTheyWereToldToKeep) {
  on_both([] {
    Scope scope;
    const unsigned normal = __builtin_ia32_stmxcsr();
    constexpr unsigned flush_to_zero = 0x8000;
    for (int i = 0; i < 3; ++i) {
      scope
          .spawn([&] { __builtin_ia32_ldmxcsr(normal | flush_to_zero); },
                 {.keep_float_control = true})
          .get();
      EXPECT_EQ(__builtin_ia32_stmxcsr(), normal);
      scope.spawn([&] { EXPECT_EQ(__builtin_ia32_stmxcsr(), normal); }).get();
    }
  });
}
#endif

// The joiner is not held up by a child that does not stop, or by whatever that waits for.
TEST(Turn, S6_ACancelledJoinerUnwindsWhileTheChildIsShielded) {
  Loop loop({.kernel = make_virtual_kernel()});
  loop.run([] {
    Scope scope;
    Mutex mutex;
    std::string seen;
    auto joiner = scope.spawn([&] {
      Scope inner;
      inner.spawn([] {}).get();
      const auto guard = mutex.lock();
      auto child = inner.spawn([&] {
        try {
          sleep(1h);
        } catch (const Cancelled&) {
          const Shield shield;
          const auto cleaning = mutex.lock();
          seen += " child";
          throw;
        }
      });
      try {
        child.get();
        seen += "never";
      } catch (const Cancelled&) {
        seen += "joiner";
        throw;
      }
    });
    sleep(1ms);
    joiner.cancel();
    EXPECT_TRUE(joiner.join().cancelled());
    EXPECT_EQ(seen, "joiner child");
    EXPECT_EQ(now() - Instant{}, Duration(1ms));
  });
}

// It has the child's worker's next turn, but others take it if that is long in coming; also if they
// have something to do.
TEST(Turn, S6_ACancelledJoinerUnwindsWhileTheChildComputes) {
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero(), .most_spares = 0});
  std::atomic<bool> begun{false};
  std::atomic<bool> unwound{false};
  for (int i = 0; i < 4; ++i) {
    pool.spawn([&] {
      while (!unwound.load()) yield();
    });
  }
  auto joiner = pool.spawn([&] {
    Scope scope;
    scope.spawn([] {}).get();
    auto child = scope.spawn([&] {
      begun.store(true);
      while (!unwound.load()) std::this_thread::yield();
    });
    try {
      child.get();
    } catch (const Cancelled&) {
      unwound.store(true);
      throw;
    }
  });
  while (!begun.load()) std::this_thread::yield();
  joiner.cancel();
  pool.run();
  EXPECT_TRUE(unwound.load());
}

TEST(Turn, S4_AHandleMayGoWhileItIsJoined) {
  on_both([] {
    Scope scope;
    scope.spawn([] {}).get();
    std::map<int, JoinHandle<int>> handles;
    handles.emplace(1, scope.spawn([&] {
      handles.clear();
      return 7;
    }));
    EXPECT_EQ(handles.at(1).join().value(), 7);
  });
}

TEST(Turn, T23_AnUrgentTaskIsNotStarvedByOneThatSpawnsAndJoins) {
  Pool pool({.workers = 1, .report_stuck_after = Duration::zero(), .most_spares = 0});
  std::atomic<int> rounds{0};
  pool.run([&] {
    Scope scope;
    scope.spawn(
        [&] {
          while (rounds.fetch_add(1) < 20) sleep(1us);
        },
        {.priority = priority::urgent});
    Scope inner;
    while (rounds.load() < 20) inner.spawn([] {}).get();
  });
  EXPECT_GE(rounds.load(), 20);
}

TEST(Turn, C19_WhoIsToRunOnOneWorkerStaysThere) {
  Pool pool({.workers = 2, .report_stuck_after = Duration::zero(), .most_spares = 0});
  std::atomic<std::size_t> elsewhere{0};
  std::atomic<bool> stop{false};
  pool.run([&] {
    Scope scope;
    scope.spawn([&] {
      while (!stop.load()) yield();
    });
    scope
        .spawn(
            [&] {
              Scope inner;
              const std::thread::id here = std::this_thread::get_id();
              for (int i = 0; i < 200; ++i) {
                inner.spawn([] { yield(); }).get();
                if (std::this_thread::get_id() != here) elsewhere.fetch_add(1);
              }
            },
            {.worker = 1})
        .get();
    stop.store(true);
  });
  EXPECT_LE(elsewhere.load(), 20U);  // unless it is stuck: soft affinity
}

// The same among coroutines, which are taken up by other workers while they give their turn.
TEST(Turn, C1_ManyCoroutinesThatJoinOnManyWorkers) {
  Pool pool({.workers = 4, .report_stuck_after = Duration::zero()});
  std::atomic<std::size_t> sum{0};
  const std::size_t rounds = scaled(50, 400, 4'000);
  pool.run([&]() -> Coro<> {
    Scope scope;
    for (std::size_t t = 0; t < 16; ++t) {
      scope.spawn([&, t]() -> Coro<> {
        const std::uint64_t me = this_task()->tid();
        Scope inner;
        for (std::size_t i = 0; i < rounds; ++i) {
          auto first = inner.spawn([&, i]() -> Coro<std::uint64_t> {
            if (i % 5 == 0) co_await next_turn();
            if (i % 7 == 0) co_await sleep_op(1us);
            sum.fetch_add(1);
            co_return this_task()->tid();
          });
          auto second = inner.spawn([&] {
            sum.fetch_add(1);
            return this_task()->tid();
          });
          auto& before = (i + t) % 2 == 0 ? first : second;
          auto& behind = (i + t) % 2 == 0 ? second : first;
          const Outcome<std::uint64_t> one = co_await before.join_op();
          const Outcome<std::uint64_t> two = co_await behind.join_op();
          EXPECT_EQ(one.value(), before.tid());
          EXPECT_EQ(two.value(), behind.tid());
          EXPECT_EQ(this_task()->tid(), me);
        }
        co_await inner.joined();
      });
    }
    co_await scope.joined();
  });
  EXPECT_EQ(sum.load(), 16 * rounds * 2);
}

// Children that yield, sleep, end at once, or are joined in another order, on several workers.
TEST(Turn, C1_ManyJoinersOnManyWorkers) {
  Pool pool({.workers = 4, .report_stuck_after = Duration::zero()});
  std::atomic<std::size_t> sum{0};
  const std::size_t rounds = scaled(50, 400, 4'000);
  pool.run([&] {
    Scope scope;
    for (std::size_t t = 0; t < 16; ++t) {
      scope.spawn([&, t] {
        for (std::size_t i = 0; i < rounds; ++i) {
          Scope inner;
          auto first = inner.spawn([&, i] {
            if (i % 3 == 0) yield();
            sum.fetch_add(1);
            return this_task()->tid();
          });
          auto second = inner.spawn([&, i]() -> Coro<std::uint64_t> {
            if (i % 5 == 0) co_await next_turn();
            if (i % 7 == 0) co_await sleep_op(1us);
            sum.fetch_add(1);
            co_return this_task()->tid();
          });
          const std::uint64_t me = this_task()->tid();
          if ((i + t) % 2 == 0) {
            EXPECT_EQ(second.get(), second.tid());
            EXPECT_EQ(first.get(), first.tid());
          } else {
            EXPECT_EQ(first.get(), first.tid());
            EXPECT_EQ(second.get(), second.tid());
          }
          EXPECT_EQ(this_task()->tid(), me);
        }
      });
    }
  });
  EXPECT_EQ(sum.load(), 16 * rounds * 2);
}

ONE_AFTER_ANOTHER(Turn, T13_ThoseThatYieldTakeTurns) {
  std::string order;
  Scope scope;
  for (const char name : {'a', 'b', 'c'}) {
    here.spawn(scope, [&order, name]() -> Coro<> {
      for (int i = 0; i < 3; ++i) {
        order += name;
        co_await next_turn();
      }
    });
  }
  co_await scope.joined();
  EXPECT_EQ(order, "abcabcabc");
}

// Also where a transfer is a call (without optimisation), and a frame is large.
TEST(Turn, F16_YieldsUseNoStack) {
  on_both([] {
    Scope scope;
    for (const std::size_t tasks : {1U, 3U}) {
      for (std::size_t t = 0; t < tasks; ++t) {
        scope.spawn([]() -> Coro<> {
          std::array<std::string, 16> parts;
          for (std::size_t i = 0; i < 3'000; ++i) {
            parts[i % parts.size()] = std::to_string(i) + "," + std::to_string(i + 1);
            co_await next_turn();
          }
        });
      }
      scope.join();
    }
  });
}

}  // namespace
}  // namespace weft::test

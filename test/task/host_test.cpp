// Tasks that run on the stack of whoever waits for them (Worker::host). All that they and their
// hosts see must be as if each had a stack of its own.
#include <weft/task/dump.hpp>
#include <weft/task/local.hpp>

#include "support/everywhere.hpp"

#include <atomic>
#include <cfenv>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace weft::test {
namespace {

/// Where the caller's frame is.
[[gnu::noinline]] std::uintptr_t here_on_stack() {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}
bool near(std::uintptr_t a, std::uintptr_t b) {
  return (a > b ? a - b : b - a) < 4096;
}

/// On a loop, and on a pool of one: nobody steals there.
template <class F>
void on_both(F body) {
  Loop loop;
  loop.run(body);
  Pool pool({.workers = 1, .report_stuck_after = Duration::zero(), .most_spares = 0});
  pool.run(body);
}

TEST(Host, C20_AChildThatHasNotBegunRunsOnTheStackOfWhoeverJoinsIt) {
  on_both([] {
    Scope scope;
    const std::uintptr_t mine = here_on_stack();
    const std::uint64_t tid = this_task()->tid();
    std::uint64_t others = 0;
    const auto child = [&] {
      others = this_task()->tid();
      return here_on_stack();
    };
    EXPECT_TRUE(near(scope.spawn(child).get(), mine));
    EXPECT_NE(others, tid) << "but as a task of its own";
    EXPECT_EQ(this_task()->tid(), tid);
    EXPECT_EQ(scope.size(), 0U);
    auto co_child = scope.spawn([&]() -> Coro<std::uintptr_t> { co_return here_on_stack(); });
    EXPECT_TRUE(near(co_child.get(), mine));
    auto has_begun = scope.spawn([&] {
      yield();
      return here_on_stack();
    });
    yield();
    EXPECT_FALSE(near(has_begun.get(), mine));
  });
}

TEST(Host, C20_NotIfItWouldChangeTheOrderOnALoop) {
  Loop loop;
  std::string order;
  loop.run([&] {
    Scope scope;
    auto a = scope.spawn([&] {
      order += 'a';
      scope.spawn([&] { order += 'c'; });
    });
    auto b = scope.spawn([&] { order += 'b'; });
    a.get();
    order += 'p';
    b.get();
    auto d = scope.spawn([&] { order += 'd'; });
    auto e = scope.spawn([&] { order += 'e'; });
    e.get();
    order += 'p';
  });
  EXPECT_EQ(order, "abcpdep");
}

TEST(Host, F2_EachHasItsOwnExceptions) {
  on_both([] {
    Scope scope;
    try {
      throw std::runtime_error("the host's");
    } catch (...) {
      bool any = true;
      int uncaught = -1;
      scope
          .spawn([&] {
            any = std::current_exception() != nullptr;
            uncaught = std::uncaught_exceptions();
            try {
              throw std::logic_error("the child's");
            } catch (const std::logic_error&) {
              sleep(1us);  // and leaves the stack within the handler
            }
          })
          .get();
      EXPECT_FALSE(any);
      EXPECT_EQ(uncaught, 0);
      EXPECT_EQ(describe(std::current_exception()), "the host's");
    }
    auto fails = scope.spawn([] { throw std::runtime_error("on purpose"); }, {.isolated = true});
    EXPECT_THROW(fails.get(), std::runtime_error);

    struct Joins {
      Scope& scope;
      int& uncaught;
      ~Joins() {
        scope.spawn([this] { uncaught = std::uncaught_exceptions(); }).get();
        EXPECT_EQ(std::uncaught_exceptions(), 1);
      }
    };
    int uncaught = -1;
    try {
      const Joins joins{scope, uncaught};
      throw std::runtime_error("on the way");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(uncaught, 0);
  });
}

TEST(Host, C1_EachHasItsOwnRounding) {
  on_both([] {
    Scope scope;
    int childs = -1;
    std::fesetround(FE_UPWARD);
    scope.spawn([&] { childs = std::fegetround(); }).get();
    EXPECT_EQ(std::fegetround(), FE_UPWARD);
    EXPECT_EQ(childs, FE_TONEAREST);
    std::fesetround(FE_TONEAREST);
    scope.spawn([&] { std::fesetround(FE_DOWNWARD); }).get();
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
    scope
        .spawn([]() -> Coro<> {
          std::fesetround(FE_DOWNWARD);
          co_return;
        })
        .get();
    EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  });
}

TEST(Host, S3_EachHasItsOwnLocals) {
  static TaskLocal<int> local;
  on_both([] {
    Scope scope;
    const Bind outer(local, 1);
    scope
        .spawn([] {
          EXPECT_EQ(*local.get(), 1);
          const Bind inner(local, 2);
          sleep(1us);
          EXPECT_EQ(*local.get(), 2);
        })
        .get();
    EXPECT_EQ(*local.get(), 1);
  });
}

TEST(Host, S6_WhoIsCancelledWhileItHostsIsCancelledAndNotToldOfIt) {
  Loop loop({.kernel = make_virtual_kernel()});
  loop.run([] {
    Scope scope;
    std::string seen;
    auto host = scope.spawn([&] {
      Scope inner;
      auto child = inner.spawn([&] {
        try {
          sleep(1h);
        } catch (const Cancelled&) {
          seen += "child ";
          throw;
        }
      });
      try {
        child.get();
        seen += "never";
      } catch (const Cancelled&) {
        seen += "host";
        throw;
      }
    });
    sleep(1ms);
    host.cancel();
    EXPECT_TRUE(host.join().cancelled());
    EXPECT_EQ(seen, "child host");
    EXPECT_EQ(now() - Instant{}, Duration(1ms));
  });
}

// It is not cancelled with the one that waits, so it must not hold it up.
TEST(Host, F12_WhatIsNotCancelledWithItsJoinerHasAStackOfItsOwn) {
  for (const bool coroutine : {false, true}) {
    Loop loop({.kernel = make_virtual_kernel()});
    loop.run([&] {
      Scope outside;
      const auto join = [&](auto child) {
        const Outcome<void> o = timeout(1s, [&] { child.get(); });
        EXPECT_TRUE(o.cancelled());
        EXPECT_EQ(now() - Instant{}, Duration(1s));
        child.cancel();
      };
      if (coroutine) {
        join(outside.spawn([]() -> Coro<> { co_await sleep_op(1h); }));
      } else {
        join(outside.spawn([] { sleep(1h); }));
      }
    });
  }
}

TEST(Host, C2_NestedAsDeepAsOneLikes) {
  static constexpr int depth = 3'000;
  struct Nest {
    static int descend(int n) {
      if (n == 0) return 0;
      Scope scope;
      return scope.spawn([n] { return descend(n - 1); }).get() + 1;
    }
    static Coro<int> co_descend(int n) {
      if (n == 0) co_return 0;
      Scope scope;
      auto child = scope.spawn(co_descend(n - 1));
      const int below = (co_await child.join_op()).value();
      co_await scope.joined();
      co_return below + 1;
    }
  };
  on_both([] {
    EXPECT_EQ(Nest::descend(depth), depth);
    EXPECT_EQ(await(Nest::co_descend(depth)), depth);
    Scope scope;
    EXPECT_EQ(scope.spawn(Nest::co_descend(depth)).get(), depth);
  });
}

// A hosted task needs the stack it was promised.
TEST(Host, C2_HasAlmostAWholeStack) {
  on_both([] {
    Scope scope;
    std::size_t left = 0;
    struct Deep {
      [[gnu::noinline]] static void dig(int n, Scope& into, std::size_t& left) {
        volatile char room[1024];
        room[0] = 0;
        if (n > 0) {
          dig(n - 1, into, left);
        } else {
          into.spawn([&] {
                const stack::Stack& stack = this_task()->fiber()->stack();
                left = here_on_stack() - reinterpret_cast<std::uintptr_t>(stack.bottom());
                EXPECT_GT(left, stack.size() / 16 * 14);
              })
              .get();
        }
        room[1] = room[0];
      }
    };
    for (const int n : {0, 10, 20, 60, 100}) Deep::dig(n, scope, left);
    EXPECT_GT(left, 0U);
  });
}

TEST(Host, B6_DumpsShowWhoWaitsAndWhoRuns) {
  Loop loop;
  std::string text;
  loop.run([&] {
    Scope scope;
    scope.spawn([&] { text = dump(this_io()); }, {.name = "the child"}).get();
  });
  EXPECT_NE(text.find("blocked: join"), std::string::npos) << text;
  EXPECT_NE(text.find("the child"), std::string::npos) << text;
}

// A coroutine that waits in a destructor keeps the stack it is on, here that of its host.
TEST(Host, S6_AHostedCoroutineMayWaitInADestructor) {
  Loop loop({.kernel = make_virtual_kernel()});
  loop.run([] {
    Scope scope;
    std::string seen;
    auto child = scope.spawn(
        [&]() -> Coro<> {
          Scope inner;
          inner.spawn([&]() -> Coro<> {
            const Shield shield;
            co_await sleep_op(1s);
            seen += "grandchild ";
          });
          co_await next_turn();
          throw std::runtime_error("on purpose");
        },
        {.isolated = true});
    EXPECT_TRUE(child.join().failed());
    seen += "host";
    EXPECT_EQ(seen, "grandchild host");
  });
}

// Children that yield, sleep, end at once, or are joined in another order, on several workers.
TEST(Host, C1_ManyHostsOnManyWorkers) {
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

// Yields of coroutines that go straight on with the next one.
ONE_AFTER_ANOTHER(Host, T13_CoroutinesThatYieldTakeTurns) {
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

}  // namespace
}  // namespace weft::test

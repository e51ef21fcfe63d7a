// T23: priorities.
#include <weft/sched/ranked_queue.hpp>

#include "support/everywhere.hpp"

#include <array>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

namespace weft::test {
namespace {

using Order = std::vector<int>;

TEST(Priority, T23_TheHighestRunsFirstAndEqualsTakeTurns) {
  Loop loop({.kernel = make_virtual_kernel()});
  Order order;
  const int priorities[] = {128, 0, 255, 128, 64, 255, 0, 129, 192};
  int number = 0;
  for (const int p : priorities) {
    loop.spawn([&order, id = p * 100 + number] { order.push_back(id); },
               {.priority = static_cast<std::uint8_t>(p)});
    ++number;
  }
  loop.run();
  EXPECT_EQ(order, (Order{25502, 25505, 19208, 12907, 12800, 12803, 6404, 1, 6}));
}

// A yield lets others run, but nobody who is less urgent.
TEST(Priority, T23_AYieldDoesNotLetTheLessUrgentIn) {
  for (const bool coroutine : {false, true}) {
    Loop loop({.kernel = make_virtual_kernel()});
    Order order;
    const auto start = [&](int id, std::uint8_t priority) {
      const auto steps = [&order, id]() -> Coro<> {
        for (int i = 0; i < 3; ++i) {
          order.push_back(id);
          co_await next_turn();
        }
      };
      if (coroutine) {
        loop.spawn(steps, {.priority = priority});
      } else {
        loop.spawn([steps] { await(steps()); }, {.priority = priority});
      }
    };
    start(1, 100);
    start(2, 200);
    start(3, 200);
    start(4, 100);
    loop.run();
    EXPECT_EQ(order, (Order{2, 3, 2, 3, 2, 3, 1, 4, 1, 4, 1, 4}));
  }
}

TEST(Priority, T23_AWokenTaskGoesBeforeTheLessUrgent) {
  Loop loop({.kernel = make_virtual_kernel()});
  Order order;
  Channel<int> channel(0);
  loop.spawn(
      [&] {
        static_cast<void>(channel.recv());
        order.push_back(1);
      },
      {.priority = priority::urgent});
  loop.spawn([&] {
    for (int i = 0; i < 3; ++i) loop.spawn([&] { order.push_back(2); });
    static_cast<void>(channel.send(0));
    order.push_back(3);
  });
  loop.run();
  EXPECT_EQ(order, (Order{3, 1, 2, 2, 2}));
}

// Tasks that were there before anybody had a priority, and tasks of other threads.
TEST(Priority, T23_ALoopThatHadNoPrioritiesSoFar) {
  Loop loop;
  Order order;
  loop.run([&] {
    for (int i = 0; i < 3; ++i) loop.spawn([&, i] { order.push_back(i); });
    std::thread([&] {
      loop.spawn([&] { order.push_back(10); }, {.priority = 1});
      loop.spawn([&] { order.push_back(11); }, {.priority = 201});
      loop.spawn([&] { order.push_back(12); });
    }).join();
    loop.spawn([&] { order.push_back(20); }, {.priority = 200});
    yield();
  });
  EXPECT_EQ(order.size(), 7U);
  const auto place = [&](int id) { return std::ranges::find(order, id) - order.begin(); };
  EXPECT_EQ(place(20), 0);
  EXPECT_EQ(place(10), 6);
  EXPECT_LT(place(0), place(1));
  EXPECT_LT(place(1), place(2));
  EXPECT_LT(place(2), place(12));
}

// One worker that is busy while others become ready.
TEST(Priority, T23_APoolsWorkerTakesTheMostUrgent) {
  Pool pool({.workers = 1, .report_stuck_after = Duration::zero(), .most_spares = 0});
  Order order;
  pool.run([&] {
    Scope scope;
    const auto add = [&](int id, std::uint8_t priority) {
      scope.spawn([&order, id] { order.push_back(id); }, {.priority = priority});
    };
    add(1, 10);
    add(2, 128);
    add(3, 250);
    add(4, 200);
    add(5, 250);
    add(6, 10);
    add(7, 20);
    std::thread([&] { pool.spawn([&] { order.push_back(8); }); }).join();
    scope.join();
  });
  // 2 and 8 are both normal, by different ways.
  ASSERT_EQ(order.size(), 8U);
  EXPECT_EQ((Order{order[0], order[1], order[2]}), (Order{3, 5, 4}));
  EXPECT_EQ((Order{order[5], order[6], order[7]}), (Order{7, 1, 6}));
}

// A yielding urgent task keeps its worker; the rest still gets everything done on the others, and
// nothing is stranded.
TEST(Priority, T23_NothingIsLostAmongManyWorkers) {
  for (const std::size_t workers : {1U, 2U, 4U, 64U}) {
    Pool pool({.workers = workers});
    const int count = static_cast<int>(scaled(500, 5'000, 200'000));
    std::atomic<int> ran{0};
    pool.run([&] {
      Scope scope;
      Rng rng(workers);
      Channel<int> channel(8);
      for (int i = 0; i < count; ++i) {
        const auto priority = static_cast<std::uint8_t>(rng.below(256));
        switch (rng.below(3)) {
          case 0:
            scope.spawn([&] { ++ran; }, {.priority = priority});
            break;
          case 1:
            scope.spawn(
                [&]() -> Coro<> {
                  co_await next_turn();
                  ++ran;
                },
                {.priority = priority});
            break;
          default:
            scope.spawn(
                [&] {
                  static_cast<void>(channel.send(1));
                  yield();
                  static_cast<void>(channel.recv());
                  ++ran;
                },
                {.priority = priority});
        }
      }
      scope.join();
    });
    EXPECT_EQ(ran, count) << workers;
    EXPECT_EQ(pool.live(), 0U);
  }
}

// One worker computes; the other, asleep, is woken for what has yielded there. Again and again, as
// the first may have been woken itself, and must not count as searching while it computes.
TEST(Priority, T23_WhatYieldedIsNotLeftBehind) {
  const auto rounds = scaled(20, 50, 1'000);
  for (std::size_t round = 0; round < 3 * rounds; ++round) {
    constexpr std::array priorities{priority::background, priority::normal, priority::urgent};
    Pool pool({.workers = 2});
    std::atomic<bool> back{false};
    pool.run([&] {
      Scope scope;
      scope.spawn(
          [&] {
            scope.spawn([&] {
              while (!back) {  // computes, and would for ever
              }
            });
            yield();
            back = true;
          },
          {.priority = priorities[round % priorities.size()]});
      scope.join();
    });
    EXPECT_TRUE(back);
  }
}

TEST(Priority, T23_AForkHasItsTasksPriority) {
  Loop loop({.kernel = make_virtual_kernel()});
  int seen = -1;
  loop.spawn(
      [&] {
        Fork fork([&] { seen = this_task()->priority(); });
        sleep(std::chrono::milliseconds(1));  // so it becomes a task
        fork.get();
      },
      {.priority = 77});
  loop.run();
  EXPECT_EQ(seen, 77);
}

}  // namespace
}  // namespace weft::test

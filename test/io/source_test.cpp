// The latch of a descriptor, rule by rule, on one thread and on descriptors that are in memory
// only. source_stress_test.cpp is the same on several threads, and test/model/source.pml small
// enough to look at every interleaving.
#include <weft/io/source.hpp>

#include "support/everywhere.hpp"
#include "support/memory_world.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

using namespace weft;
using namespace weft::test;

namespace {

/// A world with one descriptor.
struct SourceTest : testing::Test {
  const std::int64_t allocations = live_allocations();
  std::shared_ptr<MemoryWorld> world = std::make_shared<MemoryWorld>();
  Fd fd = world->make(Source::Kind::pipe);
  const int number = fd.number();

  void TearDown() override {
    fd = Fd();
    EXPECT_EQ(world->wrong_calls(), 0U);
    EXPECT_EQ(world->open(), 0U);
    EXPECT_EQ(world.use_count(), 1) << "a source is left";
    world.reset();
    EXPECT_EQ(live_allocations(), allocations) << "something was allocated and not freed";
  }
  [[nodiscard]] std::unique_ptr<Loop> make_loop() const {
    return std::make_unique<Loop>(
        LoopOptions{.kernel = world->make_kernel(), .on_deadlock = OnDeadlock::wait});
  }
};

int error_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& e) {
    return e.code().value();
  } catch (...) {
    return -1;
  }
}

/// A reader as a task, and what became of it.
struct Reading {
  std::optional<std::size_t> got;
  int error = 0;
  bool over = false;
  JoinHandle<void> task;
};

/// `read` is called in a task; it gives what it got.
template <class Read>
std::unique_ptr<Reading> start(Loop& loop, Read read) {
  auto reading = std::make_unique<Reading>();
  reading->task = loop.spawn([r = reading.get(), read = std::move(read)]() mutable {
    try {
      r->got = read();
    } catch (const std::exception&) {
      r->error = error_of(std::current_exception());
    }
    r->over = true;
  });
  return reading;
}

auto start_read(Loop& loop, const Fd& fd, std::size_t size) {
  return start(loop, [&fd, size] {
    std::array<std::byte, 16> buffer;
    return fd.read(Bytes(buffer).first(size));
  });
}

TEST_F(SourceTest, T16_AChangeWakesOneInOrder) {
  auto loop = make_loop();
  std::vector<std::unique_ptr<Reading>> readers;
  for (int i = 0; i < 4; ++i) readers.push_back(start_read(*loop, fd, 4));
  loop->run_until_idle();
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t before = world->reads();
    world->supply(number, 1);
    loop->run_until_idle();
    for (std::size_t k = 0; k < 4; ++k) EXPECT_EQ(readers[k]->over, k <= i);
    EXPECT_EQ(world->reads(), before + 1);  // a short read: nobody else need try
  }
}

TEST_F(SourceTest, T16_WhatOneLeavesIsPassedOn) {
  auto loop = make_loop();
  std::vector<std::unique_ptr<Reading>> readers;
  for (int i = 0; i < 4; ++i) readers.push_back(start_read(*loop, fd, 1));
  loop->run_until_idle();
  world->supply(number, 3);  // one change
  loop->run_until_idle();
  EXPECT_EQ(world->bytes(number), 0U);
  world->supply(number, 1);
  loop->run_until_idle();
  for (const auto& reader : readers) EXPECT_EQ(reader->got, 1U);
}

TEST_F(SourceTest, T16_WhatComesDuringACallIsNotUsedUpByIt) {
  auto loop = make_loop();
  // Between a call and what is concluded from it a byte comes, and is reported.
  auto supply_during_read = [&] {
    world->during_read = [&] {
      world->during_read = {};
      world->supply(number, 1);
      loop->kernel().wait(Instant{});
    };
  };
  auto nothing = start_read(*loop, fd, 2);
  loop->run_until_idle();
  supply_during_read();
  {
    WakeList wakes;
    fd.source().ready(Source::readable, wakes);  // a false alarm: its call finds nothing
  }
  loop->run_until_idle();
  EXPECT_EQ(nothing->got, 1U);

  auto little = start_read(*loop, fd, 2);
  loop->run_until_idle();
  world->supply(number, 1);
  supply_during_read();  // its call finds less than it could take
  loop->run_until_idle();
  EXPECT_EQ(little->got, 1U);
  auto next = start_read(*loop, fd, 2);
  loop->run_until_idle();
  EXPECT_EQ(next->got, 1U);
}

TEST_F(SourceTest, T16_WhoArmsLooksUnderTheLock) {
  auto first = make_loop();
  auto second = make_loop();
  for (std::size_t trial = scaled(5, 20, 500); trial > 0; --trial) {
    auto before = start_read(*first, fd, 2);  // so that it is watched, and used up
    first->run_until_idle();
    world->supply(number, 1);
    first->run_until_idle();
    auto reader = start_read(*first, fd, 2);
    std::thread arming;
    std::thread reporting;
    std::atomic<int> there{0};
    const auto clock = make_thread_kernel();
    auto wait_for = [&](int threads) {
      do {
        clock->wait(clock->now() + 20us);
      } while (there < threads);
      // Now it waits for the lock, or will soon.
    };
    // While we hold the lock, one thread comes to arm and then another to report. Half of the time
    // the second gets the lock first.
    world->during_arm = [&](const Kernel& kernel) {
      if (&kernel == &first->kernel()) return;
      arming = std::thread([&] {
        ++there;
        first->run_until_idle();
      });
      wait_for(1);
      reporting = std::thread([&] {
        world->supply_unseen(number, 1);
        ++there;
        WakeList wakes;
        fd.source().ready(Source::readable, wakes);
      });
      wait_for(2);
      throw_sys_error(-ENOSPC, "watching");
    };
    auto holder = start_read(*second, fd, 2);
    second->run_until_idle();
    EXPECT_EQ(holder->error, ENOSPC);
    arming.join();
    reporting.join();
    world->during_arm = {};
    first->run_until_idle();
    ASSERT_EQ(reader->got, 1U) << "with " << trial << " trials to go";
  }
}

TEST_F(SourceTest, T16_TheEndStaysKnownAfterAShortRead) {
  auto loop = make_loop();
  auto first = start_read(*loop, fd, 8);
  loop->run_until_idle();
  world->supply(number, 3);
  world->end(number);  // one report for both
  loop->run_until_idle();
  EXPECT_EQ(first->got, 3U);
  for (int i = 0; i < 3; ++i) {
    auto next = start_read(*loop, fd, 8);
    loop->run_until_idle();
    ASSERT_TRUE(next->over);
    EXPECT_EQ(next->got, 0U);
  }
}

TEST_F(SourceTest, T16_TheEndWakesAll) {
  auto loop = make_loop();
  std::vector<std::unique_ptr<Reading>> readers;
  for (int i = 0; i < 4; ++i) readers.push_back(start_read(*loop, fd, 4));
  loop->run_until_idle();
  world->end(number);
  loop->run_until_idle();
  for (const auto& reader : readers) EXPECT_EQ(reader->got, 0U);
}

TEST_F(SourceTest, T16_AnErrorThatWasNoneIsForgotten) {
  auto loop = make_loop();
  auto reader = start_read(*loop, fd, 4);
  loop->run_until_idle();
  const std::size_t before = world->reads();
  for (int i = 0; i < 3; ++i) {
    WakeList wakes;
    fd.source().ready(Source::read_end | Source::write_end, wakes);
  }
  loop->run_until_idle();
  EXPECT_FALSE(reader->over);
  EXPECT_LE(world->reads(), before + 2);  // it does not go on trying
  world->supply(number, 1);
  loop->run_until_idle();
  EXPECT_EQ(reader->got, 1U);
}

TEST_F(SourceTest, C16_ALoserIsPassedOver) {
  Fd other = world->make(Source::Kind::pipe);
  auto loop = make_loop();
  auto both = start(*loop, [&] {
    std::array<std::byte, 4> a;
    std::array<std::byte, 4> b;
    auto won = select(fd.read_op(a), other.read_op(b));
    return won.index() == 0 ? std::get<0>(won) : std::get<1>(won) + 100;
  });
  loop->run_until_idle();
  auto one = start_read(*loop, fd, 4);
  auto two = start_read(*loop, other, 4);
  loop->run_until_idle();
  world->supply(number, 1);
  world->supply(other.number(), 2);
  loop->run_until_idle();  // both are reported before anybody runs
  EXPECT_TRUE(both->over);
  const bool first_won = both->got == 1U;
  EXPECT_EQ(two->over, first_won);
  EXPECT_EQ(one->over, !first_won);
  EXPECT_EQ(world->bytes(number) + world->bytes(other.number()), 0U);
}

TEST_F(SourceTest, F9_CancelledWaitersLeaveNothingBehind) {
  auto loop = make_loop();
  auto first = start_read(*loop, fd, 1);
  auto second = start_read(*loop, fd, 1);
  loop->run_until_idle();
  first->task.cancel();
  world->supply(number, 1);
  loop->run_until_idle();
  EXPECT_FALSE(first->over);  // it ended otherwise
  EXPECT_TRUE(first->task.done());
  EXPECT_EQ(second->got, 1U);
}

TEST_F(SourceTest, T16_CloseWakesAllAndStaysClosed) {
  auto loop = make_loop();
  std::vector<std::unique_ptr<Reading>> readers;
  for (int i = 0; i < 4; ++i) readers.push_back(start_read(*loop, fd, 4));
  loop->run_until_idle();
  fd.close();
  fd.close();
  EXPECT_FALSE(world->open(number));
  readers.push_back(start_read(*loop, fd, 4));
  loop->run_until_idle();
  for (const auto& reader : readers) EXPECT_EQ(reader->error, EBADF);
}

TEST_F(SourceTest, T16_TheNumberStaysOpenDuringACall) {
  auto loop = make_loop();
  world->supply(number, 1);
  world->during_read = [&] {
    world->during_read = {};
    EXPECT_EQ(fd.release(), -1);  // in use
    fd.close();
    EXPECT_TRUE(world->open(number));
  };
  auto reader = start_read(*loop, fd, 4);
  loop->run_until_idle();
  EXPECT_EQ(reader->got, 1U);  // it was read before
  EXPECT_FALSE(world->open(number));
}

TEST_F(SourceTest, T16_TheOwnerMayGoWhileSomebodyWaits) {
  auto loop = make_loop();
  auto reader = start_read(*loop, fd, 4);
  loop->run_until_idle();
  fd = Fd();
  EXPECT_FALSE(world->open(number));
  loop->run_until_idle();
  EXPECT_EQ(reader->error, EBADF);
}

TEST_F(SourceTest, T16_ReleaseGivesTheNumberAway) {
  auto loop = make_loop();
  auto reader = start_read(*loop, fd, 4);
  loop->run_until_idle();
  EXPECT_EQ(fd.release(), number);
  EXPECT_EQ(fd.release(), -1);
  EXPECT_TRUE(world->open(number));
  EXPECT_EQ(world->watcher(number), nullptr);
  loop->run_until_idle();
  EXPECT_EQ(reader->error, EBADF);
  fd = Fd();
  EXPECT_TRUE(world->open(number));
  world->close(number);
}

TEST_F(SourceTest, T16_AWriteGoesOnAsThereIsRoom) {
  auto loop = make_loop();
  world->give_room(number, 3);
  auto writer = start(*loop, [&] {
    fd.write("0123456789");
    return std::size_t{10};
  });
  auto reader = start_read(*loop, fd, 4);
  for (const std::size_t written : {3U, 5U, 9U}) {
    loop->run_until_idle();
    EXPECT_EQ(world->written(number), written);
    EXPECT_FALSE(writer->over || reader->over);
    world->give_room(number, written == 3 ? 2 : 4);
  }
  loop->run_until_idle();
  EXPECT_EQ(writer->got, 10U);
  EXPECT_FALSE(reader->over);
  world->supply(number, 1);
  loop->run_until_idle();
  EXPECT_EQ(reader->got, 1U);
}

TEST_F(SourceTest, T16_WritersPassOnAndAreWokenByCloseAndError) {
  auto loop = make_loop();
  world->give_room(number, 0);
  std::vector<std::unique_ptr<Reading>> writers;
  for (int i = 0; i < 4; ++i) {
    writers.push_back(start(*loop, [&] { return fd.write_some(as_bytes("x")); }));
  }
  loop->run_until_idle();
  world->give_room(number, 2);  // one change
  loop->run_until_idle();
  EXPECT_EQ(world->written(number), 2U);
  const auto waiting = [&] {
    return std::ranges::count_if(writers, [](const auto& w) { return !w->over; });
  };
  EXPECT_EQ(waiting(), 2);
  {
    WakeList wakes;
    fd.source().ready(Source::write_end, wakes);  // that was none: they go on waiting
  }
  loop->run_until_idle();
  EXPECT_EQ(waiting(), 2);
  fd.close();
  loop->run_until_idle();
  EXPECT_EQ(waiting(), 0);
}

TEST_F(SourceTest, S3_WhoCannotBeWatchedForGetsTheError) {
  auto loop = make_loop();
  world->failing_watches = 1;
  auto refused = start_read(*loop, fd, 4);
  loop->run_until_idle();
  EXPECT_EQ(refused->error, ENOSPC);
  auto reader = start_read(*loop, fd, 4);
  loop->run_until_idle();
  world->supply(number, 1);
  loop->run_until_idle();
  EXPECT_EQ(reader->got, 1U);
}

TEST_F(SourceTest, S3_WithNobodyWaitingTheWatchMoves) {
  auto first = make_loop();
  auto second = make_loop();
  for (int i = 0; i < 3; ++i) {
    for (Loop* loop : {first.get(), second.get()}) {
      auto reader = start_read(*loop, fd, 4);
      loop->run_until_idle();
      EXPECT_EQ(world->watcher(number), &loop->kernel());
      world->supply(number, 1);
      loop->run_until_idle();
      EXPECT_EQ(reader->got, 1U);
    }
  }
}

TEST_F(SourceTest, S3_TheWatchFollowsThoseWhoWait) {
  for (const bool by_reading : {true, false}) {
    auto first = make_loop();
    auto second = make_loop();
    auto one = start_read(*first, fd, 2);  // what it gets is less: it leaves nothing to pass on
    first->run_until_idle();
    auto two = start_read(*second, fd, 2);
    second->run_until_idle();
    EXPECT_EQ(world->watcher(number), &first->kernel());
    if (by_reading) {
      world->supply(number, 1);
    } else {
      one->task.cancel();
    }
    first->run_until_idle();
    EXPECT_TRUE(one->task.done());
    EXPECT_FALSE(two->over);
    // From here on nobody runs the first loop.
    world->supply(number, 1);
    second->run_until_idle();
    EXPECT_EQ(two->got, 1U);
  }
}

TEST_F(SourceTest, S3_AKernelThatGoesHandsItsWaitersOn) {
  for (const bool refused : {false, true}) {
    auto first = make_loop();
    auto second = make_loop();
    auto one = start_read(*first, fd, 1);
    first->run_until_idle();
    auto two = start_read(*second, fd, 1);
    second->run_until_idle();
    // Its last tasks end with it; and the machine may not let the other one watch.
    world->failing_watches = refused ? 2 : 0;
    first.reset();
    EXPECT_TRUE(one->task.done());
    if (!refused) world->supply(number, 1);
    second->run_until_idle();
    EXPECT_TRUE(two->over);
    EXPECT_EQ(two->error, refused ? ENOSPC : 0);
  }
}

}  // namespace

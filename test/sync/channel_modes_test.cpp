// What a channel does besides being a bounded queue: without bound, dropping, closed by an error.
#include <weft/sync/channel.hpp>

#include "support/everywhere.hpp"

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

namespace weft::test {
namespace {

EVERYWHERE(Channel, C17_UnboundedNeverWaitsToSend) {
  Channel<int> ch(unbounded);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(co_await ch.send_op(i));
    if (i % 3 != 0) continue;
    EXPECT_EQ(co_await ch.recv_op(), i / 3);  // the ring wraps while it grows
  }
  EXPECT_EQ(ch.size(), 666U);
  ch.close();
  int next = 334;
  while (auto got = co_await ch.recv_op()) EXPECT_EQ(*got, next++);
  EXPECT_EQ(next, 1000);
}

EVERYWHERE(Channel, C17_DropsTheNewOrTheOld) {
  Channel<int> keeps_old({.capacity = 2, .overflow = Overflow::drop_new});
  Channel<int> keeps_new({.capacity = 2, .overflow = Overflow::drop_old});
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(co_await keeps_old.send_op(i));
    EXPECT_TRUE(co_await keeps_new.send_op(i));
  }
  EXPECT_EQ(co_await keeps_old.recv_op(), 0);
  EXPECT_EQ(co_await keeps_old.recv_op(), 1);
  EXPECT_EQ(co_await keeps_new.recv_op(), 3);
  EXPECT_EQ(co_await keeps_new.recv_op(), 4);
  for (const Channel<int>* ch : {&keeps_old, &keeps_new}) {
    const ChannelStats stats = ch->stats();
    EXPECT_EQ(stats.sent, 5U);
    EXPECT_EQ(stats.received, 2U);
    EXPECT_EQ(stats.dropped, 3U);
    EXPECT_EQ(stats.waiting, 0U);
  }
}

/// Each of the values has the same chance to be among those that are left.
TEST(Channel, C17_ASampleIsFair) {
  constexpr int values = 40;
  constexpr int rounds = 2000;
  std::vector<int> kept(values);
  Pool pool({.workers = 1});  // its choices are random
  pool.run([&] {
    for (int r = 0; r < rounds; ++r) {
      Channel<int> ch({.capacity = 10, .overflow = Overflow::sample});
      for (int i = 0; i < values; ++i) ch.send(i);
      ch.close();
      for (const int value : ch) ++kept[static_cast<std::size_t>(value)];
    }
  });
  const double expected = rounds * 10.0 / values;
  for (const int count : kept) EXPECT_NEAR(count, expected, expected * 0.25);
}

CONCURRENT(Channel, C17_ClosedByAnErrorAfterDraining) {
  struct Broken : std::runtime_error {
    Broken() : std::runtime_error("the source broke") {}
  };
  Channel<int> ch(1);
  std::atomic<int> senders_told{0};
  Scope scope;
  co_await ch.send_op(1);
  here.spawn(scope, [&]() -> Coro<> {
    try {
      co_await ch.send_op(2);  // waits for room
    } catch (const Broken&) {
      ++senders_told;
    }
  });
  co_await all_others_wait();
  ch.close_with(std::make_exception_ptr(Broken()));
  ch.close_with(std::make_exception_ptr(std::logic_error("too late")));
  EXPECT_EQ(co_await ch.recv_op(), 1);
  bool told = false;
  try {
    co_await ch.recv_op();
  } catch (const Broken&) {
    told = true;
  }
  EXPECT_TRUE(told);
  co_await scope.joined();
  EXPECT_EQ(senders_told, 1);
}

EVERYWHERE(Channel, C17_WhatCannotBeSentComesBack) {
  Channel<std::unique_ptr<int>> ch(1);
  EXPECT_TRUE(co_await ch.send_op(std::make_unique<int>(1)));
  ch.close();
  auto sent = co_await ch.send_op(std::make_unique<int>(2));
  EXPECT_FALSE(sent);
  EXPECT_EQ(**sent.returned(), 2);
  EXPECT_EQ(**co_await ch.recv_op(), 1);
  EXPECT_FALSE((co_await ch.recv_op()).has_value());
}

EVERYWHERE(Channel, C17_TryNeverWaits) {
  Channel<std::unique_ptr<int>> ch(1);
  EXPECT_FALSE(ch.try_recv());
  auto value = std::make_unique<int>(1);
  EXPECT_TRUE(ch.try_send(std::move(value)));
  value = std::make_unique<int>(2);
  EXPECT_FALSE(ch.try_send(std::move(value)));
  EXPECT_TRUE(value) << "not moved from";
  EXPECT_EQ(**ch.try_recv(), 1);
  ch.close();
  EXPECT_FALSE(ch.try_send(std::move(value)));
  EXPECT_TRUE(value);
  EXPECT_TRUE(ch.closed());
  co_return;
}

CONCURRENT(Channel, C17_TryMeetsThoseWhoWait) {
  Channel<int> ch;
  Scope scope;
  EXPECT_FALSE(ch.try_send(1)) << "nobody is there";
  std::atomic<int> got{0};
  here.spawn(scope, [&]() -> Coro<> { got = *co_await ch.recv_op(); });
  co_await all_others_wait();
  EXPECT_TRUE(ch.try_send(2));
  here.spawn(scope, [&]() -> Coro<> { co_await ch.send_op(3); });
  co_await all_others_wait();
  EXPECT_EQ(ch.try_recv(), 3);
  co_await scope.joined();
  EXPECT_EQ(got, 2);
}

TEST(Channel, C18_ARangeOfWhatArrives) {
  Pool pool({.workers = 2});
  const int sum = pool.run([] {
    Channel<int> ch(4);
    Scope scope;
    scope.spawn([&] {
      for (int i = 1; i <= 100; ++i) ch.send(i);
      ch.close();
    });
    int total = 0;
    for (const int value : ch) total += value;
    return total;
  });
  EXPECT_EQ(sum, 5050);
}

TEST(ChannelDeathTest, C17_DroppingNeedsRoom) {
  EXPECT_DEATH(Channel<int>({.overflow = Overflow::drop_old}), "must have room for one");
}

}  // namespace
}  // namespace weft::test

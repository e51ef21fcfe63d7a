#include <weft/sync/channel.hpp>

#include "support/everywhere.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::test {
namespace {

EVERYWHERE(Channel, C17_BufferedIsFifoAndBounded) {
  Channel<int> ch(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(co_await ch.send_op(i));
  EXPECT_EQ(ch.size(), 3U);
  EXPECT_EQ((co_await timeout(ch.send_op(3), 1ms)), std::nullopt) << "there was no room";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(co_await ch.recv_op(), i);
  EXPECT_EQ((co_await timeout(ch.recv_op(), 1ms)), std::nullopt);
}

CONCURRENT(Channel, C17_RendezvousReturnsWhenAReceiverHasTheValue) {
  Channel<int> ch;
  std::atomic<bool> sent = false;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    EXPECT_TRUE(co_await ch.send_op(1));
    sent = true;
  });
  co_await sleep_op(1ms);
  EXPECT_FALSE(sent);
  EXPECT_EQ(ch.size(), 0U);
  EXPECT_EQ(co_await ch.recv_op(), 1);
  co_await all_others_wait();
  EXPECT_TRUE(sent);
  co_await scope.joined();
}

CONCURRENT(Channel, C17_WaitersAreServedInOrder) {
  for (const std::size_t capacity : {0U, 1U, 2U}) {
    Channel<int> ch(capacity);
    Scope scope;
    for (int i = 0; i < 6; ++i) {
      here.spawn(scope, [&, i]() -> Coro<> { EXPECT_TRUE(co_await ch.send_op(i)); });
      co_await all_others_wait();  // each one behind those before
    }
    for (int i = 0; i < 6; ++i) EXPECT_EQ(co_await ch.recv_op(), i);
    std::array<int, 4> got{};
    for (std::size_t i = 0; i < got.size(); ++i) {
      here.spawn(scope, [&, i]() -> Coro<> { got[i] = *co_await ch.recv_op(); });
      co_await all_others_wait();
    }
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(co_await ch.send_op(10 + i));
    co_await scope.joined();
    EXPECT_EQ(got, (std::array{10, 11, 12, 13}));
  }
}

// A receive makes room: the first waiting sender gets it at once, not when somebody asks again.
CONCURRENT(Channel, C17_RoomGoesToTheFirstWaitingSender) {
  Channel<int> ch(1);
  EXPECT_TRUE(co_await ch.send_op(0));
  std::atomic<int> last_sent = 0;
  Scope scope;
  for (int i = 1; i <= 2; ++i) {
    here.spawn(scope, [&, i]() -> Coro<> {
      EXPECT_TRUE(co_await ch.send_op(i));
      last_sent = i;
    });
    co_await all_others_wait();
  }
  EXPECT_EQ(last_sent, 0);
  EXPECT_EQ(co_await ch.recv_op(), 0);
  EXPECT_EQ(ch.size(), 1U);
  co_await sleep_op(1ms);
  EXPECT_EQ(last_sent, 1);
  EXPECT_EQ(co_await ch.recv_op(), 1);
  EXPECT_EQ(co_await ch.recv_op(), 2);
  co_await scope.joined();
}

EVERYWHERE(Channel, C17_CloseDrainsFirst) {
  Channel<int> ch(4);
  EXPECT_TRUE(co_await ch.send_op(1));
  EXPECT_TRUE(co_await ch.send_op(2));
  ch.close();
  ch.close();
  EXPECT_FALSE(co_await ch.send_op(3));
  EXPECT_EQ(co_await ch.recv_op(), 1);
  EXPECT_EQ(co_await ch.recv_op(), 2);
  EXPECT_EQ(co_await ch.recv_op(), std::nullopt);
  EXPECT_EQ(co_await ch.recv_op(), std::nullopt);
  EXPECT_FALSE(co_await ch.send_op(3));
}

CONCURRENT(Channel, C17_CloseWakesEverybody) {
  Channel<int> full(1);
  Channel<int> empty;
  EXPECT_TRUE(co_await full.send_op(0));
  std::atomic<int> refused{0};
  std::atomic<int> nothing{0};
  Scope scope;
  for (int i = 0; i < 3; ++i) {
    here.spawn(scope, [&]() -> Coro<> { refused += (co_await full.send_op(9)) ? 0 : 1; });
    here.spawn(scope, [&]() -> Coro<> { nothing += (co_await empty.recv_op()) ? 0 : 1; });
  }
  co_await sleep_op(1ms);
  EXPECT_EQ(refused + nothing, 0);
  full.close();
  empty.close();
  co_await scope.joined();
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(nothing, 3);
  EXPECT_EQ(co_await full.recv_op(), 0);
  EXPECT_EQ(co_await full.recv_op(), std::nullopt) << "a refused value was received";
}

CONCURRENT(Channel, C17_MoveOnlyValues) {
  Channel<std::unique_ptr<int>> ch;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(co_await ch.send_op(std::make_unique<int>(i)));
    ch.close();
  });
  int next = 0;
  while (auto got = co_await ch.recv_op()) EXPECT_EQ(**got, next++);
  EXPECT_EQ(next, 3);
  co_await scope.joined();
}

// Values that nobody received are destroyed with whoever holds them.
CONCURRENT(Channel, UnreceivedValuesAreFreed) {
  auto token = std::make_shared<int>(1);
  {
    Channel<std::shared_ptr<int>> ch(2);
    EXPECT_TRUE(co_await ch.send_op(token));
    EXPECT_TRUE(co_await ch.send_op(token));
    EXPECT_EQ((co_await timeout(ch.send_op(token), 1ms)), std::nullopt);
    Scope scope;
    auto h = here.spawn(scope, [&]() -> Coro<> { co_await ch.send_op(token); });
    co_await all_others_wait();
    h.cancel();
    co_await scope.joined();
    EXPECT_EQ(token.use_count(), 3);
  }
  EXPECT_EQ(token.use_count(), 1);
}

CONCURRENT(Channel, B1_FibersAndCoroutinesShareOne) {
  Channel<int> ch;
  Scope scope;
  scope.spawn([&] {
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(ch.send(i));
    ch.close();
  });
  std::atomic<std::int64_t> sum{0};
  scope.spawn([&]() -> Coro<> {
    while (auto got = co_await ch.recv_op()) sum += *got;
  });
  scope.spawn([&] {
    while (auto got = ch.recv()) sum += *got;
  });
  co_await scope.joined();
  EXPECT_EQ(sum, 45);
}

// A select that offers and asks on one channel must not meet itself.
EVERYWHERE(Channel, C16_ASelectDoesNotMeetItself) {
  Channel<int> ch;
  for (int i = 0; i < 20; ++i) {
    const auto r = co_await race(ch.send_op(1), ch.recv_op(), sleep_op(1ms));
    EXPECT_EQ(r.index(), 2U);
    const auto s = co_await race(sleep_op(1ms), ch.recv_op(), ch.send_op(1));
    EXPECT_EQ(s.index(), 0U);
  }
  EXPECT_EQ((co_await timeout(ch.recv_op(), 1ms)), std::nullopt) << "an offer was left behind";
}

// Full buffer, and the same select would both take from it and put into it.
EVERYWHERE(Channel, C16_SelfSelectOnAFullBuffer) {
  Channel<int> ch(1);
  EXPECT_TRUE(co_await ch.send_op(1));
  const auto r = co_await race(ch.send_op(2), ch.recv_op());
  EXPECT_EQ(r.index(), 1U);
  EXPECT_EQ(std::get<1>(r), 1);
  EXPECT_EQ(ch.size(), 0U) << "its own losing offer was accepted";
}

template <class Spawn>
Coro<> self_selects(int tasks, std::size_t capacity, Spawn spawn) {
  Channel<int> ch(capacity);
  std::atomic<std::int64_t> balance{0};
  std::atomic<int> sent{0};
  std::atomic<int> received{0};
  Scope scope;
  for (int t = 0; t < tasks; ++t) {
    spawn(scope, [&, t]() -> Coro<> {
      for (int i = 0; i < 50; ++i) {
        const int value = t * 1000 + i;
        const bool offer_first = (i + t) % 2 == 0;
        std::optional<int> got;
        bool did_send = false;
        if (offer_first) {
          auto r = co_await race(ch.send_op(value), ch.recv_op());
          did_send = r.index() == 0 && std::get<0>(r);
          if (r.index() == 1) got = std::get<1>(r);
        } else {
          auto r = co_await race(ch.recv_op(), ch.send_op(value));
          did_send = r.index() == 1 && std::get<1>(r);
          if (r.index() == 0) got = std::get<0>(r);
        }
        if (!did_send && !got) co_return;  // closed
        if (did_send) balance += value, ++sent;
        if (got) balance -= *got, ++received;
        if (i % 3 == 0) co_await next_turn();
      }
      ch.close();  // whoever is through first lets the others go
    });
  }
  co_await scope.joined();
  while (auto got = co_await ch.recv_op()) balance -= *got, ++received;
  EXPECT_EQ(balance, 0);
  EXPECT_EQ(sent, received);
  EXPECT_GT(sent, 0) << "they must meet each other";
}

CONCURRENT(Channel, C16_SelfSelectorsMeetEachOther) {
  for (const std::size_t capacity : {0U, 1U, 3U}) {
    for (int tasks = 2; tasks <= 4; ++tasks) {
      co_await self_selects(tasks, capacity,
                            [&](Scope& s, auto f) { here.spawn(s, std::move(f)); });
    }
  }
}

/// Counts what goes in and what comes out.
class Ledger {
 public:
  void sent(int value) { note(sent_, value); }
  void received(int value) { note(received_, value); }
  void refused(int value) { note(refused_, value); }  // cancelled, timed out or closed

  void check(int rest) const {
    std::vector<int> all(received_);
    std::sort(all.begin(), all.end());
    std::vector<int> in(sent_);
    std::sort(in.begin(), in.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "received twice";
    std::vector<int> missing;
    std::set_difference(in.begin(), in.end(), all.begin(), all.end(), std::back_inserter(missing));
    EXPECT_EQ(missing.size(), static_cast<std::size_t>(rest)) << "sent, but never received";
    std::vector<int> odd;
    std::set_difference(all.begin(), all.end(), in.begin(), in.end(), std::back_inserter(odd));
    EXPECT_TRUE(odd.empty()) << "received, but its sender was told otherwise";
    for (const int value : refused_) {
      EXPECT_EQ(std::count(all.begin(), all.end(), value), 0) << "refused, but received";
    }
  }

 private:
  void note(std::vector<int>& list, int value) {
    std::lock_guard guard(mutex_);
    list.push_back(value);
  }
  std::mutex mutex_;
  std::vector<int> sent_;
  std::vector<int> received_;
  std::vector<int> refused_;
};

// Senders and receivers are cancelled and timed out at random. Whatever send() said true to is
// received exactly once; nothing else is.
CONCURRENT(Channel, C18_ConservationUnderCancelAndTimeouts) {
  const std::uint64_t runs = scaled(5, 60, 2'000);
  for (std::uint64_t seed = 1; seed <= runs; ++seed) {
    Rng rng(seed);
    Channel<int> ch(rng.below(3));
    Ledger ledger;
    Scope scope({.on_failure = OnFailure::isolate});
    std::vector<JoinHandle<void>> tasks;
    for (int t = 0; t < 4; ++t) {
      tasks.push_back(here.spawn(scope, [&, t, own = Rng(rng.next())]() mutable -> Coro<> {
        for (int i = 0; i < 20; ++i) {
          const int value = t * 100 + i;
          bool ok = false;
          try {
            if (own.below(3) == 0) {
              ok = (co_await timeout(ch.send_op(value), 1ms * own.below(3))).value_or(false);
            } else {
              ok = co_await ch.send_op(value);
            }
          } catch (const Cancelled&) {
            ledger.refused(value);
            throw;
          }
          ok ? ledger.sent(value) : ledger.refused(value);
          co_await sleep_op(1ms * own.below(3));
        }
      }));
      tasks.push_back(here.spawn(scope, [&, own = Rng(rng.next())]() mutable -> Coro<> {
        for (;;) {
          if (own.below(3) == 0) {
            auto got = co_await timeout(ch.recv_op(), 1ms * own.below(3));
            if (got && !*got) co_return;
            if (got) ledger.received(**got);
          } else {
            auto got = co_await ch.recv_op();
            if (!got) co_return;
            ledger.received(*got);
          }
          co_await sleep_op(1ms * own.below(3));
        }
      }));
    }
    const std::uint32_t kills = rng.below(6);
    for (std::uint32_t k = 0; k < kills; ++k) {
      co_await sleep_op(1ms * rng.below(10));
      tasks[rng.below(static_cast<std::uint32_t>(tasks.size()))].cancel();
    }
    co_await sleep_op(100ms);
    ch.close();
    co_await scope.joined();
    while (auto got = co_await ch.recv_op()) ledger.received(*got);
    ledger.check(0);
  }
}

// What dies with the channel is no longer in it, and may still use it.
TEST(Channel, AValueMaySendWhileTheChannelEnds) {
  struct Node {
    using Home = Channel<std::unique_ptr<Node>>;
    Home& home;
    int& died;
    int more;
    ~Node() {
      ++died;
      if (more == 0) return;
      EXPECT_TRUE(home.try_send(std::unique_ptr<Node>(new Node{home, died, more - 1})));
      EXPECT_EQ(home.size(), 1U);
    }
  };
  int died = 0;
  {
    Node::Home home(1);
    EXPECT_TRUE(home.try_send(std::unique_ptr<Node>(new Node{home, died, 3})));
  }
  EXPECT_EQ(died, 4);
}

TEST(Channel, OfConstants) {
  Channel<const int> channel(3);
  EXPECT_TRUE(channel.try_send(1));
  EXPECT_EQ(channel.try_recv(), 1);
}

// A send and a cancellation, from two threads, meet one waiting receiver: both sides agree on
// whether the value was handed over.
TEST(Channel, C18_SendRacesWithCancelAcrossThreads) {
  const int rounds = static_cast<int>(scaled(300, 20'000, 500'000));
  Loop loop({.on_deadlock = OnDeadlock::wait});
  Channel<int> ch;
  std::atomic<int> round{0};
  std::atomic<int> finished{0};
  bool sent = false;
  JoinHandle<std::optional<int>>* target = nullptr;
  auto helper = [&](auto act) {
    return std::thread([&, act] {
      for (int r = 1; r <= rounds; ++r) {
        while (round.load() != r) std::this_thread::yield();
        act(r);
        finished.fetch_add(1);
      }
    });
  };
  std::thread sender = helper([&](int r) {
    for (int k = r % 32; k > 0; --k) static_cast<void>(round.load());
    sent = perform(timeout(ch.send_op(r), 0ms)).value_or(false);
  });
  std::thread canceller = helper([&](int r) {
    for (int k = r / 32 % 32; k > 0; --k) static_cast<void>(round.load());
    target->cancel();
  });
  loop.run([&] {
    Scope scope;
    for (int r = 1; r <= rounds; ++r) {
      auto h = scope.spawn([&] { return ch.recv(); });
      yield();
      target = &h;
      round.store(r);
      while (finished.load() != 2 * r) std::this_thread::yield();
      const auto o = h.join();
      ASSERT_EQ(o.ok(), sent) << "round " << r;
      ASSERT_TRUE(o.cancelled() || o.value() == r);
    }
  });
  sender.join();
  canceller.join();
}

struct CountedMoves {
  std::atomic<int>* moves;
  explicit CountedMoves(std::atomic<int>& n) : moves(&n) {}
  CountedMoves(CountedMoves&& o) noexcept : moves(o.moves) { ++*moves; }
  CountedMoves& operator=(CountedMoves&& o) noexcept {
    moves = o.moves;
    ++*moves;
    return *this;
  }
};

// Moved, never copied; and a bounded number of times.
CONCURRENT(Channel, C18_ZeroCopy) {
  static_assert(!std::is_copy_constructible_v<CountedMoves>);
  Channel<CountedMoves> ch;
  std::atomic<int> moves{0};
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> { EXPECT_TRUE(co_await ch.send_op(CountedMoves(moves))); });
  EXPECT_TRUE((co_await ch.recv_op()).has_value());
  co_await scope.joined();
  EXPECT_LE(moves, 10);
}

}  // namespace
}  // namespace weft::test

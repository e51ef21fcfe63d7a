#include <weft/sched/steal_queue.hpp>

#include <weft/base/rng.hpp>

#include "support/everywhere.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

struct Item {
  std::uint64_t value = 0;
  std::atomic<int> taken{0};
};
using Queue = StealQueue<Item>;

constexpr std::uint64_t wrap = std::uint64_t{1} << 24;  // where positions begin again

std::vector<Item> make_items(std::size_t count) {
  std::vector<Item> items(count);
  for (std::size_t i = 0; i < count; ++i) items[i].value = i;
  return items;
}

TEST(StealQueue, FirstInFirstOutAndFullAtItsCapacity) {
  auto items = make_items(Queue::capacity + 1);
  Queue queue;
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop(), nullptr);
  EXPECT_EQ(queue.front(), nullptr);
  for (std::size_t i = 0; i < Queue::capacity; ++i) {
    EXPECT_EQ(queue.room(), Queue::capacity - i);
    ASSERT_TRUE(queue.push(&items[i]));
  }
  EXPECT_FALSE(queue.push(&items[Queue::capacity]));
  EXPECT_EQ(queue.room(), 0U);
  EXPECT_EQ(queue.size(), Queue::capacity);
  for (std::size_t i = 0; i < Queue::capacity; ++i) {
    EXPECT_FALSE(queue.empty());
    EXPECT_EQ(queue.front(), &items[i]);
    EXPECT_EQ(queue.pop(), &items[i]);
  }
  EXPECT_EQ(queue.pop(), nullptr);
  EXPECT_EQ(queue.size(), 0U);
}

TEST(StealQueue, TheOwnerTakesFromBothEnds) {
  auto items = make_items(Queue::capacity + 1);
  Queue queue;
  EXPECT_EQ(queue.pop_newest(), nullptr);
  for (std::size_t i = 0; i < Queue::capacity; ++i) ASSERT_TRUE(queue.push(&items[i]));
  EXPECT_EQ(queue.pop_newest(), &items[Queue::capacity - 1]);
  EXPECT_EQ(queue.room(), 1U);
  ASSERT_TRUE(queue.push(&items[Queue::capacity])) << "its slot is free at once";
  EXPECT_EQ(queue.pop_newest(), &items[Queue::capacity]);
  EXPECT_EQ(queue.pop(), &items[0]);
  for (std::size_t i = Queue::capacity - 2; i > 0; --i) {
    EXPECT_EQ(queue.front(), &items[1]);
    EXPECT_EQ(queue.pop_newest(), &items[i]);
  }
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.pop_newest(), nullptr);
  EXPECT_EQ(queue.pop(), nullptr);
  EXPECT_EQ(queue.room(), Queue::capacity);
}

TEST(StealQueue, ThievesTakeTheOlderHalfRoundedUp) {
  for (std::size_t count = 0; count <= Queue::capacity; ++count) {
    auto items = make_items(count);
    Queue victim;
    Queue mine;
    for (Item& item : items) ASSERT_TRUE(victim.push(&item));
    const std::size_t half = (count + 1) / 2;
    Item* first = victim.steal_half(mine);
    if (count == 0) {
      EXPECT_EQ(first, nullptr);
      continue;
    }
    EXPECT_EQ(first, &items[0]);
    EXPECT_EQ(mine.size(), half - 1);
    EXPECT_EQ(victim.size(), count - half);
    for (std::size_t i = 1; i < half; ++i) EXPECT_EQ(mine.pop(), &items[i]);
    for (std::size_t i = half; i < count; ++i) EXPECT_EQ(victim.pop(), &items[i]);
    EXPECT_TRUE(mine.empty());
    EXPECT_TRUE(victim.empty());
  }
}

TEST(StealQueue, AThiefTakesNoMoreThanItCanHold) {
  auto items = make_items(16);
  StealQueue<Item, 8> victim;
  StealQueue<Item, 8> mine;
  for (std::size_t i = 0; i < 8; ++i) ASSERT_TRUE(victim.push(&items[i]));
  for (std::size_t i = 8; i < 15; ++i) ASSERT_TRUE(mine.push(&items[i]));
  EXPECT_EQ(victim.steal_half(mine), &items[0]);
  EXPECT_EQ(mine.size(), 8U);
  EXPECT_EQ(victim.size(), 6U);
  EXPECT_EQ(victim.steal_half(mine), &items[2]) << "one to run at once needs no room";
  EXPECT_EQ(mine.size(), 8U);
}

TEST(StealQueue, AFullQueueGivesUpItsOlderHalf) {
  auto items = make_items(8);
  StealQueue<Item, 8> queue;
  for (Item& item : items) ASSERT_TRUE(queue.push(&item));
  std::array<Item*, 4> out{};
  EXPECT_EQ(queue.drain_half(std::span(out).first(3)).size(), 3U);
  EXPECT_EQ(out[0], &items[0]);
  EXPECT_EQ(out[2], &items[2]);
  EXPECT_EQ(queue.drain_half(out).size(), 2U);
  EXPECT_EQ(out[1], &items[4]);
  EXPECT_EQ(queue.pop(), &items[5]);
  EXPECT_EQ(queue.drain_half(out).size(), 1U);
  EXPECT_EQ(queue.drain_half(out).size(), 0U) << "half of one, rounded down";
  EXPECT_EQ(queue.pop(), &items[7]);
}

/// Every field of the word runs over at another step: none may touch its neighbour.
TEST(StealQueue, PositionsWrap) {
  auto items = make_items(12);
  for (std::uint64_t back = 0; back <= 24; ++back) {
    StealQueue<Item, 8> queue(wrap - back);
    StealQueue<Item, 8> other(wrap - back / 2);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.pop_newest(), nullptr);
    EXPECT_EQ(queue.room(), 8U);
    for (std::size_t i = 0; i < 8; ++i) ASSERT_TRUE(queue.push(&items[i]));
    EXPECT_FALSE(queue.push(&items[8]));
    EXPECT_EQ(queue.pop_newest(), &items[7]);
    EXPECT_EQ(queue.pop(), &items[0]);
    EXPECT_EQ(queue.size(), 6U);
    EXPECT_EQ(queue.steal_half(other), &items[1]);
    EXPECT_EQ(queue.room(), 5U);
    EXPECT_EQ(other.pop_newest(), &items[3]);
    EXPECT_EQ(other.pop(), &items[2]);
    EXPECT_EQ(other.room(), 8U);
    for (std::size_t i = 7; i < 12; ++i) ASSERT_TRUE(queue.push(&items[i]));
    EXPECT_FALSE(queue.push(&items[0]));
    std::array<Item*, 4> out{};
    EXPECT_EQ(queue.drain_half(out).size(), 4U);
    EXPECT_EQ(out[0], &items[4]);
    EXPECT_EQ(out[3], &items[7]);
    for (std::size_t i = 11; i >= 8; --i) EXPECT_EQ(queue.pop_newest(), &items[i]);
    EXPECT_TRUE(queue.empty());
    EXPECT_EQ(queue.room(), 8U);
  }
}

/// A thief that stops when it has copied, before it clears the lag.
struct Pausing : StdAtomics {
  static inline std::function<void()> pause;
  template <class V>
  struct Atomic : std::atomic<V> {
    using std::atomic<V>::atomic;
    V fetch_and(V mask, std::memory_order order) {
      pause();
      return std::atomic<V>::fetch_and(mask, order);
    }
  };
};

TEST(StealQueue, TheOwnerGoesOnWhileAThiefCopies) {
  using Slow = StealQueue<Item, 8, Pausing>;
  auto items = make_items(10);
  for (std::uint64_t back = 0; back <= 16; ++back) {
    Slow victim(wrap - back);
    Slow thief;
    Slow other;
    for (std::size_t i = 0; i < 6; ++i) ASSERT_TRUE(victim.push(&items[i]));
    int paused = 0;
    Pausing::pause = [&] {
      ++paused;
      EXPECT_EQ(victim.size(), 3U);
      EXPECT_EQ(victim.room(), 2U) << "three are there, and three are being copied";
      EXPECT_EQ(victim.steal_half(other), nullptr) << "one thief at a time";
      EXPECT_EQ(victim.pop(), &items[3]);
      EXPECT_EQ(victim.room(), 2U) << "a slot behind the thief's is not free yet";
      EXPECT_EQ(victim.pop_newest(), &items[5]);
      EXPECT_EQ(victim.room(), 3U) << "one at the tail is";
      for (std::size_t i = 6; i < 9; ++i) EXPECT_TRUE(victim.push(&items[i]));
      EXPECT_FALSE(victim.push(&items[9]));
      std::array<Item*, 4> out{};
      EXPECT_EQ(victim.drain_half(out).size(), 2U);
      EXPECT_EQ(out[0], &items[4]);
      EXPECT_EQ(out[1], &items[6]);
      EXPECT_EQ(victim.room(), 0U);
      EXPECT_EQ(victim.pop_newest(), &items[8]);
      EXPECT_EQ(victim.pop(), &items[7]);
      EXPECT_EQ(victim.pop(), nullptr);
      EXPECT_EQ(victim.pop_newest(), nullptr);
      EXPECT_TRUE(victim.empty());
      EXPECT_EQ(victim.room(), 1U);
    };
    EXPECT_EQ(victim.steal_half(thief), &items[0]);
    EXPECT_EQ(paused, 1);
    EXPECT_EQ(victim.room(), 8U);
    EXPECT_EQ(thief.pop(), &items[1]);
    EXPECT_EQ(thief.pop(), &items[2]);
  }
  Pausing::pause = nullptr;
}

/// Three queues against a plain model, over the place where positions wrap.
TEST(StealQueue, BehavesLikeADeque) {
  constexpr std::size_t capacity = 8;
  using Small = StealQueue<Item, capacity>;
  auto items = make_items(64);
  const std::size_t rounds = test::scaled(20, 200, 20'000);
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    Rng rng(seed);
    std::array<Small, 3> queues{Small(wrap - rng.below(100)),
                                Small(~std::uint64_t{0} - rng.below(100)), Small(rng.next())};
    std::array<std::deque<Item*>, 3> models;
    auto taken = [](std::deque<Item*>& model) {
      Item* item = model.empty() ? nullptr : model.front();
      if (item != nullptr) model.pop_front();
      return item;
    };
    auto newest = [](std::deque<Item*>& model) {
      Item* item = model.empty() ? nullptr : model.back();
      if (item != nullptr) model.pop_back();
      return item;
    };
    for (int step = 0; step < 500; ++step) {
      const std::size_t q = rng.below(3);
      const std::size_t other = (q + 1 + rng.below(2)) % 3;
      const std::uint32_t what = rng.below(9);
      if (what < 4) {
        Item* item = &items[rng.below(64)];
        const bool fits = models[q].size() < capacity;
        ASSERT_EQ(queues[q].push(item), fits);
        if (fits) models[q].push_back(item);
      } else if (what < 6) {
        ASSERT_EQ(queues[q].pop(), taken(models[q]));
      } else if (what < 7) {
        ASSERT_EQ(queues[q].pop_newest(), newest(models[q]));
      } else if (what < 8) {
        std::array<Item*, capacity> out{};
        for (Item* item : queues[q].drain_half(out)) ASSERT_EQ(item, taken(models[q]));
      } else {
        const std::size_t most = capacity - models[q].size() + 1;
        std::size_t count = std::min((models[other].size() + 1) / 2, most);
        ASSERT_EQ(queues[other].steal_half(queues[q]), taken(models[other]));
        while (count > 1) models[q].push_back(taken(models[other])), --count;
      }
      for (std::size_t i = 0; i < 3; ++i) {
        ASSERT_EQ(queues[i].size(), models[i].size());
        ASSERT_EQ(queues[i].room(), capacity - models[i].size());
        ASSERT_EQ(queues[i].empty(), models[i].empty());
        ASSERT_EQ(queues[i].front(), models[i].empty() ? nullptr : models[i].front());
      }
    }
  }
}

/// Everything an owner may do to take, at random.
template <class Small, class Take>
void take_some(Small& mine, Rng& rng, const Take& take) {
  constexpr std::uint32_t half = Small::capacity / 2;
  std::array<Item*, half> out{};
  switch (rng.below(5)) {
    case 0:
    case 1:
      return take(mine.pop());
    case 2:
    case 3:
      return take(mine.pop_newest());
    default:
      for (Item* item : mine.drain_half(std::span(out).first(1 + rng.below(half)))) {
        take(item);
      }
  }
}

/// An owner who pushes and takes, and thieves who rob it and each other: each item is taken once.
template <std::size_t Capacity>
void rob(std::size_t thieves, std::size_t count) {
  using Small = StealQueue<Item, Capacity>;
  auto items = std::make_unique<Item[]>(count);
  std::vector<std::unique_ptr<Small>> queues;
  for (std::size_t i = 0; i <= thieves; ++i) {
    queues.push_back(std::make_unique<Small>(wrap - count / 2));
  }
  std::atomic<std::size_t> taken{0};
  std::atomic<std::uint64_t> sum{0};
  auto take = [&](Item* item) {
    if (item == nullptr) return;
    sum += item->value;                                   // written by the owner before it pushed
    item->taken.fetch_add(1, std::memory_order_relaxed);  // relaxed: looked at after join()
    ++taken;
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 1; t <= thieves; ++t) {
    threads.emplace_back([&, t] {
      Rng rng(t);
      while (taken.load() < count) {
        const std::size_t victim = rng.below(static_cast<std::uint32_t>(thieves + 1));
        Item* item = victim == t ? nullptr : queues[victim]->steal_half(*queues[t]);
        if (item == nullptr) std::this_thread::yield();
        take(item);
        for (std::uint32_t n = rng.below(4); n > 0; --n) take_some(*queues[t], rng, take);
      }
    });
  }
  Rng rng(0);
  Small& mine = *queues[0];
  for (std::size_t i = 0; i < count; ++i) {
    items[i].value = i;
    while (!mine.push(&items[i])) {
      take_some(mine, rng, take);
      std::this_thread::yield();
    }
    if (rng.below(2) == 0) take_some(mine, rng, take);
  }
  while (taken.load() < count) {
    take_some(mine, rng, take);
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken.load(), count);
  EXPECT_EQ(sum.load(), std::uint64_t{count} * (count - 1) / 2);
  for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(items[i].taken.load(), 1) << "item " << i;
  for (const auto& queue : queues) {
    EXPECT_TRUE(queue->empty());
    EXPECT_EQ(queue->room(), Capacity) << "no lag stays behind";
  }
}

TEST(Requirements, C7_StealQueueLosesAndDoublesNothing) {
  const std::size_t count = test::scaled(10'000, 300'000, 10'000'000);
  rob<256>(1, count);
  rob<256>(3, count);
  rob<8>(2, count);
  rob<2>(3, count / 4);
}

}  // namespace
}  // namespace weft

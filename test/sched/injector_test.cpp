#include <weft/sched/injector.hpp>

#include <weft/base/rng.hpp>

#include "support/everywhere.hpp"

#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

struct Item {
  std::uint64_t value = 0;
  std::atomic<int> taken{0};
  Item* next = nullptr;
};
struct NextItem {
  static Item* get(const Item& item) { return item.next; }
  static void set(Item& item, Item* next) { item.next = next; }
};
using Queue = StealQueue<Item>;
using Global = Injector<Item, NextItem>;
using Small = Injector<Item, NextItem, 4>;

std::vector<Item> make_items(std::size_t count) {
  std::vector<Item> items(count);
  for (std::size_t i = 0; i < count; ++i) items[i].value = i;
  return items;
}

TEST(Requirements, C8_ABurstOf100000StaysInOrder) {
  auto items = make_items(100'000);
  auto injector = std::make_unique<Global>();
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(injector->empty());
    EXPECT_EQ(injector->pop(), nullptr);
    for (std::size_t i = 0; i < items.size(); ++i) {
      injector->push(items[i]);
      ASSERT_EQ(injector->size(), i + 1);
    }
    for (Item& item : items) {
      ASSERT_FALSE(injector->empty());
      ASSERT_EQ(injector->pop(), &item);
    }
  }
  EXPECT_TRUE(injector->empty());
}

TEST(Injector, WhatComesAfterTheListJoinsTheList) {
  auto items = make_items(8);
  Small injector;
  for (std::size_t i = 0; i < 6; ++i) injector.push(items[i]);  // four in the ring, two in the list
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(injector.pop(), &items[i]);
  injector.push(items[6]);  // there is room in the ring, but older ones wait in the list
  for (std::size_t i = 3; i < 7; ++i) EXPECT_EQ(injector.pop(), &items[i]);
  injector.push(items[7]);  // the list is empty: the ring again
  EXPECT_EQ(injector.pop(), &items[7]);
  EXPECT_EQ(injector.pop(), nullptr);
}

TEST(Injector, AShareIsWhatIsThereDividedByTheSharers) {
  auto items = make_items(100);
  Global injector;
  Queue mine;
  for (Item& item : items) injector.push(item);
  EXPECT_EQ(injector.pop_some(mine, 4), &items[0]);
  EXPECT_EQ(mine.size(), 25U);
  for (std::size_t i = 1; i <= 25; ++i) EXPECT_EQ(mine.pop(), &items[i]);
  EXPECT_EQ(injector.pop_some(mine, 1000), &items[26]) << "one at least";
  EXPECT_TRUE(mine.empty());
  EXPECT_EQ(injector.pop_some(mine, 1), &items[27]);
  EXPECT_EQ(mine.size(), 72U);
  EXPECT_EQ(injector.pop_some(mine, 1), nullptr);
}

TEST(Injector, AShareFitsTheQueue) {
  auto items = make_items(1000);
  Global injector;
  Queue mine;
  for (Item& item : items) injector.push(item);
  EXPECT_EQ(injector.pop_some(mine, 1), &items[0]);
  EXPECT_EQ(mine.size(), Queue::capacity / 2 - 1);
  EXPECT_NE(injector.pop_some(mine, 1), nullptr);
  EXPECT_NE(injector.pop_some(mine, 1), nullptr);
  EXPECT_EQ(mine.size(), Queue::capacity);
  EXPECT_NE(injector.pop_some(mine, 1), nullptr) << "one to run at once needs no room";
  EXPECT_EQ(mine.size(), Queue::capacity);
}

/// Against a plain model: pushes of one and of many, single pops and shares.
TEST(Injector, BehavesLikeADeque) {
  const std::size_t rounds = test::scaled(20, 200, 20'000);
  for (std::uint64_t seed = 0; seed < rounds; ++seed) {
    Rng rng(seed);
    auto items = make_items(64);
    std::vector<Item*> free;
    for (Item& item : items) free.push_back(&item);
    Small injector;
    std::deque<Item*> model;
    Queue mine;
    auto expect = [&](Item* item) {
      ASSERT_EQ(item, model.empty() ? nullptr : model.front());
      if (item == nullptr) return;
      model.pop_front();
      free.push_back(item);
    };
    for (int step = 0; step < 500; ++step) {
      const std::uint32_t what = rng.below(6);
      if (what < 3) {
        std::size_t count = std::min<std::size_t>(what < 2 ? 1 : rng.below(10), free.size());
        model.insert(model.end(), free.end() - static_cast<std::ptrdiff_t>(count), free.end());
        if (count == 1) {
          injector.push(*free.back());
        } else {
          injector.push_all(std::span(free).last(count));
        }
        free.resize(free.size() - count);
      } else if (what < 5) {
        expect(injector.pop());
      } else {
        expect(injector.pop_some(mine, rng.below(4) + 1));
        while (Item* item = mine.pop()) expect(item);
      }
      ASSERT_EQ(injector.empty(), model.empty());
      ASSERT_EQ(injector.size(), model.size());
    }
  }
}

template <class Shared>
void pass_on(std::size_t producers, std::size_t consumers, std::size_t count) {
  auto items = std::make_unique<Item[]>(count * producers);
  auto injector = std::make_unique<Shared>();
  std::atomic<std::size_t> taken{0};
  std::atomic<std::uint64_t> sum{0};
  std::vector<std::thread> threads;
  for (std::size_t p = 0; p < producers; ++p) {
    threads.emplace_back([&, p] {
      Rng rng(p);
      std::array<Item*, 16> some{};
      for (std::size_t i = 0; i < count;) {
        const std::size_t n = std::min<std::size_t>(rng.below(2) == 0 ? 1 : 16, count - i);
        for (std::size_t k = 0; k < n; ++k, ++i) {
          some[k] = &items[p * count + i];
          some[k]->value = i;
        }
        injector->push_all(std::span(some).first(n));
        if (rng.below(64) == 0) std::this_thread::yield();
      }
    });
  }
  for (std::size_t c = 0; c < consumers; ++c) {
    threads.emplace_back([&, c] {
      Rng rng(c);
      Queue mine;
      auto take = [&](Item* item) {
        if (item == nullptr) return;
        sum += item->value;
        item->taken.fetch_add(1, std::memory_order_relaxed);  // relaxed: looked at after join()
        ++taken;
      };
      while (taken.load() < count * producers) {
        Item* item = rng.below(2) == 0 ? injector->pop() : injector->pop_some(mine, consumers);
        if (item == nullptr) std::this_thread::yield();
        take(item);
        while (Item* more = mine.pop()) take(more);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(injector->empty());
  EXPECT_EQ(sum.load(), std::uint64_t{producers} * count * (count - 1) / 2);
  for (std::size_t i = 0; i < count * producers; ++i) ASSERT_EQ(items[i].taken.load(), 1);
}

TEST(Requirements, C8_InjectorLosesAndDoublesNothing) {
  const std::size_t count = test::scaled(10'000, 200'000, 5'000'000);
  pass_on<Global>(1, 2, count);
  pass_on<Global>(3, 2, count / 2);
  pass_on<Small>(2, 2, count / 2);
  pass_on<Injector<Item, NextItem, 1>>(2, 2, count / 4);
}

/// Who pushes and then sees nobody asleep must be seen by who then looks before it sleeps.
TEST(Requirements, C1_AProducerAndASleeperDoNotMissEachOther) {
  const std::size_t rounds = test::scaled(2'000, 50'000, 2'000'000);
  auto injector = std::make_unique<Global>();
  Item item;
  std::atomic<bool> asleep{false};
  std::atomic<std::size_t> pushing{0};  // the round that the producer may begin
  std::atomic<std::size_t> pushed{0};
  bool saw_sleeper = false;
  std::size_t missed = 0;
  std::thread producer([&] {
    for (std::size_t round = 1; round <= rounds; ++round) {
      while (pushing.load() != round) std::this_thread::yield();
      injector->push(item);
      saw_sleeper = asleep.load();
      pushed.store(round);
    }
  });
  for (std::size_t round = 1; round <= rounds; ++round) {
    asleep.store(false);
    pushing.store(round);
    asleep.store(true);
    const bool sleeps = injector->empty();
    while (pushed.load() != round) std::this_thread::yield();
    if (sleeps && !saw_sleeper) ++missed;
    ASSERT_EQ(injector->pop(), &item);
  }
  producer.join();
  EXPECT_EQ(missed, 0U);
}

}  // namespace
}  // namespace weft

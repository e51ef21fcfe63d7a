#include <weft/base/atomic.hpp>

#include <weft/base/spinlock.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

/// Everything that can be done with one, and what it returned.
template <class A>
std::vector<std::uint8_t> history(A& word) {
  std::vector<std::uint8_t> seen;
  const auto note = [&](auto value) {
    seen.push_back(static_cast<std::uint8_t>(value));
    seen.push_back(word.load());
  };
  word.store(7);
  note(word.exchange(250));
  note(word.fetch_add(10));  // beyond 255
  note(word.fetch_sub(5));
  note(word.fetch_or(0x30));
  note(word.fetch_and(0x3c));
  word.store(9, std::memory_order_release);
  std::uint8_t expected = 8;
  note(word.compare_exchange_strong(expected, 1));
  note(expected);
  note(word.compare_exchange_strong(expected, 2, std::memory_order_acq_rel));
  note(expected);
  expected = 3;
  note(word.compare_exchange_weak(expected, 4, std::memory_order_release,
                                  std::memory_order_relaxed));
  note(expected);
  return seen;
}

TEST(Atomic, DoesWhatStdAtomicDoes) {
  std::atomic<std::uint8_t> model;
  const auto right = history(model);
  Atomic<std::uint8_t> word;
  EXPECT_EQ(history(word), right) << (only_thread() ? "alone" : "not alone");
  std::thread([&] {
    EXPECT_FALSE(only_thread());
    EXPECT_EQ(history(word), right);
  }).join();
  EXPECT_EQ(history(word), right);
}

TEST(Atomic, CountsForManyThreads) {
  constexpr std::uint32_t each = 20'000;
  Atomic<std::uint32_t> count{0};
  const auto work = [&] {
    for (std::uint32_t i = 0; i < each; ++i) count.fetch_add(1);
  };
  work();  // alone
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count.load(), 5 * each);
}

/// Taken while there was nobody else, the lock holds against whoever comes.
TEST(Atomic, ALockTakenAloneIsTaken) {
  Spinlock lock;
  int value = 0;
  std::thread other;
  {
    std::lock_guard guard(lock);
    other = std::thread([&] {
      EXPECT_FALSE(only_thread());
      std::lock_guard second(lock);
      value *= 2;
    });
    for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
    value = 21;
  }
  other.join();
  EXPECT_EQ(value, 42);
}

}  // namespace
}  // namespace weft

#include <weft/base/spinlock.hpp>

#include "support/everywhere.hpp"

#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(Spinlock, TryLockFailsWhileHeldAndSucceedsAfter) {
  Spinlock lock;
  ASSERT_TRUE(lock.try_lock());
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
  ASSERT_TRUE(lock.try_lock());
  lock.unlock();
  lock.lock();
  EXPECT_FALSE(lock.try_lock());
  lock.unlock();
}

// Two plain variables that only ever differ inside the lock.
TEST(Spinlock, ThreadsExcludeEachOtherAndSeeEachOthersWrites) {
  const std::size_t rounds = test::scaled(5'000, 500'000, 5'000'000);
  Spinlock lock;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t torn = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < rounds; ++i) {
        if (t % 2 == 0) {
          lock.lock();
        } else {
          while (!lock.try_lock()) std::this_thread::yield();
        }
        if (first != second) ++torn;
        ++first;
        ++second;
        lock.unlock();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first, rounds * 4);
  EXPECT_EQ(second, rounds * 4);
  EXPECT_EQ(torn, 0U);
}

// Half of them hold the lock, the others only ever take and give back a bit, in one step each. Who
// has the bit, or holds the lock while nobody has it, is alone.
TEST(BitLock, HoldersAndSingleStepsExcludeEachOther) {
  const std::size_t rounds = test::scaled(5'000, 500'000, 5'000'000);
  constexpr BitLock::Bits taken = 2;
  constexpr BitLock::Bits kept = 4;  // nobody changes it
  BitLock lock;
  lock.unlock(lock.lock() | kept);
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t torn = 0;
  const auto use = [&] {
    if (first != second) ++torn;
    ++first;
    ++second;
  };
  const auto by_bit = [&] {
    while (!lock.change(kept, kept | taken, std::memory_order_acquire)) std::this_thread::yield();
    use();
    while (!lock.change(kept | taken, kept, std::memory_order_release)) std::this_thread::yield();
  };
  const auto by_lock = [&] {
    for (bool done = false; !done;) {
      const BitLock::Bits bits = lock.lock();
      done = (bits & taken) == 0;
      if (done) use();
      lock.unlock(bits);
      if (!done) std::this_thread::yield();
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < rounds; ++i) t % 2 == 0 ? by_bit() : by_lock();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(first, rounds * 4);
  EXPECT_EQ(torn, 0U);
  EXPECT_EQ(lock.glimpse(), kept);
}

TEST(BitLock, NoSingleStepWhileItIsHeld) {
  BitLock lock;
  const BitLock::Bits bits = lock.lock();
  EXPECT_EQ(bits, 0U);
  EXPECT_EQ(lock.glimpse(), BitLock::held);
  EXPECT_FALSE(lock.change(0, 2, std::memory_order_acquire));
  lock.unlock(2);
  EXPECT_FALSE(lock.change(0, 4, std::memory_order_acquire));
  EXPECT_TRUE(lock.change(2, 4, std::memory_order_acquire));
  EXPECT_EQ(lock.lock(), 4U);
}

}  // namespace
}  // namespace weft

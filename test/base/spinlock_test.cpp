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

}  // namespace
}  // namespace weft

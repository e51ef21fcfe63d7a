// Locks that are taken in a circle.
#include <weft/sync/lock_watch.hpp>

#include "support/everywhere.hpp"

#include <string>
#include <thread>
#include <vector>

namespace weft::test {
namespace {

class LockWatch : public testing::Test {
 protected:
  LockWatch() {
    check_locks([this](const std::string& text) { reports.push_back(text); });
  }
  ~LockWatch() override { stop_checking_locks(); }

  [[nodiscard]] static std::size_t times(const std::string& text, std::string_view part) {
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
      ++n;
    }
    return n;
  }

  std::vector<std::string> reports;
};

[[gnu::noinline]] void takes_the_first_one_first(Mutex& first, Mutex& second) {
  const auto a = first.lock();
  const auto b = second.lock();
}
[[gnu::noinline]] void takes_the_second_one_first(Mutex& first, Mutex& second) {
  const auto b = second.lock();
  const auto a = first.lock();
}

// Nobody ever gets stuck here: they run one after the other.
TEST_F(LockWatch, S9_TwoOrdersOfTwoLocksAreReportedWithBothSites) {
  Mutex first;
  Mutex second;
  block_on([&] {
    Scope scope;
    scope.spawn([&] { takes_the_first_one_first(first, second); }, {.name = "one"});
    scope.join();
    EXPECT_TRUE(reports.empty());
    scope.spawn([&] { takes_the_second_one_first(first, second); }, {.name = "other"});
    scope.join();
    scope.spawn([&] { takes_the_second_one_first(first, second); }, {.name = "again"});
    scope.join();
  });
  ASSERT_EQ(reports.size(), 1U);
  const std::string& text = reports[0];
  EXPECT_EQ(times(text, "task 'one'"), 1U) << text;
  EXPECT_EQ(times(text, "task 'other'"), 1U) << text;
  EXPECT_EQ(times(text, "takes_the_first_one_first"), 2U) << text;
  EXPECT_EQ(times(text, "takes_the_second_one_first"), 2U) << text;
}

TEST_F(LockWatch, S9_OneOrderIsNotReported) {
  std::vector<Mutex> mutexes(4);
  SharedMutex shared;
  block_on([&] {
    Scope scope;
    for (int i = 0; i < 20; ++i) {
      scope.spawn([&] {
        const auto reading = shared.lock_shared();
        const auto again = shared.lock_shared();
        std::vector<Mutex::Guard> guards;
        for (Mutex& mutex : mutexes) guards.push_back(mutex.lock());
        yield();
        guards.erase(guards.begin());  // in whatever order they are released
      });
    }
    scope.join();
  });
  // Also not: an order that was not one, as the first was given back before.
  block_on([&] {
    {
      auto guard = mutexes[3].lock();
      guard.unlock();
      const auto other = mutexes[0].lock();
    }
    const auto guard = mutexes[3].lock();
    EXPECT_TRUE(mutexes[0].try_lock().has_value());  // cannot get stuck
  });
  EXPECT_TRUE(reports.empty()) << reports[0];
}

TEST_F(LockWatch, S9_ACircleOfThreeAndOneOfOne) {
  Mutex mutexes[3];
  block_on([&]() -> Coro<> {
    for (int i = 0; i < 3; ++i) {
      const auto a = co_await mutexes[i].lock_op();
      const auto b = co_await mutexes[(i + 1) % 3].lock_op();
    }
  });
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(times(reports[0], "and asked for"), 2U) << reports[0];
  EXPECT_EQ(times(reports[0], "and asks for"), 1U) << reports[0];
  block_on([&] {
    const auto a = mutexes[0].lock();
    EXPECT_FALSE(perform(timeout(mutexes[0].lock_op(), std::chrono::milliseconds(1))).has_value());
  });
  EXPECT_EQ(reports.size(), 2U);
}

// Hand over hand, through a long list and back to its beginning.
TEST_F(LockWatch, S9_ALongWay) {
  std::vector<Mutex> list(3'000);
  block_on([&] {
    Mutex::Guard last = list[0].lock();
    for (std::size_t i = 1; i < list.size(); ++i) last = list[i].lock();
    const auto first = list[0].lock();
  });
  ASSERT_EQ(reports.size(), 1U);
}

TEST_F(LockWatch, S9_ReadingWhatOneHasLockedForWriting) {
  SharedMutex shared;
  block_on([&] {
    const auto writing = shared.lock();
    EXPECT_FALSE(perform(timeout(shared.lock_shared_op(), 1ms)).has_value());
  });
  EXPECT_EQ(reports.size(), 1U);
}

// A guard that outlives its task says nothing about the next one.
TEST_F(LockWatch, S9_AGuardThatIsHandedOn) {
  Mutex mutex;
  Mutex::Guard kept;
  block_on([&] {
    Scope scope;
    scope.spawn([&] { kept = mutex.lock(); });
    scope.join();
    scope.spawn([&] { EXPECT_FALSE(perform(timeout(mutex.lock_op(), 1ms)).has_value()); });
    scope.join();
    kept.unlock();
  });
  EXPECT_TRUE(reports.empty()) << reports[0];
}

TEST_F(LockWatch, S9_AlsoOfThreadsAndOfReaders) {
  Mutex mutex;
  SharedMutex shared;
  std::thread([&] {
    const auto a = mutex.lock();
    const auto b = shared.lock_shared();
  }).join();
  std::thread([&] {
    const auto b = shared.lock();
    const auto a = mutex.lock();
  }).join();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_EQ(times(reports[0], "a plain thread"), 2U) << reports[0];
}

}  // namespace
}  // namespace weft::test

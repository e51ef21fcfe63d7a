#include <weft/wait/leaning_lock.hpp>

#include "support/everywhere.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

/// The calling thread is a worker, and not the only thread: that needs no atomics anyway.
class Seated {
 public:
  Seated() {
    std::thread([] {}).join();
    here_.seat = take_seat();
    set_current(&here_);
  }
  ~Seated() {
    set_current(nullptr);
    give_seat(here_.seat);
  }
  [[nodiscard]] Seat seat() const { return here_.seat; }

 private:
  Current here_;
};

template <class F>
void as_worker(F f) {
  std::thread([&] {
    const Seated worker;
    f(worker.seat());
  }).join();
}

template <class Lock>
void use(Lock& lock, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) const LeaningGuard guard(lock);
}

bool locks_lean() {
  return *why_locks_stand_upright() == '\0';
}

constexpr std::size_t patience = detail::Leaning::first_patience;

TEST(LeaningLock, LeansTowardsWhoUsesItForLong) {
  if (!locks_lean()) GTEST_SKIP() << why_locks_stand_upright();
  LeaningLock lock;
  as_worker([&](Seat me) {
    use(lock, patience);
    EXPECT_EQ(lock.leans_to(), LeaningLock::nobody);
    use(lock, 1);
    EXPECT_EQ(lock.leans_to(), me);
    use(lock, 10);
    EXPECT_EQ(lock.leans_to(), me);
  });
}

TEST(LeaningLock, IsStraightenedByOthersAndThenTakesLonger) {
  if (!locks_lean()) GTEST_SKIP() << why_locks_stand_upright();
  LeaningLock lock;
  const Seated here;
  std::size_t needed = patience;
  for (int round = 0; round < 6; ++round) {
    use(lock, needed);
    EXPECT_EQ(lock.leans_to(), LeaningLock::nobody) << round;
    use(lock, 1);
    EXPECT_EQ(lock.leans_to(), here.seat()) << round;
    std::thread([&] { use(lock, 1); }).join();  // not even a worker
    EXPECT_EQ(lock.leans_to(), LeaningLock::nobody) << round;
    if (round < detail::Leaning::most_straightened) needed *= 4;
  }
}

TEST(LeaningLock, NeverLeansIfOthersUseItToo) {
  LeaningLock lock;
  const Seated here;
  for (int i = 0; i < 20; ++i) {
    use(lock, patience);
    as_worker([&](Seat) { use(lock, patience); });
    std::thread([&] { use(lock, 4 * patience); }).join();
    EXPECT_EQ(lock.leans_to(), LeaningLock::nobody);
  }
}

template <class Lock>
std::vector<std::unique_ptr<Lock>> many_used_for_long(std::size_t count) {
  std::vector<std::unique_ptr<Lock>> locks;
  for (std::size_t i = 0; i < count; ++i) {
    use(*locks.emplace_back(std::make_unique<Lock>()), patience + 1);
  }
  return locks;
}
template <class Locks>
std::size_t leaning(const Locks& locks) {
  return static_cast<std::size_t>(std::count_if(
      locks.begin(), locks.end(), [](const auto& lock) { return lock->leans_to() != 0; }));
}

/// Or cancelling a tree of tasks would take a barrier for each of them.
TEST(LeaningLock, OnlySoManyOfATreeLeanAtATime) {
  if (!locks_lean()) GTEST_SKIP() << why_locks_stand_upright();
  constexpr std::size_t most = detail::LeaningInTree::most;
  const Seated here;
  auto locks = many_used_for_long<LeaningTreeLock>(most + 100);
  EXPECT_EQ(leaning(locks), most);
  // Those that are straightened, or die, make room for others.
  std::thread([&] { use(*locks[0], 1); }).join();
  locks.erase(locks.begin() + 1, locks.begin() + 10);
  EXPECT_EQ(leaning(many_used_for_long<LeaningTreeLock>(100)), 10U);
  EXPECT_EQ(leaning(many_used_for_long<LeaningTreeLock>(100)), 10U);
  // Others are not counted: many may lean that are not used any more.
  EXPECT_EQ(leaning(many_used_for_long<LeaningLock>(most + 100)), most + 100);
}

TEST(LeaningLock, IsHeldHoweverItWasTaken) {
  for (const bool leaning : {false, true}) {
    LeaningLock lock;
    LeaningLock inner;
    const Seated here;
    if (leaning) use(lock, patience + 1);
    if (leaning) use(inner, patience + 1);
    int value = 0;
    std::thread other;
    {
      std::lock_guard guard(lock);
      std::lock_guard second(inner);
      other = std::thread([&] {
        const LeaningGuard third(inner);
        value *= 2;
      });
      for (int i = 0; i < 1'000; ++i) std::this_thread::yield();
      value = 21;
    }
    other.join();
    EXPECT_EQ(value, 42);
    use(lock, 1);
    use(inner, 1);
  }
}

TEST(LeaningLock, SeatsAreUnlikeAndAreUsedAgain) {
  if (!locks_lean()) GTEST_SKIP() << why_locks_stand_upright();
  std::vector<Seat> seats;
  for (Seat seat = take_seat(); seat != no_seat; seat = take_seat()) seats.push_back(seat);
  EXPECT_GE(seats.size(), 100U);
  EXPECT_LE(seats.size(), 254U);
  std::vector<Seat> sorted = seats;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
  EXPECT_NE(sorted.front(), LeaningLock::nobody);
  give_seat(seats[7]);
  EXPECT_EQ(take_seat(), seats[7]);
  for (const Seat seat : seats) give_seat(seat);
}

/// A server may have hundreds that wait for its tasks; its workers need the seats.
TEST(LeaningLock, ThreadsThatOnlyWaitTakeNoSeat) {
  std::thread([] {
    Inline engine;
    EXPECT_EQ(engine.run([] { return current()->seat; }), no_seat);
  }).join();
}

/// Leans at once.
struct Eager : detail::Leaning {
  static constexpr std::uint32_t first_patience = 4;
  static bool begin_to_lean() noexcept { return true; }
  static void stop_leaning() noexcept {}
};

/// Workers and other threads, in bursts that are long enough to make locks lean now and then; two
/// locks, now and then one inside the other. What each guards only ever differs inside.
template <class Lock>
void crowd(std::size_t bursts) {
  struct Guarded {
    Lock lock;
    std::uint64_t first = 0;
    std::uint64_t second = 0;
    std::uint64_t torn = 0;
    void touch() {
      if (first != second) ++torn;
      ++first;
      ++second;
    }
  };
  std::array<Guarded, 2> all;
  std::atomic<std::uint64_t> uses{0};
  const auto work = [&](std::uint32_t number) {
    std::uint32_t dice = number * 2654435761U + 1;
    std::uint64_t mine = 0;
    for (std::size_t b = 0; b < bursts; ++b) {
      dice = dice * 1664525U + 1013904223U;
      const std::size_t length = (dice >> 8) % 4 == 0 ? 1 + (dice >> 16) % 3'000 : (dice >> 16) % 4;
      const bool nested = (dice >> 12) % 4 == 0;
      Guarded& guarded = all[(dice >> 11) % 2];
      for (std::size_t i = 0; i < length; ++i) {
        if (nested) {
          std::lock_guard outer(all[0].lock);
          std::lock_guard inner(all[1].lock);
          all[0].touch();
          all[1].touch();
          mine += 2;
        } else {
          auto& hold = guarded.lock.take();
          guarded.touch();
          guarded.lock.give_back(hold);
          ++mine;
        }
      }
    }
    uses.fetch_add(mine);
  };
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      if (t == 3) {
        work(t);
      } else {
        const Seated worker;
        work(t);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(all[0].first + all[1].first, uses.load());
  EXPECT_EQ(all[0].torn + all[1].torn, 0U);
}

TEST(LeaningLock, C1_ExcludesWhoeverComesHoweverOften) {
  crowd<LeaningLock>(test::scaled(60, 1'500, 20'000));
  crowd<LeaningLockOn<Eager>>(test::scaled(60, 1'500, 20'000));
}

TEST(LeaningLockDeathTest, AWorkerThatTakesItTwiceIsTold) {
  if (!locks_lean()) GTEST_SKIP() << why_locks_stand_upright();
  LeaningLock lock;
  const Seated here;
  use(lock, patience + 2);
  EXPECT_DEATH(
      {
        const LeaningGuard one(lock);
        const LeaningGuard two(lock);
      },
      "a worker takes a lock that it is inside of");
}

}  // namespace
}  // namespace weft

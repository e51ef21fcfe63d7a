#include "io/job_pool.hpp"

#include "support/everywhere.hpp"

#include <latch>
#include <thread>
#include <vector>

using namespace weft;
using namespace weft::test;

namespace {

class CountedJob final : public Job {
 public:
  explicit CountedJob(std::atomic<int>& runs, std::atomic<int>& deaths)
      : runs_(runs), deaths_(deaths) {}
  ~CountedJob() override { ++deaths_; }
  void run() noexcept override {
    EXPECT_FALSE(ran_);
    ran_ = true;
    ++runs_;
  }

 private:
  std::atomic<int>& runs_;
  std::atomic<int>& deaths_;
  bool ran_ = false;
};

TEST(JobPool, C24_NoJobIsLostOrRunTwice) {
  std::atomic<int> runs = 0;
  std::atomic<int> deaths = 0;
  const auto each = static_cast<int>(scaled(300, 3000, 100'000));
  {
    io::JobPool pool(3, 1'000'000);
    auto starter = [&] {
      std::vector<JobRef<CountedJob>> mine;
      for (int i = 0; i < each; ++i) {
        mine.emplace_back(new CountedJob(runs, deaths));
        mine.back()->retain();
        pool.start(*mine.back());
      }
      for (const auto& job : mine) {
        while (!job->done()) std::this_thread::yield();
      }
    };
    std::thread one(starter);
    std::thread two(starter);
    starter();
    one.join();
    two.join();
    EXPECT_FALSE(pool.awaited());
    EXPECT_EQ(runs, 3 * each);
  }
  EXPECT_EQ(deaths, 3 * each);
}

TEST(JobPool, C24_PoolsComeAndGo) {
  std::atomic<int> runs = 0;
  std::atomic<int> deaths = 0;
  const auto rounds = static_cast<int>(scaled(50, 300, 5000));
  for (int i = 0; i < rounds; ++i) {
    io::JobPool pool(4, 100);
    std::vector<JobRef<CountedJob>> kept;
    for (int k = 0; k < i % 8; ++k) {
      kept.emplace_back(new CountedJob(runs, deaths));
      kept.back()->retain();
      pool.start(*kept.back());
    }
    if (i % 2 == 0) kept.clear();
    if (i % 3 == 0) std::this_thread::yield();
  }
  EXPECT_LE(runs, deaths);
}

TEST(JobPool, C24_ThreadsThatEndLoseNoJob) {
  std::atomic<int> runs = 0;
  std::atomic<int> deaths = 0;
  const auto rounds = static_cast<int>(scaled(100, 1000, 20'000));
  Rng rng(3);
  {
    io::JobPool pool(3, 100, 20us);
    for (int i = 0; i < rounds; ++i) {
      const JobRef<CountedJob> job(new CountedJob(runs, deaths));
      job->retain();
      pool.start(*job);
      while (!job->done()) std::this_thread::yield();
      for (auto n = rng.below(200); n > 0; --n) std::this_thread::yield();
    }
    while (pool.idle() > 0) std::this_thread::yield();
  }
  EXPECT_EQ(runs, rounds);
  EXPECT_EQ(deaths, rounds);
}

TEST(JobPool, C24_OverloadedBeginsNothing) {
  std::atomic<int> runs = 0;
  std::atomic<int> deaths = 0;
  {
    io::JobPool pool(1, 0);
    std::latch gate(1);
    std::latch begun(1);
    struct Gated final : Job {
      Gated(std::latch& b, std::latch& g) : begun(b), gate(g) {}
      void run() noexcept override {
        begun.count_down();
        gate.wait();
      }
      std::latch& begun;
      std::latch& gate;
    };
    const JobRef<Gated> first(new Gated(begun, gate));
    first->retain();
    pool.start(*first);
    begun.wait();
    EXPECT_TRUE(pool.awaited());
    EXPECT_EQ(pool.idle(), 0U);
    const JobRef<CountedJob> refused(new CountedJob(runs, deaths));
    EXPECT_THROW(pool.start(*refused), Overloaded);
    EXPECT_FALSE(refused->done());
    gate.count_down();
    while (pool.idle() != 1) std::this_thread::yield();
    EXPECT_FALSE(pool.awaited());
    refused->retain();
    pool.start(*refused);
    while (!refused->done()) std::this_thread::yield();
  }
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(deaths, 1);
}

}  // namespace

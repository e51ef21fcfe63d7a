// Everything at once, on more workers than there are cores: spawn, join, channels, sleeps, yields
// and cancellations at random. Everything that happens is counted twice, and must agree.
#include <weft/weft.hpp>

#include "support/everywhere.hpp"

#include <atomic>
#include <thread>

namespace weft::test {
namespace {

struct Totals {
  std::atomic<std::int64_t> begun{0};
  std::atomic<std::int64_t> ended{0};  // by destructors: cancelled or not
  std::atomic<std::int64_t> sent{0};
  std::atomic<std::int64_t> received{0};
  std::atomic<std::int64_t> operations{0};
  std::atomic<std::int64_t> cancelled{0};
};

class Stress {
 public:
  Stress(Totals& totals, std::int64_t operations) : totals_(totals), left_(operations) {}

  Coro<> body(std::uint32_t seed, int depth) {
    const Alive alive(totals_);
    Rng rng(seed);
    while (left_.fetch_sub(1) > 0) {
      ++totals_.operations;
      switch (rng.below(8)) {
        case 0:
        case 1:
          if (depth < 6 && totals_.begun - totals_.ended < most_alive) {
            co_await spawn_some(rng, depth);
          }
          break;
        case 2: {
          const auto value = static_cast<int>(rng.below(1000));
          // Counted before: once it is received it is too late.
          totals_.sent += value;
          bool done = false;
          const auto undo = [&](const bool* sent) {
            if (!*sent) totals_.sent -= value;
          };
          const std::unique_ptr<bool, decltype(undo)> guard(&done, undo);
          const auto r = co_await race(channel_.send_op(value), sleep_op(20us * rng.below(10)));
          done = r.index() == 0 && std::get<0>(r);
          break;
        }
        case 3: {
          auto r = co_await race(channel_.recv_op(), sleep_op(20us * rng.below(10)));
          if (r.index() == 0 && std::get<0>(r)) totals_.received += *std::get<0>(r);
          break;
        }
        case 4:
          co_await sleep_op(1us * rng.below(50));
          break;
        case 5:
          co_await next_turn();
          break;
        case 6:
          co_await timeout(10us * rng.below(20), [&]() -> Coro<int> {
            co_await sleep_op(10us * rng.below(20));
            co_return 1;
          });
          break;
        default:
          for (std::uint32_t i = rng.below(200); i > 0; --i) asm volatile("" ::: "memory");
      }
    }
  }

  void drain() {
    channel_.close();
    while (auto got = channel_.recv()) totals_.received += *got;
  }

 private:
  static constexpr int most_alive = 4'000;  // ThreadSanitizer knows 8,128 threads, and fibers
  struct Alive {
    explicit Alive(Totals& t) : totals(t) { ++totals.begun; }
    ~Alive() { ++totals.ended; }
    Totals& totals;
  };

  Coro<> spawn_some(Rng& rng, int depth) {
    Scope scope({.on_failure = OnFailure::isolate});
    std::vector<JoinHandle<void>> children;
    const std::uint32_t count = 1 + rng.below(4);
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto seed = static_cast<std::uint32_t>(rng.next());
      if (rng.below(2) == 0) {
        children.push_back(scope.spawn([this, seed, depth] { return body(seed, depth + 1); }));
      } else {
        children.push_back(
            scope.spawn([this, seed, depth] { await(body(seed, depth + 1)); },
                        {.worker = static_cast<std::uint16_t>(rng.below(3) == 0 ? seed % 64 : 0)}));
      }
    }
    if (rng.below(3) == 0) children[rng.below(count)].cancel();
    if (rng.below(4) == 0) {
      co_await sleep_op(10us * rng.below(10));
      scope.cancel();
    }
    for (auto& child : children) {
      if ((co_await child.join_op()).cancelled()) ++totals_.cancelled;
    }
    co_await scope.joined();
  }

  Totals& totals_;
  std::atomic<std::int64_t> left_;
  Channel<int> channel_{8};
};

class PoolStress : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Workers, PoolStress, testing::Values(1, 2, 64),
                         [](const auto& test) { return std::to_string(test.param); });

TEST_P(PoolStress, C1_NothingIsLost) {
  const auto operations = static_cast<std::int64_t>(scaled(4'000, 200'000, 10'000'000));
  {
    const Pool warm_up({.workers = 1});
  }
  const auto before = live_allocations();
  {
    Totals totals;
    Stress stress(totals, operations);
    Pool pool({.workers = GetParam(), .report_stuck_after = Duration::zero()});
    pool.run([&]() -> Coro<> {
      Scope scope;
      for (std::uint32_t i = 1; i <= 200; ++i) {
        scope.spawn([&stress, i] { return stress.body(i, 0); });
      }
      co_await scope.joined();
    });
    stress.drain();
    EXPECT_EQ(totals.begun, totals.ended);
    EXPECT_EQ(totals.sent, totals.received);
    EXPECT_GE(totals.operations, operations);
    EXPECT_GT(totals.cancelled, 0);
    EXPECT_EQ(pool.live(), 0U);
    EXPECT_EQ(pool.stats().timers, 0U);
  }
  EXPECT_EQ(live_allocations(), before) << "something was allocated and not freed";
}

}  // namespace
}  // namespace weft::test

/// Fibers, coroutines and plain threads on the same channels: sends, receives, selects, timeouts
/// and kills at random. Every value that was sent is received once, or was given back to its
/// sender.
#include <weft/sync/channel.hpp>

#include "support/everywhere.hpp"

#include <thread>

namespace weft::test {
namespace {

class Mixed {
 public:
  explicit Mixed(std::size_t operations) : left_(static_cast<long>(operations)) {}

  /// One of a task's or thread's steps; false: enough.
  bool more() { return left_.fetch_sub(1) > 0; }

  Coro<void> step(Rng& rng) {
    Channel<std::uint64_t>& one = any(rng);
    Channel<std::uint64_t>& other = any(rng);
    const Duration limit = 5us * rng.below(4);
    switch (rng.below(6)) {
      case 0:
        note(co_await timeout(one.recv_op(), limit));
        break;
      case 1: {
        const std::uint64_t value = fresh(rng);
        const auto sent = co_await timeout(one.send_op(value), limit);
        if (sent && *sent) sent_ += value;
        break;
      }
      case 2: {  // either way, on two channels or on one
        const std::uint64_t value = fresh(rng);
        auto r = co_await race(one.recv_op(), other.send_op(value), sleep_op(limit));
        if (r.index() == 0) received_ += std::get<0>(r).value_or(0);
        if (r.index() == 1 && std::get<1>(r)) sent_ += value;
        break;
      }
      case 3: {
        auto r = co_await race(one.recv_op(), other.recv_op(), sleep_op(limit));
        if (r.index() == 0) received_ += std::get<0>(r).value_or(0);
        if (r.index() == 1) received_ += std::get<1>(r).value_or(0);
        break;
      }
      case 4:
        received_ += one.try_recv().value_or(0);
        break;
      default: {
        const std::uint64_t value = fresh(rng);
        if (one.try_send(value)) sent_ += value;
      }
    }
  }

  void drain() {
    for (auto& channel : channels_) {
      while (auto value = channel.try_recv()) received_ += *value;
    }
  }
  [[nodiscard]] std::uint64_t sent() const { return sent_; }
  [[nodiscard]] std::uint64_t received() const { return received_; }

 private:
  Channel<std::uint64_t>& any(Rng& rng) { return channels_[rng.below(4)]; }
  static std::uint64_t fresh(Rng& rng) { return rng.next() >> 32; }
  void note(const std::optional<std::optional<std::uint64_t>>& got) {
    if (got) received_ += got->value_or(0);
  }

  std::atomic<long> left_;
  std::atomic<std::uint64_t> sent_{0};
  std::atomic<std::uint64_t> received_{0};
  std::array<Channel<std::uint64_t>, 4> channels_{
      Channel<std::uint64_t>(0), Channel<std::uint64_t>(1), Channel<std::uint64_t>(16),
      Channel<std::uint64_t>(128)};
};

/// A killed task was in a step, or between two: what it had sent or received by then is noted,
/// since nothing is taken by a wait that is cancelled.
TEST(Mixed, C18_ValuesAreConserved) {
  const std::size_t operations = scaled(20'000, 300'000, 5'000'000);
  Mixed mixed(operations);
  Pool pool({.workers = 4, .report_stuck_after = Duration::zero()});
  std::vector<std::thread> threads;
  std::atomic<bool> over{false};
  for (unsigned i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      Rng rng(1'000 + i);
      while (!over) await(mixed.step(rng));
    });
  }
  pool.run([&] {
    Scope scope;
    while (mixed.more()) {
      std::vector<JoinHandle<void>> crew;
      for (std::uint64_t i = 0; i < 32; ++i) {
        const std::uint64_t seed = choose(1'000'000'000);
        const auto body = [&mixed, seed]() -> Coro<> {
          Rng rng(seed);
          for (int k = 0; k < 64 && mixed.more(); ++k) co_await mixed.step(rng);
        };
        crew.push_back(i % 2 == 0 ? scope.spawn(body) : scope.spawn([body] { await(body()); }));
      }
      for (std::size_t i = 0; i < crew.size(); i += 5) crew[i].cancel();
      scope.join();
    }
  });
  over = true;
  for (auto& thread : threads) thread.join();
  mixed.drain();
  EXPECT_GT(mixed.sent(), 0U);
  EXPECT_EQ(mixed.sent(), mixed.received());
}

}  // namespace
}  // namespace weft::test

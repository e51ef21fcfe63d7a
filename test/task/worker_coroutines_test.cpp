// Coroutines that wait go straight on with the next one, on the same stack
// (Worker::park_coroutine).
#include "support/everywhere.hpp"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace weft::test {
namespace {

/// On a loop, and on pools with and without thieves.
template <class F>
void on_engines(F body) {
  Loop loop;
  loop.run(body);
  for (const std::size_t workers : {1U, 3U}) {
    Pool pool({.workers = workers, .report_stuck_after = Duration::zero(), .most_spares = 0});
    pool.run(body);
  }
}

/// Coroutines that pass a value on to the next, in a ring.
class Ring {
 public:
  explicit Ring(std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) links_.push_back(std::make_unique<Channel<int>>());
  }
  /// Until somebody receives `last`.
  void run(Scope& scope, int last) {
    for (std::size_t i = 0; i < links_.size(); ++i) scope.spawn(member(i, last));
    scope.spawn([this]() -> Coro<> { co_await links_[0]->send_op(0); });
  }
  void stop() {
    for (auto& link : links_) link->close();
  }
  [[nodiscard]] int seen() const { return seen_; }

 private:
  Coro<> member(std::size_t i, int last) {
    std::array<std::string, 16> parts;  // a large frame
    while (const auto value = co_await links_[i]->recv_op()) {
      parts[static_cast<std::size_t>(*value) % parts.size()] = std::to_string(*value);
      if (*value == last) {
        seen_ = last;
        stop();
      }
      co_await links_[(i + 1) % links_.size()]->send_op(*value + 1);
    }
  }
  std::vector<std::unique_ptr<Channel<int>>> links_;
  int seen_ = -1;
};

// Also where a transfer is a call (without optimisation).
TEST(WorkerCoroutines, F16_WaitsUseNoStack) {
  for (const std::size_t size : {2U, 5U}) {
    on_engines([=] {
      Ring ring(size);
      {
        Scope scope;
        ring.run(scope, 5'000);
      }
      EXPECT_EQ(ring.seen(), 5'000);
    });
  }
}

// After so many turns somebody looks at timers, and at those who are not coroutines.
TEST(WorkerCoroutines, C25_ThoseThatWakeEachOtherForEverHoldUpNobody) {
  on_engines([] {
    Ring ring(2);
    Scope scope;
    ring.run(scope, -1);
    for (int i = 0; i < 10; ++i) {
      yield();
      sleep(std::chrono::microseconds(1));
    }
    ring.stop();
  });
}

}  // namespace
}  // namespace weft::test

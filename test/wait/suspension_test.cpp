// What an operation owes to its suspension.
#include <weft/base/spinlock.hpp>

#include "support/everywhere.hpp"

#include <cfenv>
#include <mutex>

namespace weft::test {
namespace {

/// Wakes its first waiter and forgets to take it out of the line.
class Careless {
 public:
  struct WaitOp {
    using Result = void;
    static constexpr Reason reason{"careless"};
    Careless& from;
    ObjectId object() const noexcept { return from.id_; }
    bool try_now() const noexcept { return false; }
    Armed arm(Arm& arm) const {
      std::lock_guard guard(from.lock_);
      from.line_.push_back(arm);
      return Armed::waiting;
    }
    void disarm(Arm& arm) const noexcept {
      std::lock_guard guard(from.lock_);
      arm.unlink();
    }
    void take() const noexcept {}
  };
  void wake(bool unlink) {
    WakeList wakes;
    std::lock_guard guard(lock_);
    Arm* const arm = line_.front();
    if (arm == nullptr || !arm->claim()) return;
    if (unlink) arm->unlink();
    wakes.add(*arm);
  }

 private:
  const ObjectId id_ = new_object_id();
  Spinlock lock_;
  List<Arm> line_;
};

bool ends_well(bool unlink) {
  bool ended = false;
  Careless careless;
  Loop loop;
  loop.spawn([&] {
    perform(Careless::WaitOp{careless});
    ended = true;
  });
  loop.spawn([&] {
    yield();
    careless.wake(unlink);
  });
  loop.run();
  return ended;
}

// Else the line would go on through a frame that is gone.
TEST(SuspensionDeathTest, WhoIsWokenIsOutOfTheLine) {
  EXPECT_TRUE(ends_well(true));
  EXPECT_DEATH(ends_well(false), "an operation \\(careless\\) is over and still in a queue");
}

/// Forgets to claim, and says that it has won.
struct BoastfulOp {
  using Result = void;
  static constexpr Reason reason{"boastful"};
  bool claims;
  static ObjectId object() noexcept { return ObjectId::none; }
  static bool try_now() noexcept { return false; }
  Armed arm(Arm& arm) const noexcept { return !claims || arm.claim() ? Armed::won : Armed::lost; }
  static void disarm(Arm&) noexcept {}
  static void take() noexcept {}
};

TEST(SuspensionDeathTest, WhoHasWonHasClaimed) {
  const auto perform_it = [](bool claims) {
    Loop().run([=]() -> Coro<> { co_await BoastfulOp{claims}; });
  };
  perform_it(true);
  EXPECT_DEATH(perform_it(false), "boastful.*has won, and has not claimed");
}

/// Values that a compiler keeps in registers across a call.
template <class Wait>
[[gnu::noinline]] std::uint64_t mix(std::uint64_t seed, int rounds, Wait wait) {
  std::uint64_t a = seed, b = seed + 1, c = seed * 3, d = seed ^ 5, e = seed + 7, f = seed * 11;
  for (int i = 0; i < rounds; ++i) {
    a = a * 31 + f;
    b ^= a;
    wait();
    c += b * 7;
    d = (d << 3) ^ c;
    wait();
    e += d;
    f = f * 13 + e;
  }
  return a ^ b ^ c ^ d ^ e ^ f;
}

/// `rounding`: of one of the tasks; another one than usual makes its switches others.
template <class Engine>
void meet_in_the_middle(Engine& engine, int rounding) {
  constexpr int rounds = 200;
  const auto nothing = [] {};
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  engine.run([&] {
    Channel<int> there;
    Channel<int> back;
    Scope scope;
    scope.spawn([&] {
      std::fesetround(rounding);
      first = mix(1, rounds, [&] { there.send(1); });
      EXPECT_EQ(std::fegetround(), rounding);
    });
    scope.spawn([&] { second = mix(2, rounds, [&] { back.recv(); }); });
    scope.spawn([&] {
      for (int i = 0; i < 2 * rounds; ++i) {
        there.recv();
        EXPECT_EQ(std::fegetround(), FE_TONEAREST);
        back.send(i);
      }
    });
  });
  EXPECT_EQ(first, mix(1, rounds, nothing));
  EXPECT_EQ(second, mix(2, rounds, nothing));
}

TEST(Suspension, C1_RegistersSurviveAWait) {
  for (const int rounding : {FE_TONEAREST, FE_UPWARD}) {
    Loop loop;
    meet_in_the_middle(loop, rounding);
    Pool pool({.workers = 2});
    meet_in_the_middle(pool, rounding);
  }
}

}  // namespace
}  // namespace weft::test

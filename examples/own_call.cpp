// A system call of one's own: a bell, and an operation that waits until it has rung so many times.
// The library knows nothing of it; and yet it can be timed, raced, cancelled, awaited by
// coroutines, and shows up in dumps.
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>
#include <mutex>

using namespace std::chrono_literals;

namespace {

class Bell {
 public:
  void ring() {
    weft::WakeList wakes;  // wakes those it holds when it goes, after the lock
    const std::lock_guard guard(lock_);
    ++rung_;
    for (weft::Arm* arm = waiting_.front(); arm != nullptr;) {
      weft::Arm* const next = waiting_.next(*arm);
      if (*static_cast<const int*>(arm->slot) <= rung_) {
        arm->unlink();
        if (arm->claim()) wakes.add(*arm);
      }
      arm = next;
    }
  }

  class RungOp {
   public:
    using Result = int;
    static constexpr weft::Reason reason{"bell"};

    RungOp(Bell& bell, int times) : bell_(bell), times_(times) {}
    weft::ObjectId object() const noexcept { return bell_.id_; }
    bool try_now() const {
      const std::lock_guard guard(bell_.lock_);
      return bell_.rung_ >= times_;
    }
    weft::Armed arm(weft::Arm& arm) {
      const std::lock_guard guard(bell_.lock_);
      if (bell_.rung_ >= times_) return arm.claim() ? weft::Armed::won : weft::Armed::lost;
      arm.slot = &times_;
      bell_.waiting_.push_back(arm);
      return weft::Armed::waiting;
    }
    void disarm(weft::Arm& arm) noexcept {
      const std::lock_guard guard(bell_.lock_);
      arm.unlink();
    }
    int take() const noexcept { return times_; }

   private:
    Bell& bell_;
    int times_;
  };
  RungOp rung_op(int times) { return {*this, times}; }

 private:
  const weft::ObjectId id_ = weft::new_object_id();
  weft::Spinlock lock_;
  weft::List<weft::Arm> waiting_;  // under lock_
  int rung_ = 0;                   // under lock_
};

weft::Coro<> listen(Bell& bell) {
  std::printf("a coroutine heard it %d times\n", co_await bell.rung_op(3));
}

}  // namespace

int main() {
  weft::Loop loop({.kernel = weft::make_virtual_kernel()});
  loop.run([] {
    Bell bell;
    weft::Scope scope;
    scope.spawn(listen(bell));
    scope.spawn(
        [&] { std::printf("a fiber heard it %d times\n", weft::perform(bell.rung_op(2))); });
    scope.spawn([&] {
      const auto r = weft::select(bell.rung_op(100), weft::sleep_op(1s));
      std::puts(r.index() == 1 ? "nobody rings a hundred times a second" : "what a noise");
    });
    for (int i = 0; i < 3; ++i) {
      weft::sleep(1ms);
      bell.ring();
    }
  });
  return 0;
}

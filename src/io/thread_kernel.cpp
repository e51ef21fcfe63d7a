// A futex, for threads that wait for other threads and for time: making one costs nothing, so each
// wait of a plain thread can have its own. Descriptors and jobs are rare there; the first one
// brings an epoll kernel, which does the waiting from then on.
#include <weft/io/slow_call.hpp>

#include "io/clock.hpp"
#include "io/real_kernel.hpp"

#include <atomic>

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft::io {

namespace {

class ThreadKernel final : public Kernel {
 public:
  Instant now() noexcept override { return monotonic_now(); }
  Duration patience() const noexcept override { return std::chrono::milliseconds(100); }
  std::shared_ptr<World> world() override { return machine(); }
  Description describe() const override { return {"futex", "one thread, no descriptors yet"}; }
  ~ThreadKernel() override { delete full_.load(); }

  // The thread that waits is the one that asks for the epoll kernel, so wait() and full() do not
  // overlap. An interrupt() leaves its token first and then looks for the epoll kernel; wait()
  // looks for the kernel first and then takes the token. Whatever the order, one of them sees the
  // other.
  void wait(Instant deadline) override {
    if (Kernel* full = full_.load()) {
      if (token_.exchange(0) != 0) deadline = Instant{};
      full->wait(deadline);
      token_.store(0);
      return;
    }
    // acquire: partner is the exchange in interrupt().
    if (token_.exchange(0, std::memory_order_acquire) != 0) return;
    timespec until{};
    if (!deadline.is_never()) until = to_timespec(std::max(deadline - Instant{}, Duration(0)));
    // FUTEX_WAIT_BITSET takes an absolute deadline on the monotonic clock.
    ::syscall(SYS_futex, &token_, FUTEX_WAIT_BITSET_PRIVATE, 0,
              deadline.is_never() ? nullptr : &until, nullptr, FUTEX_BITSET_MATCH_ANY);
    token_.exchange(0, std::memory_order_acquire);  // acquire: as above
  }

  void interrupt() noexcept override {
    if (token_.exchange(1) == 0) {
      ::syscall(SYS_futex, &token_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
    if (Kernel* full = full_.load()) full->interrupt();
  }

  bool expects() noexcept override {
    Kernel* full = full_.load();
    return full != nullptr && full->expects();
  }
  bool outside_may_wake(std::size_t own) noexcept override {
    Kernel* full = full_.load();
    return full != nullptr ? full->outside_may_wake(own) : other_threads() > own;
  }

  Kernel& watcher() override { return full(); }
  void start(Job& job) override { full().start(job); }
  void start(SlowCall& call) override { full().start(call); }

 private:
  Kernel& full() {
    if (Kernel* have = full_.load()) return *have;
    use();
    auto made = make_epoll_kernel({}, "a plain thread waits for a descriptor");
    full_.store(made.get());
    return *made.release();
  }

  std::atomic<std::uint32_t> token_{0};
  std::atomic<Kernel*> full_{nullptr};  // written once, by the thread that waits
};

}  // namespace
}  // namespace weft::io

namespace weft {

std::unique_ptr<Kernel> make_thread_kernel() {
  return std::make_unique<io::ThreadKernel>();
}

}  // namespace weft

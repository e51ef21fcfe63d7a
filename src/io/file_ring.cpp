#include "io/file_ring.hpp"

#include <weft/io/world.hpp>

#if defined(WEFT_HAVE_LIBURING)

#include "io/uring_calls.hpp"
#include "io/uring_ring.hpp"

#include <array>
#include <atomic>
#include <mutex>

#include <sched.h>

namespace weft::io {

namespace {

class UringFileRing final : public FileRing {
 public:
  UringFileRing(JobPool& pool, FileRingLimits limits)
      : ring_({.submissions = 64, .completions = 4096, .interrupts = true}),
        calls_(ring_, pool, limits.calls) {
    // By itself the machine takes four for each processor, and calls that block would soon have
    // used them up. If it does not obey, so be it.
    std::array<unsigned, 2> threads{};
    threads.fill(static_cast<unsigned>(limits.threads));
    static_cast<void>(::io_uring_register_iowq_max_workers(&ring_.raw(), threads.data()));
  }
  ~UringFileRing() override;

  int fd() const noexcept override { return ring_.fd(); }
  void start(SlowCall& call) override {
    calls_.push(call, [] {});
    submit();
    collect();
  }
  void collect() noexcept override;
  bool busy() const noexcept override { return calls_.count() > 0; }

 private:
  void submit() noexcept;

  Ring ring_;
  CallsInFlight calls_;
  std::atomic<bool> closing_{false};
};

// Not under the lock: it is for a few instructions, and the machine may read and copy meanwhile. It
// has a lock of its own. Each thread goes on until what it has pushed is submitted, by whomever.
void UringFileRing::submit() noexcept {
  for (;;) {
    unsigned pending = 0;
    {
      std::lock_guard guard(ring_.lock());
      pending = ring_.pending();
    }
    if (pending == 0) return;
    if (!ring_.look(pending)) {  // it wants completions to be taken first, or has no memory
      collect();
      ::sched_yield();
    }
  }
}

// Completions are taken under the lock, some at a time, and dealt with outside: that makes tasks
// ready.
void UringFileRing::collect() noexcept {
  std::array<io_uring_cqe, 32> taken;
  for (std::size_t count = taken.size(); count == taken.size();) {
    count = 0;
    {
      std::lock_guard guard(ring_.lock());
      while (count < taken.size() && ring_.completed() > 0) taken[count++] = ring_.take();
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (tag_of(taken[i].user_data) != Tag::nothing) calls_.came_back(taken[i], closing_.load());
    }
    if (ring_.wants_look() && ring_.look(0)) count = taken.size();  // there were too many
  }
}

// A call's buffer is the machine's until it comes back.
UringFileRing::~UringFileRing() {
  closing_.store(true);
  const timespec a_while{0, 100'000'000};
  for (; busy(); collect()) {
    {
      std::lock_guard guard(ring_.lock());
      ring_.push(data_of(Tag::nothing), [](io_uring_sqe* sqe) {
        ::io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
      });
    }
    submit();
    collect();
    if (busy()) ring_.sleep(0, &a_while);
  }
}

}  // namespace

bool fits_file_ring(const SlowCall& call) noexcept {
  return fits_uring(call);
}

std::unique_ptr<FileRing> make_file_ring(JobPool& pool, FileRingLimits limits) {
  return std::make_unique<UringFileRing>(pool, limits);
}

}  // namespace weft::io

#else

namespace weft::io {

bool fits_file_ring(const SlowCall&) noexcept {
  return false;
}

std::unique_ptr<FileRing> make_file_ring(JobPool&, FileRingLimits) {
  throw_sys_error(-ENOTSUP, "io_uring");
}

}  // namespace weft::io

#endif

#include "io/file_ring.hpp"

#include <weft/io/world.hpp>

#if defined(WEFT_HAVE_LIBURING)

#include "io/real_kernel.hpp"
#include "io/uring_calls.hpp"
#include "io/uring_ring.hpp"

#include <array>
#include <atomic>
#include <mutex>

namespace weft::io {

namespace {

class UringFileRing final : public FileRing {
 public:
  UringFileRing(JobPool& pool, std::size_t most)
      : ring_({.submissions = 64, .completions = 4096, .interrupts = true}),
        calls_(ring_, pool, most) {}
  ~UringFileRing() override;

  int fd() const noexcept override { return ring_.fd(); }
  bool start(SlowCall& call) override {
    if (!fits_uring(call)) return false;
    bool submitted = false;
    calls_.push(call, [&] {
      submitted = driver_ != this_thread();
      if (submitted) ring_.submit();
    });
    if (submitted) collect();
    return true;
  }
  bool submit(bool elsewhere) noexcept override {
    {
      std::lock_guard guard(ring_.lock());
      driver_ = elsewhere ? 0 : this_thread();
      if (ring_.pending() == 0) return false;
      ring_.submit();
    }
    return collect();
  }
  bool collect() noexcept override;
  bool busy() const noexcept override { return calls_.count() > 0; }

 private:
  Ring ring_;
  CallsInFlight calls_;
  std::uintptr_t driver_ =
      0;  // under the ring's lock: who was last about to wait, and will be again
  std::atomic<bool> closing_{false};
};

// Completions are taken under the lock, some at a time, and dealt with outside: that makes tasks
// ready.
bool UringFileRing::collect() noexcept {
  bool any = false;
  std::array<io_uring_cqe, 32> taken;
  for (std::size_t count = taken.size(); count == taken.size();) {
    count = 0;
    {
      std::lock_guard guard(ring_.lock());
      if (ring_.wants_look()) ring_.look(0);
      while (count < taken.size() && ring_.completed() > 0) taken[count++] = ring_.take();
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (tag_of(taken[i].user_data) != Tag::nothing) calls_.came_back(taken[i], closing_.load());
    }
    any = any || count > 0;
  }
  return any;
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
    submit(true);
    if (busy()) ring_.sleep(0, &a_while);
  }
}

}  // namespace

std::unique_ptr<FileRing> make_file_ring(JobPool& pool, std::size_t most) {
  return std::make_unique<UringFileRing>(pool, most);
}

}  // namespace weft::io

#else

namespace weft::io {

std::unique_ptr<FileRing> make_file_ring(JobPool&, std::size_t) {
  throw_sys_error(-ENOTSUP, "io_uring");
}

}  // namespace weft::io

#endif

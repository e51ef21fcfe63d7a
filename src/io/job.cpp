#include <weft/io/job.hpp>

#include <weft/io/kernel.hpp>
#include <weft/io/slow_call.hpp>
#include <weft/task/io.hpp>

namespace weft {

Armed Job::arm(Arm& arm) {
  {
    std::lock_guard guard(lock_);
    if (done()) return arm.claim() ? Armed::won : Armed::lost;
    waiter_ = &arm;
  }
  if (!started_) {
    retain();  // for the kernel
    started_ = true;
    try {
      begin(arm.wait->io().kernel());
    } catch (...) {
      started_ = false;
      release();
      disarm(arm);
      throw;
    }
  }
  return Armed::waiting;
}

void Job::begin(Kernel& kernel) {
  kernel.start(*this);
}

void Job::disarm(Arm& arm) noexcept {
  std::lock_guard guard(lock_);
  if (waiter_ == &arm) waiter_ = nullptr;
}

void Job::complete() noexcept {
  {
    WakeList wakes;
    std::lock_guard guard(lock_);
    done_.store(true, std::memory_order_release);  // release: partner is the load in done()
    Arm* arm = std::exchange(waiter_, nullptr);
    if (arm != nullptr && arm->claim()) wakes.add(*arm);
  }
  release();
}

void Job::release() noexcept {
  // acq_rel: release our use of the job to the last holder; acquire everybody's.
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void SlowCall::begin(Kernel& kernel) {
  kernel.start(*this);
}

SlowCall::~SlowCall() {
  if (code == Code::open && done() && result >= 0 && !taken) world->close(static_cast<int>(result));
}

}  // namespace weft

// The kernel on io_uring: what it consists of. uring_kernel.cpp waits and watches,
// uring_carrier.cpp receives and sends.
#pragma once

#include "io/real_kernel.hpp"
#include "io/receive_buffers.hpp"
#include "io/uring_calls.hpp"
#include "io/uring_ring.hpp"

#include <atomic>
#include <cstdint>
#include <string>

#include <sys/eventfd.h>
#include <unistd.h>

namespace weft::io {

class UringKernel final : public RealKernel, private Carrier {
 public:
  UringKernel(const KernelOptions& options, std::string why)
      : RealKernel(options),
        why_(std::move(why)),
        ring_({.submissions = 256, .completions = 4096}),
        calls_(ring_, pool_, options.most_threads + options.most_queued),
        event_{.fd = checked_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")} {}
  ~UringKernel() override;

  Description describe() const override { return {"io_uring", why_}; }
  void wait(Instant deadline) override;
  void interrupt() noexcept override {
    const int saved = errno;
    const std::uint64_t one = 1;
    // The number is never read: every write is a change, and that is what the poll reports.
    [[maybe_unused]] const auto n = ::write(event_.fd.get(), &one, sizeof one);
    errno = saved;
  }
  bool expects() noexcept override {
    return RealKernel::expects() || calls_.count() > 0 || !outgoing_.empty() || sends_ > 0;
  }
  void begin_driving() noexcept override {
    carries_for_.store(this_thread(), std::memory_order_relaxed);  // relaxed: see carrier()
  }
  void end_driving() noexcept override;
  Carrier* carrier() noexcept override {
    // relaxed: only the thread that has written it finds itself there.
    return carries_for_.load(std::memory_order_relaxed) == this_thread() ? this : nullptr;
  }
  int poll_fd(Instant deadline) override;
  void watch(Source& source) override;
  void unwatch(Source& source) noexcept override;
  using RealKernel::start;
  void start(SlowCall& call) override;

 private:
  bool receive(Source& source, std::size_t most, bool again) override;
  void stop_receiving(Source& source) noexcept override;
  void catch_up() noexcept override;
  void send(Arm& arm) noexcept override { outgoing_.push_back(arm); }

  /// A descriptor of ours that ends a wait.
  struct Inner {
    UniqueFd fd;
    std::uintptr_t home = 0;
    Registration::Request poll{};
  };

  // All of these under the ring's lock.
  /// Of a Registration, or an Inner.
  template <class Polled>
  void begin_poll(Polled& polled, int fd, int events, std::uint64_t data) noexcept;
  void begin_watching(Registration& registration) noexcept;
  void end(Registration::Request& request, std::uint64_t data) noexcept;
  void end_receive(Registration& registration) noexcept {
    if (registration.receive.in_flight) {
      end(registration.receive, data_of(Tag::receive, &registration));
    }
  }
  void bring_home(Inner& inner, Tag tag) noexcept;
  void submit_if_due() noexcept {
    if (driver_ != this_thread() || slept_elsewhere_) ring_.submit();
  }

  [[nodiscard]] Registration& registration_of(Source& source) {
    return source.registration != nullptr ? *static_cast<Registration*>(source.registration)
                                          : watched_.add(source);
  }
  void begin_sends(WakeList& wakes) noexcept;
  void take_completions() noexcept;
  void on_receive(Registration& registration, io_uring_cqe cqe, WakeList& wakes) noexcept;
  void on_sent(Arm& arm, int result, WakeList& wakes) noexcept;
  void on_poll(Registration& registration, int result, bool last, WakeList& wakes) noexcept;
  void on_last_poll(Registration& registration, int result) noexcept;
  void on_inner(Inner& inner, Tag tag, bool last) noexcept;

  const std::string why_;
  Ring ring_;
  CallsInFlight calls_;
  // Under the ring's lock, like all Requests.
  Inner event_;
  Inner timer_;
  std::uintptr_t driver_ = 0;     // the thread that was last in wait()
  bool slept_elsewhere_ = false;  // after poll_fd()
  bool closing_ = false;
  std::size_t requests_ = 0;  // of registrations, in flight
  std::size_t receives_ = 0;  // of these
  // Of the thread that drives:
  std::atomic<std::uintptr_t> carries_for_{0};
  ReceiveBuffers buffers_{ring_};
  bool repeats_ = true;                       // the machine can receive again and again
  List<Arm> outgoing_;                        // sends that have not begun
  std::size_t sends_ = 0;                     // that have
  const Registration* told_again_ = nullptr;  // see on_receive()
};

}  // namespace weft::io

// The machine's clock, epoll, eventfd and futex: with src/io as a whole, the only place that
// touches them.
#include <weft/io/kernel.hpp>
#include <weft/stack/sanitizer.hpp>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <system_error>

#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace weft {

namespace {

UniqueFd checked(int fd, const char* what) {
  if (fd < 0) {
    throw std::system_error(errno, std::generic_category(),
                            std::string(what) + " failed while setting up an Io");
  }
  return UniqueFd(fd);
}

Instant monotonic_now() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant(std::chrono::seconds(t.tv_sec) + Duration(t.tv_nsec));
}

timespec to_timespec(Duration d) noexcept {
  const auto s = std::chrono::duration_cast<std::chrono::seconds>(d);
  return timespec{static_cast<time_t>(s.count()), static_cast<long>((d - s).count())};
}

/// Threads of this process other than the calling one.
bool other_threads() noexcept {
  std::FILE* status = std::fopen("/proc/self/status", "re");
  if (status == nullptr) return true;  // cannot tell: assume there are
  char line[256];
  int threads = 2;
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "Threads: %d", &threads) == 1) break;
  }
  std::fclose(status);
#if defined(WEFT_TSAN)
  --threads;  // ThreadSanitizer's own
#endif
  return threads > 1;
}

class RealKernel final : public Kernel {
 public:
  RealKernel()
      : epoll_(checked(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        event_(checked(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")) {
    watch(event_.get());
  }

  Instant now() noexcept override { return monotonic_now(); }

  void wait(Instant deadline) override {
    epoll_event events[4];
    timespec timeout{};
    timespec* limit = nullptr;
    if (!deadline.is_never()) {
      const Duration left = deadline - now();
      timeout = to_timespec(left > Duration::zero() ? left : Duration::zero());
      limit = &timeout;
    }
    const int n = wait_for_events(events, limit);
    for (int i = 0; i < n; ++i) drain(events[i].data.fd);
  }

  void interrupt() noexcept override {
    const int saved = errno;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(event_.get(), &one, sizeof one);  // full is fine too
    errno = saved;
  }

  bool outside_may_wake() noexcept override { return other_threads(); }
  Duration patience() const noexcept override { return std::chrono::milliseconds(100); }

  int poll_fd(Instant deadline) override {
    if (!timer_) {
      timer_ =
          checked(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
      watch(timer_.get());
    }
    itimerspec when{};  // zero disarms
    if (!deadline.is_never()) {
      when.it_value = to_timespec(std::max(deadline - Instant{}, Duration(1)));
    }
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
    return epoll_.get();
  }

 private:
  void watch(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw std::system_error(errno, std::generic_category(), "epoll_ctl failed");
    }
  }

  int wait_for_events(epoll_event (&events)[4], const timespec* limit) {
    // epoll_pwait2 (Linux 5.11) waits to the nanosecond; where it is missing, round up to
    // milliseconds.
    if (has_pwait2_) {
      const int n = ::epoll_pwait2(epoll_.get(), events, 4, limit, nullptr);
      if (n >= 0 || errno != ENOSYS) return n;
      has_pwait2_ = false;
    }
    const auto ms =
        limit == nullptr ? -1 : limit->tv_sec * 1000 + (limit->tv_nsec + 999999) / 1000000;
    return ::epoll_wait(epoll_.get(), events, 4,
                        static_cast<int>(std::min<long>(ms, 24L * 3600 * 1000)));
  }

  static void drain(int fd) noexcept {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(fd, &count, sizeof count);
  }

  const UniqueFd epoll_;
  const UniqueFd event_;
  UniqueFd timer_;
  bool has_pwait2_ = true;
};

class ThreadKernel final : public Kernel {
 public:
  Instant now() noexcept override { return monotonic_now(); }

  void wait(Instant deadline) override {
    // acquire: partner is the release exchange in interrupt().
    if (token_.exchange(0, std::memory_order_acquire) != 0) return;
    timespec until{};
    timespec* limit = nullptr;
    if (!deadline.is_never()) {
      until = to_timespec(std::max(deadline - Instant{}, Duration(0)));
      limit = &until;
    }
    // FUTEX_WAIT_BITSET takes an absolute deadline on the monotonic clock.
    ::syscall(SYS_futex, &token_, FUTEX_WAIT_BITSET_PRIVATE, 0, limit, nullptr,
              FUTEX_BITSET_MATCH_ANY);
    token_.exchange(0, std::memory_order_acquire);  // acquire: as above
  }

  void interrupt() noexcept override {
    // release: partner is the acquire exchange in wait().
    if (token_.exchange(1, std::memory_order_release) == 0) {
      ::syscall(SYS_futex, &token_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
  }

  bool outside_may_wake() noexcept override { return other_threads(); }
  Duration patience() const noexcept override { return std::chrono::milliseconds(100); }

 private:
  std::atomic<std::uint32_t> token_{0};
};

class VirtualKernel final : public Kernel {
 public:
  explicit VirtualKernel(Instant start) noexcept : now_(start) {}
  Instant now() noexcept override { return now_; }
  void wait(Instant deadline) override {
    if (deadline > now_) now_ = deadline;
  }
  void interrupt() noexcept override {}
  bool outside_may_wake() noexcept override { return false; }
  Duration patience() const noexcept override { return Duration::zero(); }

 private:
  Instant now_;
};

}  // namespace

std::unique_ptr<Kernel> make_real_kernel() {
  return std::make_unique<RealKernel>();
}
std::unique_ptr<Kernel> make_thread_kernel() {
  return std::make_unique<ThreadKernel>();
}
std::unique_ptr<Kernel> make_virtual_kernel(Instant start) {
  return std::make_unique<VirtualKernel>(start);
}

}  // namespace weft

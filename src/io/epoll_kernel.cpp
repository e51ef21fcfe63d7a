// The kernel on epoll: edge-triggered, one registration per descriptor for both directions.
//
// An event carries a pointer to its Registration. A source that is unwatched may still have an
// event in the batch that wait() is working through, on another thread; so its registration is not
// deleted at once but buried, and wait() clears the graves before it asks for the next batch: by
// then the last batch is done, and the next cannot name a descriptor that was removed.
//
// Files go to a ring of io_uring if there is to be one, whose descriptor is watched like any other.
#include "io/file_ring.hpp"
#include "io/real_kernel.hpp"

#include <array>
#include <mutex>
#include <system_error>

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace weft::io {

namespace {

std::uint32_t bits_of(std::uint32_t events) noexcept {
  std::uint32_t bits = 0;
  if ((events & EPOLLIN) != 0) bits |= Source::readable;
  // Urgent data: reads stop short at its mark though there is more. So it counts as what no short
  // read uses up.
  if ((events & EPOLLPRI) != 0) bits |= Source::readable | Source::read_end;
  if ((events & EPOLLOUT) != 0) bits |= Source::writable;
  if ((events & EPOLLRDHUP) != 0) bits |= Source::readable | Source::read_end;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) {
    bits |= Source::readable | Source::writable | Source::read_end | Source::write_end;
  }
  return bits;
}

class EpollKernel final : public RealKernel {
 public:
  EpollKernel(const KernelOptions& options, std::string why, bool ring)
      : RealKernel(options),
        why_(std::move(why)),
        ring_(ring),
        limits_{.calls = options.most_threads + options.most_queued,
                .threads = options.most_threads},
        epoll_(checked_fd(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
        event_(checked_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd")) {
    add(event_.get(), &event_);
  }
  ~EpollKernel() override {
    delete files_.load();  // waits for the calls
    watched_.clear(*this);
    clear_graves();
  }

  Description describe() const override {
    return {ring_ ? "epoll, with io_uring for files" : "epoll", why_};
  }
  bool expects() noexcept override {
    // The ring first: what it cannot do goes to the threads.
    const FileRing* const files = files_.load();
    return (files != nullptr && files->busy()) || RealKernel::expects();
  }
  using RealKernel::start;
  void start(SlowCall& call) override {
    if (done_at_once(call)) return;
    if (FileRing* const files = fits_file_ring(call) ? this->files() : nullptr; files != nullptr) {
      use();
      files->start(call);
      return;
    }
    start(static_cast<Job&>(call));
  }

  void wait(Instant deadline) override {
    clear_graves();
    std::array<epoll_event, 128> events;
    timespec timeout{};
    if (!deadline.is_never()) timeout = time_left(deadline);
    const int n = wait_for_events(events, deadline.is_never() ? nullptr : &timeout);
    // acquire: partner is the release in watch(). What an event points at is complete, though
    // another thread made it and only the machine stands between us.
    static_cast<void>(watches_.load(std::memory_order_acquire));
    bool collect = false;
    WakeList wakes;
    for (int i = 0; i < n; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      if (event.data.ptr == &event_ || event.data.ptr == &timer_) {
        drain(static_cast<UniqueFd*>(event.data.ptr)->get());
      } else if (event.data.ptr == &files_) {
        collect = true;
      } else {
        static_cast<Registration*>(event.data.ptr)->source.ready(bits_of(event.events), wakes);
      }
    }
    if (collect) files_.load()->collect();
  }

  void interrupt() noexcept override {
    const int saved = errno;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(event_.get(), &one, sizeof one);  // full is fine too
    errno = saved;
  }

  int poll_fd(Instant deadline) override {
    if (!timer_) {
      timer_ = checked_fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC),
                          "timerfd_create");
      add(timer_.get(), &timer_);
    }
    itimerspec when{};  // zero disarms
    if (!deadline.is_never()) {
      when.it_value = to_timespec(std::max(deadline - Instant{}, Duration(1)));
    }
    ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
    return epoll_.get();
  }

  void watch(Source& source) override {
    use();
    epoll_event event{};
    event.events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET;
    event.data.ptr = &watched_.add(source);
    watches_.fetch_add(1, std::memory_order_release);  // release: partner is the load in wait()
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, source.fd(), &event) == 0) return;
    const int error = errno;
    delete watched_.remove(source);
    throw_sys_error(-error, "watching descriptor " + std::to_string(source.fd()));
  }

  void unwatch(Source& source) noexcept override {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, source.fd(), nullptr);
    // One step: the destructor finds the registration either watched or buried, and by taking the
    // same lock waits until we have let go of the kernel.
    std::lock_guard guard(graves_lock_);
    Registration* registration = watched_.remove(source);
    if (registration != nullptr) graves_.push_back(*registration);
  }

 private:
  /// Null: there is to be none, or none to be had now.
  FileRing* files() {
    FileRing* const made = files_.load();
    if (made != nullptr || !ring_) return made;
    const std::lock_guard guard(making_files_);
    if (files_.load() == nullptr) {
      try {
        auto files = make_file_ring(pool_, limits_);
        add(files->fd(), &files_);
        files_.store(files.release());
      } catch (const std::system_error&) {
        // No memory or descriptor for it: threads will do.
      }
    }
    return files_.load();
  }

  void add(int fd, void* tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = tag;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      throw_sys_error(-errno, "epoll_ctl");
    }
  }

  template <std::size_t N>
  int wait_for_events(std::array<epoll_event, N>& events, const timespec* limit) noexcept {
    // epoll_pwait2 (Linux 5.11) waits to the nanosecond; where it is missing, or forbidden by a
    // filter that does not know it, round up to milliseconds.
    if (has_pwait2_) {
      const int n = ::epoll_pwait2(epoll_.get(), events.data(), N, limit, nullptr);
      if (n >= 0 || (errno != ENOSYS && errno != EPERM)) return n;
      has_pwait2_ = false;
    }
    const auto ms =
        limit == nullptr ? -1 : limit->tv_sec * 1000 + (limit->tv_nsec + 999999) / 1000000;
    return ::epoll_wait(epoll_.get(), events.data(), N,
                        static_cast<int>(std::min<long>(ms, 24L * 3600 * 1000)));
  }

  static void drain(int fd) noexcept {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto n = ::read(fd, &count, sizeof count);
  }

  void clear_graves() noexcept {
    for (;;) {
      Registration* buried = nullptr;
      {
        std::lock_guard guard(graves_lock_);
        buried = graves_.pop_front();
      }
      if (buried == nullptr) return;
      delete buried;
    }
  }

  const std::string why_;
  const bool ring_;
  const FileRingLimits limits_;
  const UniqueFd epoll_;
  UniqueFd event_;
  UniqueFd timer_;
  bool has_pwait2_ = true;
  std::atomic<std::uint32_t> watches_{0};
  Spinlock graves_lock_;
  List<Registration> graves_;  // under graves_lock_: unwatched, to be deleted by wait()
  std::mutex making_files_;    // nobody waits for anything with it
  std::atomic<FileRing*> files_{nullptr};
};

}  // namespace

std::unique_ptr<Kernel> make_epoll_kernel(const KernelOptions& options, std::string why,
                                          bool ring) {
  return std::make_unique<EpollKernel>(options, std::move(why), ring);
}

}  // namespace weft::io

// The kernel on io_uring.
//
// Descriptors: one repeated poll (IORING_POLL_ADD_MULTI) each, for both directions. It reports
// changes, and at first the present state, which is just what Source wants. Reading and writing are
// calls, as with epoll: an operation that was cancelled must not have taken anything. A completion
// carries a pointer to its Registration, which is therefore deleted on the last one (F_MORE is not
// set) and no sooner. A poll that ends by itself (the queue was full, or the thread that submitted
// it has ended) begins again, and reports the present state: nothing is missed.
//
// Closing: a poll keeps its file open, so unwatch() ends it at once, before the descriptor is
// closed. Otherwise the peer would not hear of it until this thread next waits.
//
// Files: SlowCalls that cannot be done at once become operations of the ring where the machine has
// one, and jobs of the pool where not. Their buffers are their own, so nobody minds if the waiter
// is gone.
//
// Who submits when. The thread that was last in wait() will be there again soon: what it asks for
// in between is submitted then, together with the waiting, in one system call. Other threads submit
// at once, and so does everybody after poll_fd(), since the thread may then sleep elsewhere.
//
// Where completions are made: on the thread that submitted (see uring_ring.hpp). A poll that
// belongs to another thread than the one that waits is ended, and begins again here.
//
// Locks: the ring's is taken under a Source's, never the other way round; so readiness is reported
// without it. Nobody sleeps or calls out while holding it.
#include "io/real_kernel.hpp"

#if defined(WEFT_HAVE_LIBURING)

#include "io/uring_calls.hpp"
#include "io/uring_ring.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace weft::io {

namespace {

using Poll = Registration::Poll;

std::uint32_t bits_of(int events) noexcept {
  std::uint32_t bits = 0;
  if ((events & (POLLIN | POLLPRI)) != 0) bits |= Source::readable;
  if ((events & POLLOUT) != 0) bits |= Source::writable;
  if ((events & POLLRDHUP) != 0) bits |= Source::readable | Source::read_end;
  if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
    bits |= Source::readable | Source::writable | Source::read_end | Source::write_end;
  }
  return bits;
}

/// Files and the like are always ready, and a poll of them ends at once. epoll refuses exactly
/// those.
bool can_wait_for(int fd) noexcept {
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  return ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0 || errno != EPERM;
}

class UringKernel final : public RealKernel {
 public:
  UringKernel(const KernelOptions& options, std::string why)
      : RealKernel(options),
        why_(std::move(why)),
        ring_({.submissions = 256, .completions = 4096}),
        calls_(ring_, pool_, options.most_threads + options.most_queued),
        event_{checked_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd"), {}} {}
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
  bool expects() noexcept override { return RealKernel::expects() || calls_.count() > 0; }
  int poll_fd(Instant deadline) override;
  void watch(Source& source) override;
  void unwatch(Source& source) noexcept override;
  using RealKernel::start;
  void start(SlowCall& call) override;

 private:
  /// A descriptor of ours that ends a wait.
  struct Inner {
    UniqueFd fd;
    Poll poll;
  };

  // All of these under the ring's lock.
  void begin(Poll& poll, int fd, int events, std::uint64_t data) noexcept;
  void begin_watching(Registration& registration) noexcept {
    ++polls_;
    begin(registration.poll, registration.source.fd(), POLLIN | POLLOUT | POLLRDHUP,
          data_of(Tag::poll, &registration));
  }
  void end(Poll& poll, std::uint64_t data) noexcept;
  void bring_home(Inner& inner, Tag tag) noexcept;
  void submit_if_due() noexcept {
    if (driver_ != this_thread() || slept_elsewhere_) ring_.submit();
  }

  void take_completions() noexcept;
  void on_poll(Registration& registration, int result, bool last, WakeList& wakes) noexcept;
  void on_last_poll(Registration& registration, int result) noexcept;
  void on_inner(Inner& inner, Tag tag, bool last) noexcept;

  const std::string why_;
  Ring ring_;
  CallsInFlight calls_;
  // Under the ring's lock, like all `Poll`s.
  Inner event_;
  Inner timer_;
  std::uintptr_t driver_ = 0;     // the thread that was last in wait()
  bool slept_elsewhere_ = false;  // after poll_fd()
  bool closing_ = false;
  std::size_t polls_ = 0;  // of registrations, in flight
};

void UringKernel::begin(Poll& poll, int fd, int events, std::uint64_t data) noexcept {
  poll = {.home = this_thread(), .in_flight = true, .ended_already = poll.ended_already};
  ring_.push(data, [&](io_uring_sqe* sqe) {
    ::io_uring_prep_poll_multishot(sqe, fd, static_cast<unsigned>(events));
  });
}

// By cancelling, not IORING_OP_POLL_REMOVE, which gives up if an event is just being reported.
void UringKernel::end(Poll& poll, std::uint64_t data) noexcept {
  if (std::exchange(poll.ending, true)) return;
  ring_.push(data_of(Tag::nothing), [&](io_uring_sqe* sqe) {
    ::io_uring_prep_cancel64(sqe, data, 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
  });
}

void UringKernel::bring_home(Inner& inner, Tag tag) noexcept {
  if (!inner.fd) return;
  if (!inner.poll.in_flight) {
    begin(inner.poll, inner.fd.get(), POLLIN, data_of(tag));
  } else if (inner.poll.home != this_thread()) {
    end(inner.poll, data_of(tag));
  }
}

void UringKernel::wait(Instant deadline) {
  unsigned pending = 0;
  {
    std::lock_guard guard(ring_.lock());
    driver_ = this_thread();
    slept_elsewhere_ = false;
    bring_home(event_, Tag::event);
    pending = ring_.pending();
  }
  timespec limit{};
  bool may_sleep = deadline != Instant{};  // the past; then the clock need not be asked
  if (may_sleep && !deadline.is_never()) {
    limit = time_left(deadline);
    may_sleep = limit.tv_sec != 0 || limit.tv_nsec != 0;
  }
  if (may_sleep && ring_.completed() == 0) {
    ring_.sleep(pending, deadline.is_never() ? nullptr : &limit);
  } else if (pending > 0 || ring_.wants_look()) {
    ring_.look(pending);
  }
  take_completions();
}

void UringKernel::take_completions() noexcept {
  unsigned count = ring_.completed();
  if (count == 0) return;
  // What other threads submitted was prepared under the lock; so it is visible from here on.
  {
    std::lock_guard guard(ring_.lock());
  }
  WakeList wakes;
  for (; count > 0; --count) {
    const io_uring_cqe cqe = ring_.take();
    const bool last = (cqe.flags & IORING_CQE_F_MORE) == 0;
    switch (tag_of(cqe.user_data)) {
      case Tag::poll:
        on_poll(pointed_at<Registration>(cqe.user_data), cqe.res, last, wakes);
        break;
      case Tag::call:
      case Tag::stat:
        calls_.came_back(cqe, closing_);
        break;
      case Tag::event:
        on_inner(event_, Tag::event, last);
        break;
      case Tag::timer:
        on_inner(timer_, Tag::timer, last);
        break;
      case Tag::nothing:
        break;
    }
  }
}

void UringKernel::on_poll(Registration& registration, int result, bool last,
                          WakeList& wakes) noexcept {
  if (result > 0) {
    registration.source.ready(bits_of(result), wakes);
  } else if (result == -EBADF) {  // closed by somebody else: whoever tries will see
    registration.source.ready(bits_of(POLLHUP), wakes);
  } else if (result != -ECANCELED) {  // no memory, say: nobody shall wait in vain
    registration.source.ready(bits_of(POLLIN | POLLOUT), wakes);
  }
  if (last) {
    on_last_poll(registration, result);
    return;
  }
  Poll& poll = registration.poll;
  poll.ended_already = false;
  if (poll.home == this_thread()) return;
  std::lock_guard guard(ring_.lock());
  end(poll, data_of(Tag::poll, &registration));
}

void UringKernel::on_last_poll(Registration& registration, int result) noexcept {
  bool gone = false;
  {
    std::lock_guard guard(ring_.lock());
    Poll& poll = registration.poll;
    poll.in_flight = false;
    --polls_;
    gone = poll.unwatched;
    if (!gone && !closing_) {
      const int fd = registration.source.fd();
      const bool twice = std::exchange(poll.ended_already, true);
      const bool useless = result == -EBADF || (result > 0 && twice && !can_wait_for(fd));
      if (!useless) begin_watching(registration);
    }
  }
  if (gone) delete &registration;
}

void UringKernel::on_inner(Inner& inner, Tag tag, bool last) noexcept {
  if (!last) return;
  std::lock_guard guard(ring_.lock());
  inner.poll.in_flight = false;
  if (!closing_) bring_home(inner, tag);
}

int UringKernel::poll_fd(Instant deadline) {
  std::lock_guard guard(ring_.lock());
  if (!timer_.fd) {
    timer_.fd =
        checked_fd(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");
  }
  itimerspec when{};  // zero disarms
  if (!deadline.is_never()) {
    when.it_value = to_timespec(std::max(deadline - Instant{}, Duration(1)));
  }
  ::timerfd_settime(timer_.fd.get(), TFD_TIMER_ABSTIME, &when, nullptr);
  bring_home(timer_, Tag::timer);
  bring_home(event_, Tag::event);
  slept_elsewhere_ = true;
  ring_.submit();
  return ring_.fd();
}

void UringKernel::watch(Source& source) {
  use();
  Registration& registration = watched_.add(source);
  std::lock_guard guard(ring_.lock());
  WEFT_CHECK(!closing_, "a descriptor is to be watched by a kernel that goes away");
  begin_watching(registration);
  submit_if_due();
}

void UringKernel::unwatch(Source& source) noexcept {
  std::unique_ptr<Registration> dead;  // deleted after the lock is gone
  std::lock_guard guard(ring_.lock());
  // Under the lock: the destructor finds the registration either watched or ending, and by taking
  // the lock waits until we have let go of the kernel.
  Registration* registration = watched_.remove(source);
  if (registration == nullptr) return;
  registration->poll.unwatched = true;
  if (!registration->poll.in_flight) {
    dead.reset(registration);
  } else if (!closing_) {
    end(registration->poll, data_of(Tag::poll, registration));
    ring_.submit();
  }
}

void UringKernel::start(SlowCall& call) {
  if (done_at_once(call)) return;
  if (!fits_uring(call)) {
    RealKernel::start(static_cast<Job&>(call));
    return;
  }
  use();
  calls_.push(call, [&] { submit_if_due(); });
}

// A file operation writes into its call's buffer, and a completion names its registration: so all
// of them must have come back before anything goes.
UringKernel::~UringKernel() {
  const timespec a_while{1, 0};
  for (;;) {
    unsigned pending = 0;
    {
      std::lock_guard guard(ring_.lock());
      closing_ = true;
      if (polls_ == 0 && calls_.count() == 0) break;
      ring_.push(data_of(Tag::nothing), [](io_uring_sqe* sqe) {
        ::io_uring_prep_cancel64(sqe, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
      });
      pending = ring_.pending();
    }
    ring_.sleep(pending, &a_while);
    take_completions();
  }
  watched_.clear(*this);
  std::lock_guard guard(ring_.lock());  // see unwatch()
}

}  // namespace

std::unique_ptr<Kernel> make_uring_kernel(const KernelOptions& options, std::string why) {
  return std::make_unique<UringKernel>(options, std::move(why));
}

}  // namespace weft::io

#else

namespace weft::io {

std::unique_ptr<Kernel> make_uring_kernel(const KernelOptions&, std::string) {
  throw_sys_error(-ENOTSUP, "io_uring");
}

std::string probe_uring() {
  return "this build has no liburing";
}

}  // namespace weft::io

#endif

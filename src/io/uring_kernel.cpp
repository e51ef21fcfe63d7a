// The kernel on io_uring.
//
// Descriptors: one repeated poll (IORING_POLL_ADD_MULTI) each, for both directions. It reports
// changes, and at first the present state, which is just what Source wants. Then reading and
// writing are calls, as with epoll. A completion carries a pointer to its Registration, which is
// therefore deleted on the last one (F_MORE is not set) and no sooner. A poll that ends by itself
// (the queue was full, or the thread that submitted it has ended) begins again, and reports the
// present state: nothing is missed.
//
// Conversations: see uring_carrier.cpp.
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
// belongs to another thread than the one that waits is ended, and begins again here. (A receive
// that another thread has submitted along with something of its own is not: it may be late.)
//
// Locks: the ring's is taken under a Source's, never the other way round; so readiness is reported
// without it. Nobody sleeps or calls out while holding it.
#include "io/real_kernel.hpp"

#if defined(WEFT_HAVE_LIBURING)

#include "io/uring_kernel.hpp"

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

}  // namespace

template <class Polled>
void UringKernel::begin_poll(Polled& polled, int fd, int events, std::uint64_t data) noexcept {
  polled.poll = {.in_flight = true};
  polled.home = this_thread();
  ring_.push(data, [&](io_uring_sqe* sqe) {
    ::io_uring_prep_poll_multishot(sqe, fd, static_cast<unsigned>(events));
  });
}

void UringKernel::begin_watching(Registration& registration) noexcept {
  ++requests_;
  begin_poll(registration, registration.source.fd(), POLLIN | POLLOUT | POLLRDHUP,
             data_of(Tag::poll, &registration));
}

// By cancelling, not IORING_OP_POLL_REMOVE, which gives up if an event is just being reported.
void UringKernel::end(Registration::Request& request, std::uint64_t data) noexcept {
  if (std::exchange(request.ending, true)) return;
  ring_.push(data_of(Tag::nothing), [&](io_uring_sqe* sqe) {
    ::io_uring_prep_cancel64(sqe, data, 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
  });
}

void UringKernel::bring_home(Inner& inner, Tag tag) noexcept {
  if (!inner.fd) return;
  if (!inner.poll.in_flight) {
    begin_poll(inner, inner.fd.get(), POLLIN, data_of(tag));
  } else if (inner.home != this_thread()) {
    end(inner.poll, data_of(tag));
  }
}

void UringKernel::wait(Instant deadline) {
  WakeList wakes;
  if (!outgoing_.empty()) begin_sends(wakes);
  unsigned pending = 0;
  {
    std::lock_guard guard(ring_.lock());
    driver_ = this_thread();
    slept_elsewhere_ = false;
    bring_home(event_, Tag::event);
    pending = ring_.pending();
  }
  timespec limit{};
  // The past: then the clock need not be asked.
  bool may_sleep = deadline != Instant{} && wakes.empty();
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
  told_again_ = nullptr;
  for (; count > 0; --count) {
    const io_uring_cqe cqe = ring_.take();
    const bool last = (cqe.flags & IORING_CQE_F_MORE) == 0;
    switch (tag_of(cqe.user_data)) {
      case Tag::poll:
        on_poll(pointed_at<Registration>(cqe.user_data), cqe.res, last, wakes);
        break;
      case Tag::receive:
        on_receive(pointed_at<Registration>(cqe.user_data), cqe, wakes);
        break;
      case Tag::send:
        on_sent(pointed_at<Arm>(cqe.user_data), cqe.res, wakes);
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
  registration.ended_already = false;
  if (registration.home == this_thread()) return;
  std::lock_guard guard(ring_.lock());
  end(registration.poll, data_of(Tag::poll, &registration));
}

void UringKernel::on_last_poll(Registration& registration, int result) noexcept {
  bool gone = false;
  {
    std::lock_guard guard(ring_.lock());
    registration.poll.in_flight = false;
    --requests_;
    gone = registration.over();
    if (!registration.unwatched && !closing_) {
      const int fd = registration.source.fd();
      const bool twice = std::exchange(registration.ended_already, true);
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
  Registration& registration = registration_of(source);
  std::lock_guard guard(ring_.lock());
  WEFT_CHECK(!closing_, "a descriptor is to be watched by a kernel that goes away");
  begin_watching(registration);
  end_receive(registration);
  submit_if_due();
}

void UringKernel::unwatch(Source& source) noexcept {
  std::unique_ptr<Registration> dead;  // deleted after the lock is gone
  std::lock_guard guard(ring_.lock());
  // Under the lock: the destructor finds the registration either watched or ending, and by taking
  // the lock waits until we have let go of the kernel.
  Registration* registration = watched_.remove(source);
  if (registration == nullptr) return;
  registration->unwatched = true;
  if (registration->over()) {
    dead.reset(registration);
  } else if (!closing_) {
    if (registration->poll.in_flight) end(registration->poll, data_of(Tag::poll, registration));
    end_receive(*registration);
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
      if (requests_ == 0 && calls_.count() == 0) break;
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

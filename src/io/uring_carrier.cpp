// How the kernel on io_uring carries conversations (Carrier, docs/decisions/0012).
//
// While one thread drives the kernel, a read that waits on a TCP stream is a receive, one at a time
// for each stream, into a buffer that the machine takes from ours when bytes arrive (so that silent
// streams have none). And writes that wait for nothing else are sends that go out together, with
// the next wait(). They do not wait for room (MSG_DONTWAIT), so they are over when io_uring_enter()
// has taken them; they are claimed just before, and the waiters go on just after. When nobody
// drives the kernel any more no receive is under way: those that were are called back
// (end_driving()), so that a stream can be read elsewhere.
#if defined(WEFT_HAVE_LIBURING)

#include "io/uring_kernel.hpp"

#include <algorithm>
#include <mutex>

#include <sys/socket.h>

namespace weft::io {

namespace {
constexpr std::size_t most_per_send = std::size_t{1} << 30;  // the machine's limit is 2 GiB
}  // namespace

bool UringKernel::receive(Source& source, std::size_t most, bool again) {
  if (!buffers_.usable()) return false;
  use();
  Registration& registration = registration_of(source);
  const std::size_t asked = again && repeats_ ? 0 : std::min(most, ReceiveBuffers::size);
  std::lock_guard guard(ring_.lock());
  WEFT_CHECK(!closing_, "a descriptor is to be read by a kernel that goes away");
  registration.receive = {.in_flight = true};
  registration.asked = static_cast<std::uint16_t>(asked);
  ++requests_;
  ++receives_;
  ring_.push(data_of(Tag::receive, &registration), [&](io_uring_sqe* sqe) {
    ::io_uring_prep_recv(sqe, source.fd(), nullptr, asked, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = ReceiveBuffers::group;
    sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;  // it has just been tried
    if (asked == 0) sqe->ioprio |= IORING_RECV_MULTISHOT;
  });
  return true;
}

void UringKernel::on_receive(Registration& registration, io_uring_cqe cqe,
                             WakeList& wakes) noexcept {
  using Then = Source::Then;
  const std::uint16_t asked = registration.asked;
  const bool last = (cqe.flags & IORING_CQE_F_MORE) == 0;
  Then then = Then::empty;
  if (!last) {
    then = Then::goes_on;
  } else if (asked == 0 || cqe.res == asked) {
    then = Then::maybe_more;
  }
  if (cqe.res == -EINVAL && asked == 0) {  // before Linux 6.0
    repeats_ = false;
    cqe.res = -ECANCELED;
  }
  if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) {
    const auto id = static_cast<std::uint16_t>(cqe.flags >> IORING_CQE_BUFFER_SHIFT);
    registration.source.received(cqe.res, buffers_.data(id), then, wakes);
    buffers_.give(id);
  } else {
    registration.source.received(cqe.res, nullptr, then, wakes);
  }
  bool gone = false;
  {
    std::lock_guard guard(ring_.lock());
    if (last) {
      registration.receive.in_flight = false;
      --requests_;
      --receives_;
      gone = registration.over();
    } else if (registration.receive.ending && told_again_ != &registration) {
      // Told to end while bytes were just being received, it may not have heard of it.
      told_again_ = &registration;
      registration.receive.ending = false;
      end_receive(registration);
    }
  }
  if (gone) delete &registration;
}

void UringKernel::stop_receiving(Source& source) noexcept {
  std::lock_guard guard(ring_.lock());
  if (source.registration != nullptr) end_receive(registration_of(source));
}

void UringKernel::catch_up() noexcept {
  unsigned pending = 0;
  {
    std::lock_guard guard(ring_.lock());
    pending = ring_.pending();
  }
  ring_.look(pending);
  take_completions();
}

// Claimed, a send is made, come what may; the waiter stays where it is until its completion.
void UringKernel::begin_sends(WakeList& wakes) noexcept {
  std::lock_guard guard(ring_.lock());
  while (Arm* arm = outgoing_.pop_front()) {
    if (!arm->claim()) continue;
    Transfer& transfer = *static_cast<Transfer*>(arm->slot);
    if (!transfer.source->enter()) {  // else it stays open until its completion
      transfer.result = -EBADF;
      transfer.delivered = true;
      wakes.add(*arm);
      continue;
    }
    ++sends_;
    ring_.push(data_of(Tag::send, arm), [&](io_uring_sqe* sqe) {
      const std::size_t size = std::min(transfer.part->iov_len, most_per_send);
      ::io_uring_prep_send(sqe, transfer.source->fd(), transfer.part->iov_base, size,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
    });
  }
}

void UringKernel::on_sent(Arm& arm, int result, WakeList& wakes) noexcept {
  Transfer& transfer = *static_cast<Transfer*>(arm.slot);
  transfer.result = result;
  transfer.delivered = true;
  transfer.source->leave();
  --sends_;
  wakes.add(arm);
}

void UringKernel::end_driving() noexcept {
  const timespec a_while{1, 0};
  carries_for_.store(0, std::memory_order_relaxed);  // relaxed: see carrier()
  for (;;) {
    WakeList wakes;
    begin_sends(wakes);
    unsigned pending = 0;
    bool receiving = false;
    {
      std::lock_guard guard(ring_.lock());
      receiving = receives_ > 0;
      if (receiving) watched_.for_each([this](Registration& r) { end_receive(r); });
      pending = ring_.pending();
    }
    if (receiving) {
      ring_.sleep(pending, &a_while);
    } else if (sends_ > 0) {
      ring_.look(pending);
    } else {
      return;
    }
    take_completions();
  }
}

}  // namespace weft::io

#endif

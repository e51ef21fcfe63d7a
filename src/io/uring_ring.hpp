// A ring of io_uring that threads share: many submit, one waits.
//
// Entries are written under the ring's lock, and are visible to the machine from then on; whoever
// enters the machine next takes them along. So they can be collected and submitted together. The
// completion queue belongs to the thread that waits; of a ring that nobody waits on
// (file_ring.hpp), to whoever holds the lock.
//
// How the machine completes what was submitted, unless it shall interrupt: on the thread that
// submitted it. It notes that there is work, and the thread does it when it next enters or leaves
// the machine, be it for a timer interrupt (COOP_TASKRUN: it is not sent an interrupt for it, which
// would cost both sides about as much as the whole request). A thread that waits does it at once.
// What was submitted by another thread than the one that waits therefore completes late, by up to
// the length of a timer tick if that thread is computing, and is cancelled if that thread has
// ended. The kernel (see uring_kernel.cpp) brings such requests home. A thread that sleeps in some
// other system call is woken to do the work: the few calls that the machine does not take up again
// by itself, such as epoll_wait(), then fail with EINTR.
//
// Rejected: SINGLE_ISSUER and DEFER_TASKRUN, which allow only one thread, for ever; SQPOLL, which
// takes a core.
#pragma once

#include <weft/base/check.hpp>
#include <weft/base/spinlock.hpp>

#include <cstdint>
#include <ctime>
#include <string>

#include <liburing.h>

namespace weft::io {

class Ring {
 public:
  struct Options {
    unsigned submissions;
    unsigned completions;
    /// The thread that has submitted is sent interrupts: it need not come here to get on.
    bool interrupts = false;
  };
  /// Throws std::system_error.
  explicit Ring(Options options);
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring();

  [[nodiscard]] int fd() const noexcept { return ring_.ring_fd; }
  [[nodiscard]] unsigned features() const noexcept { return ring_.features; }
  [[nodiscard]] io_uring& raw() noexcept { return ring_; }

  // Submitting: any thread that holds the lock

  [[nodiscard]] Spinlock& lock() noexcept { return lock_; }
  /// Adds an entry: fill(sqe) names the operation, and the completion will carry `data`. If the
  /// queue is full, what is in it is submitted first.
  template <class Fill>
  void push(std::uint64_t data, Fill fill) noexcept {
    while (pending() == entries_) submit();
    io_uring_sqe& sqe = ring_.sq.sqes[tail_ & (entries_ - 1)];
    fill(&sqe);
    sqe.user_data = data;
    ++tail_;
    ::io_uring_smp_store_release(ring_.sq.ktail, tail_);  // release: partner is in the machine
  }
  /// Entries that have not been submitted.
  [[nodiscard]] unsigned pending() const noexcept {
    // acquire: the machine has read the entries before its head. Its partner is in the machine.
    return tail_ - ::io_uring_smp_load_acquire(ring_.sq.khead);
  }
  /// Submits everything. Does not block.
  void submit() noexcept;

  // Waiting: one thread at a time, without the lock; where nobody waits, with it

  /// Submits `count` entries, and sleeps until there is a completion or `limit` is over (null:
  /// never). May return early.
  void sleep(unsigned count, const timespec* limit) noexcept;
  /// Submits `count` entries, and lets in what has happened. Several threads may. False: not now.
  bool look(unsigned count) noexcept { return enter(count, 0, nullptr) >= 0; }
  /// Is there something that only look() will let in?
  [[nodiscard]] bool wants_look() const noexcept {
    return (IO_URING_READ_ONCE(*ring_.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) !=
           0;
  }
  /// How many completions are there?
  [[nodiscard]] unsigned completed() const noexcept {
    // acquire: the completions before the tail are written. Its partner is in the machine.
    return ::io_uring_smp_load_acquire(ring_.cq.ktail) - *ring_.cq.khead;
  }
  /// Takes the oldest one; there must be one.
  [[nodiscard]] io_uring_cqe take() noexcept {
    const unsigned head = *ring_.cq.khead;
    const io_uring_cqe cqe = ring_.cq.cqes[head & (completions_ - 1)];
    ::io_uring_smp_store_release(ring_.cq.khead, head + 1);  // release: partner is in the machine
    return cqe;
  }

 private:
  int enter(unsigned count, unsigned wait_for, const timespec* limit) noexcept;
  static void check(int result) noexcept;

  io_uring ring_{};
  unsigned entries_ = 0;  // powers of two
  unsigned completions_ = 0;
  Spinlock lock_;
  unsigned tail_ = 0;  // under lock_
};

/// Can the running machine do this operation (IORING_OP_...)?
[[nodiscard]] bool uring_can(unsigned operation) noexcept;

}  // namespace weft::io

/// What the io_uring client and the raw io_uring server have in common: a ring for one thread, and
/// a pool of buffers from which the kernel takes one when bytes arrive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <liburing.h>

namespace weft::bench {

/// A ring that only its creating thread uses. With `own_thread` the kernel handles completions when
/// that thread waits and at no other time: it is not interrupted, and needs no locks.
class Ring {
 public:
  static constexpr unsigned own_thread = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  explicit Ring(unsigned flags = own_thread);
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { ::io_uring_queue_exit(&ring_); }

  [[nodiscard]] io_uring* get() { return &ring_; }

  /// The next free submission entry. Submits what there is if the queue is full.
  [[nodiscard]] io_uring_sqe* next();

  /// Submits, waits for a completion, and calls handle(cqe) for all there are. False after the
  /// timeout, if there is one. Entries that handle() takes are submitted by the next call.
  template <class Handle>
  bool wait(__kernel_timespec* timeout, Handle&& handle) {
    enter(timeout);
    unsigned head = 0;
    const io_uring_cqe* cqe = nullptr;
    bool any = false;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      const io_uring_cqe copy = *cqe;
      ::io_uring_cq_advance(&ring_, 1);  // before handle(), which may throw
      any = true;
      handle(copy);
    }
    return any;
  }

 private:
  void enter(__kernel_timespec* timeout);

  io_uring ring_{};
};

/// Buffers of one size, registered with a ring as group 0.
class Buffers {
 public:
  static constexpr unsigned count = 2048;  // a power of two
  static constexpr std::size_t size = 2048;

  explicit Buffers(Ring& ring);
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers();

  /// The buffer of a completion of a receive, and a buffer's memory.
  [[nodiscard]] static std::uint16_t id(const io_uring_cqe& cqe) {
    return static_cast<std::uint16_t>(cqe.flags >> IORING_CQE_BUFFER_SHIFT);
  }
  [[nodiscard]] char* data(std::uint16_t id) const { return memory_ + id * size; }

  /// The kernel may use the buffer from now on.
  void give(std::uint16_t id) {
    // Not io_uring_buf_ring_add(): with some versions of the headers its array is misplaced in C++.
    io_uring_buf& entry = reinterpret_cast<io_uring_buf*>(ring_)[ring_->tail & (count - 1)];
    entry.addr = reinterpret_cast<std::uintptr_t>(data(id));
    entry.len = size;
    entry.bid = id;
    ::io_uring_buf_ring_advance(ring_, 1);
  }

 private:
  Ring& owner_;
  io_uring_buf_ring* ring_;
  char* memory_;
};

/// A receive that goes on until it fails: one completion, with a buffer, each time bytes arrive.
inline void prepare_receive(io_uring_sqe* sqe, int fd, std::uint64_t user_data) {
  ::io_uring_prep_recv_multishot(sqe, fd, nullptr, 0, 0);
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = 0;
  sqe->user_data = user_data;
}

}  // namespace weft::bench

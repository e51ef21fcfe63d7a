// File calls through a ring of io_uring, for a kernel that waits by other means. The machine does
// them on the thread that asks where that need not wait, or on threads of its own: either costs
// less than a thread of ours.
//
// The ring's descriptor is readable when collect() has something to do. Whoever starts a call also
// collects, since what needs no waiting is done by then.
//
// Unlike a ring that is waited on (uring_ring.hpp) this one interrupts the thread that has
// submitted when the machine wants it to go on with something: it may be computing, or sleep
// elsewhere.
//
// Rejected: leaving what a thread starts until it next waits, to submit it all together (as the
// kernel on io_uring does). 32 tasks that write take 6 us each instead of 9; but a call of a task
// that was cancelled at once could be made long after the loop has ended, and nothing is written
// while the thread computes.
#pragma once

#include "io/job_pool.hpp"

#include <cstddef>
#include <memory>

namespace weft {
struct SlowCall;
}

namespace weft::io {

/// Any thread may call any member.
class FileRing {
 public:
  FileRing(const FileRing&) = delete;
  FileRing& operator=(const FileRing&) = delete;
  /// Waits until all calls are done.
  virtual ~FileRing() = default;

  [[nodiscard]] virtual int fd() const noexcept = 0;
  /// Of one that fits. Throws Overloaded.
  virtual void start(SlowCall& call) = 0;
  /// Completes the calls that are done.
  virtual void collect() noexcept = 0;
  /// Are there calls that are not complete?
  [[nodiscard]] virtual bool busy() const noexcept = 0;

 protected:
  FileRing() = default;
};

struct FileRingLimits {
  std::size_t calls;    // at a time
  std::size_t threads;  // of the machine's, for each thread that starts calls
};

/// Is it for a ring? If not, a thread must make it.
[[nodiscard]] bool fits_file_ring(const SlowCall& call) noexcept;
/// What the machine declines goes to `pool`. Throws std::system_error.
[[nodiscard]] std::unique_ptr<FileRing> make_file_ring(JobPool& pool, FileRingLimits limits);

}  // namespace weft::io

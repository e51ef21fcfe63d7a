// File calls through a ring of io_uring, for a kernel that waits by other means. The machine does
// them on the thread that asks where that need not wait, or on threads of its own: either costs
// less than a thread of ours.
//
// The ring's descriptor is readable when collect() has something to do. Whoever submits also
// collects, since what needs no waiting is done by then. A thread that is about to wait anyway
// leaves what it starts until then, and submits it all together.
//
// Unlike a ring that is waited on (uring_ring.hpp) this one interrupts the thread that has
// submitted when the machine wants it to go on with something: it may be computing, or sleep
// elsewhere.
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
  /// False: it is not for the ring, a thread must make it. Throws Overloaded.
  [[nodiscard]] virtual bool start(SlowCall& call) = 0;
  /// The calling thread is about to wait, here or (`elsewhere`) where it will not hear of what it
  /// has left to submit. Submits, and collects.
  virtual bool submit(bool elsewhere) noexcept = 0;
  /// Completes the calls that are done. True: there were some, and somebody may be ready now.
  virtual bool collect() noexcept = 0;
  /// Are there calls that are not complete?
  [[nodiscard]] virtual bool busy() const noexcept = 0;

 protected:
  FileRing() = default;
};

/// At most `most` calls at a time; what the machine declines goes to `pool`. Throws
/// std::system_error.
[[nodiscard]] std::unique_ptr<FileRing> make_file_ring(JobPool& pool, std::size_t most);

}  // namespace weft::io

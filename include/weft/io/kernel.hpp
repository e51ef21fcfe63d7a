/// The Kernel: everything an Io knows of the outside world goes through this interface. The real
/// one asks the machine; a virtual one makes time jump. Nothing else in the library reads a clock
/// or sleeps.
#pragma once

#include <weft/base/time.hpp>
#include <weft/base/unique_fd.hpp>

#include <atomic>
#include <memory>

namespace weft {

class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Monotonic.
  [[nodiscard]] virtual Instant now() noexcept = 0;
  /// Sleeps until `deadline` or until interrupted. May return early.
  virtual void wait(Instant deadline) = 0;
  /// Ends a wait(), or the next one. From any thread, and from signal handlers.
  virtual void interrupt() noexcept = 0;
  /// Could anything outside this thread ever interrupt a wait without deadline? If not, such a wait
  /// is a deadlock.
  [[nodiscard]] virtual bool outside_may_wake() noexcept = 0;

  /// How long to wait for the outside before asking; zero where time is virtual.
  [[nodiscard]] virtual Duration patience() const noexcept = 0;

  /// A descriptor that is readable when wait(deadline) would return; -1 if there is none.
  [[nodiscard]] virtual int poll_fd(Instant /*deadline*/) { return -1; }
};

/// Epoll, with an eventfd for interrupts. Throws std::system_error.
[[nodiscard]] std::unique_ptr<Kernel> make_real_kernel();

/// A futex and no descriptors: for threads that only ever wait for other threads and for time.
[[nodiscard]] std::unique_ptr<Kernel> make_thread_kernel();

/// Virtual time: starts at `start`, and a wait jumps to its deadline. Nothing outside exists.
[[nodiscard]] std::unique_ptr<Kernel> make_virtual_kernel(Instant start = Instant{});

}  // namespace weft

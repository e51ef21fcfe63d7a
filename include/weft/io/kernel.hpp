/// The Kernel: how an Io waits for the outside. The real ones sit on epoll or io_uring; a virtual
/// one makes time jump. What can be asked of the outside, without waiting, is a World
/// (io/world.hpp); a Kernel has one, and together they are everything an Io knows of the machine.
/// Nothing else in the library reads a clock or sleeps.
///
/// Three things come in through a Kernel, all in wait(): time, descriptors that became ready
/// (watch()), and jobs that are done (start()); and where there is a Carrier, what it has received.
/// Everything but wait() and the Carrier may be called by any thread.
///
/// Why two interfaces: a socket may be made on one Io, waited for on another, and closed by a plain
/// thread when both are gone. Its World lives as long as the socket; the Kernel that watches it
/// changes. (Rejected: one interface. Then every socket keeps an epoll instance alive, or dangles.)
#pragma once

#include <weft/base/time.hpp>
#include <weft/io/world.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace weft {

class Job;
class Source;
struct Arm;
struct SlowCall;

/// What a kernel may do besides reporting readiness, where the machine can: receive and send for
/// tasks that wait, many of them in one call. It is asked by Source, on the thread that drives the
/// kernel (Kernel::begin_driving()).
///
/// A receive belongs to the source, not to a task: if nobody waits any more when it has come, the
/// source keeps the bytes. A send has not begun before the wait is claimed, and is over before the
/// kernel does anything else: so one that loses a select or is cancelled has sent nothing.
class Carrier {
 public:
  /// Receives up to `most` bytes, once, or `again` and again, whatever comes; Source::received()
  /// gets them. One at a time for a source. Under the source's lock. False: it cannot.
  [[nodiscard]] virtual bool receive(Source& source, std::size_t most, bool again) = 0;
  /// Ends a receive: received() is called once more, and maybe with bytes before. Under the
  /// source's lock.
  virtual void stop_receiving(Source& source) noexcept = 0;
  /// Takes in what has come, without waiting for long. Under no lock.
  virtual void catch_up() noexcept = 0;
  /// Sends what the arm's slot (a Transfer) says when the kernel next waits or looks, if the arm
  /// can be claimed then, and commits it with what came of it.
  virtual void send(Arm& arm) noexcept = 0;

 protected:
  ~Carrier() = default;
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  /// Monotonic.
  [[nodiscard]] virtual Instant now() noexcept = 0;
  /// Sleeps until `deadline`, until interrupted, or until something came in, and passes on what
  /// did. May return early. One thread at a time; a deadline in the past means: only look.
  virtual void wait(Instant deadline) = 0;
  /// Ends a wait(), or the next one. From any thread, and from signal handlers.
  virtual void interrupt() noexcept = 0;
  /// Is something under way that will end a wait? Somebody waits for a descriptor, or a job runs.
  [[nodiscard]] virtual bool expects() noexcept { return false; }
  /// Could anything outside this thread ever interrupt a wait without deadline? If not, such a wait
  /// is a deadlock. `own`: threads besides the calling one that sleep until this one wakes them.
  /// Slow.
  [[nodiscard]] virtual bool outside_may_wake(std::size_t own = 0) noexcept = 0;
  /// How long to wait for the outside before asking; zero where time is virtual.
  [[nodiscard]] virtual Duration patience() const noexcept = 0;
  /// A descriptor that is readable when wait(deadline) would return; -1 if there is none.
  [[nodiscard]] virtual int poll_fd(Instant /*deadline*/) { return -1; }

  /// Must a busy engine look in from time to time? False as long as nothing was ever watched or
  /// started.
  [[nodiscard]] bool in_use() const noexcept {
    return in_use_.load(std::memory_order_relaxed);  // relaxed: a late look is a look
  }

  [[nodiscard]] virtual std::shared_ptr<World> world() { return empty_world(); }

  /// The kernel that does the watching for this one.
  [[nodiscard]] virtual Kernel& watcher() { return *this; }
  /// Reports the source's readiness from now on, by Source::ready(), until unwatch(). The present
  /// state counts as a change. Called under the source's lock. Throws std::system_error.
  virtual void watch(Source& source);
  /// Called under the source's lock, while its descriptor is still open. The kernel may still hold
  /// events of it, and keeps it alive as long (Source::retain()).
  virtual void unwatch(Source& source) noexcept;

  /// The calling thread, and no other, will call wait() until end_driving(), again and again.
  virtual void begin_driving() noexcept {}
  virtual void end_driving() noexcept {}
  /// Null, unless there is one and the calling thread drives this kernel.
  [[nodiscard]] virtual Carrier* carrier() noexcept { return nullptr; }

  /// Does a job on the side and complete()s it, maybe before it returns. Throws Overloaded (and has
  /// not taken the job) if too many wait already. The default runs it here and now.
  virtual void start(Job& job);
  /// The same for jobs of this kind, which some kernels need no thread for.
  virtual void start(SlowCall& call);

  /// What this is and why it was chosen, for people: "epoll", "io_uring: ...".
  struct Description {
    std::string name;
    std::string why;
  };
  [[nodiscard]] virtual Description describe() const = 0;

 protected:
  void use() noexcept { in_use_.store(true, std::memory_order_relaxed); }  // relaxed: see in_use()

 private:
  std::atomic<bool> in_use_{false};
};

/// What a real kernel waits by. mixed: epoll, and io_uring for files.
enum class Backend : std::uint8_t { automatic, epoll, uring, mixed };

struct KernelOptions {
  /// automatic: WEFT_IO=epoll|uring|mixed if set, else mixed where io_uring works, else epoll.
  ///
  /// On a Loop, uring answers more requests than epoll (docs/performance.md): it receives and sends
  /// for many TCP streams in one call (docs/decisions/0012), which means that a write is made when
  /// the loop next looks outside, not at once. On a Pool it can only report readiness, and
  /// completes what a thread has submitted on that very thread, which is of no use to threads that
  /// take turns in wait().
  Backend backend = Backend::automatic;
  /// For jobs; see io/blocking.hpp.
  std::size_t most_threads = 64;
  std::size_t most_queued = 4096;
};

/// The machine's. Throws std::system_error if the wanted backend does not work here, saying why.
[[nodiscard]] std::unique_ptr<Kernel> make_real_kernel(KernelOptions options = {});

/// Whether io_uring works here: empty if it does, else why not. Really submits something, once.
[[nodiscard]] const std::string& why_no_uring();

/// A futex: for threads that mostly wait for other threads and for time. Becomes an epoll kernel
/// when it is first asked to watch something.
[[nodiscard]] std::unique_ptr<Kernel> make_thread_kernel();

/// Virtual time: starts at `start`, and a wait jumps to its deadline. Nothing outside exists.
[[nodiscard]] std::unique_ptr<Kernel> make_virtual_kernel(Instant start = Instant{});

}  // namespace weft

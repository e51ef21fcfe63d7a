// What the kernels of the real machine have in common: its clock, its World, threads for jobs, and
// the sources they watch.
#pragma once

#include <weft/base/unique_fd.hpp>
#include <weft/io/kernel.hpp>
#include <weft/io/source.hpp>

#include "io/clock.hpp"
#include "io/job_pool.hpp"
#include "io/machine.hpp"

#include <cstdint>

#include <pthread.h>

namespace weft::io {

/// One watch of one source. Events point at this: it lives until no event can name it any more,
/// which may be after the source is watched by another kernel.
struct Registration : ListNode<> {
  explicit Registration(Source& watched) noexcept : source(watched) { source.retain(); }
  ~Registration() { source.release(); }
  Source& source;

  // What the kernel on io_uring knows of it; see there.
  struct Request {
    bool in_flight = false;  // completions will come, the last of them without F_MORE
    bool ending = false;     // it has been told to end
  };
  std::uintptr_t home = 0;     // the thread that submitted the poll
  Request poll;                // repeated
  bool ended_already = false;  // the poll's last completion was a last one
  Request receive;
  std::uint16_t asked = 0;  // bytes to be received; 0: again and again
  bool unwatched = false;   // nothing must begin again
  /// Can no completion name it any more?
  [[nodiscard]] bool over() const noexcept {
    return unwatched && !poll.in_flight && !receive.in_flight;
  }
};

/// All watches of a kernel. Any thread.
class Watched {
 public:
  Registration& add(Source& source) {
    auto* registration = new Registration(source);
    source.registration = registration;
    std::lock_guard guard(lock_);
    all_.push_back(*registration);
    return *registration;
  }
  /// The caller deletes it; null if clear() has been here first and will.
  [[nodiscard]] Registration* remove(Source& source) noexcept {
    auto* registration = static_cast<Registration*>(source.registration);
    std::lock_guard guard(lock_);
    if (!registration->linked()) return nullptr;
    registration->unlink();
    return registration;
  }
  template <class F>
  void for_each(F f) {
    std::lock_guard guard(lock_);
    for (Registration* r = all_.front(); r != nullptr; r = all_.next(*r)) f(*r);
  }
  /// Does anybody wait for one of them?
  [[nodiscard]] bool awaited() noexcept {
    std::lock_guard guard(lock_);
    for (Registration* r = all_.front(); r != nullptr; r = all_.next(*r)) {
      if (r->source.awaited()) return true;
    }
    return false;
  }
  /// The kernel goes away. No event may come any more.
  void clear(Kernel& kernel) noexcept {
    for (;;) {
      Registration* registration = nullptr;
      {
        std::lock_guard guard(lock_);
        registration = all_.pop_front();
      }
      if (registration == nullptr) return;
      registration->source.lose_kernel(kernel);
      delete registration;
    }
  }

 private:
  Spinlock lock_;
  List<Registration> all_;
};

class RealKernel : public Kernel {
 public:
  explicit RealKernel(const KernelOptions& options)
      : pool_(options.most_threads, options.most_queued) {}

  Instant now() noexcept final { return monotonic_now(); }
  Duration patience() const noexcept final { return std::chrono::milliseconds(100); }
  std::shared_ptr<World> world() final { return machine(); }
  bool expects() noexcept override { return watched_.awaited() || pool_.awaited(); }
  bool outside_may_wake(std::size_t own) noexcept override {
    if (expects()) return true;
    const std::size_t others = other_threads();  // before idle(): see io/job_pool.hpp
    return others > own + pool_.idle();
  }
  using Kernel::start;
  void start(Job& job) override {
    use();
    pool_.start(job);
  }
  void start(SlowCall& call) override {
    if (!done_at_once(call)) start(static_cast<Job&>(call));
  }

 protected:
  [[nodiscard]] static bool done_at_once(SlowCall& call) noexcept {
    if (!read_at_once(call)) return false;
    call.complete();
    return true;
  }

  Watched watched_;
  JobPool pool_;
};

/// Tells threads apart.
[[nodiscard]] inline std::uintptr_t this_thread() noexcept {
  return static_cast<std::uintptr_t>(::pthread_self());
}

[[nodiscard]] UniqueFd checked_fd(int fd, const char* what);

/// `ring`: with one for file calls, which is made when it is first needed.
[[nodiscard]] std::unique_ptr<Kernel> make_epoll_kernel(const KernelOptions& options,
                                                        std::string why, bool ring = false);
/// Throws std::system_error.
[[nodiscard]] std::unique_ptr<Kernel> make_uring_kernel(const KernelOptions& options,
                                                        std::string why);
/// Empty if io_uring works here; else why not.
[[nodiscard]] std::string probe_uring();

}  // namespace weft::io

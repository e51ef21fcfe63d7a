/// Jobs: work that blocks, or that the kernel does on the side, and how a task waits for it.
///
/// A Job is owned by two parties, the op that waits for it and the Kernel that does it; whoever
/// lets go last destroys it. So an op that is cancelled or loses a select simply lets go: the job
/// is orphaned, its memory (buffers included) stays until the work is done, and what it produced
/// (an open descriptor, say) dies with it. Nothing a job touches may belong to the waiter's frame.
///
///          start()           the work                 complete()
///     new ────────▶ started ──────────▶ (any thread) ───────────▶ done
///
/// A Kernel that was given a job by start() does one of: run() it on a thread that may block; have
/// the work done by the machine (io_uring) or by itself (simulation), if it recognises the kind.
/// Then, exactly once, complete().
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/list.hpp>
#include <weft/base/spinlock.hpp>
#include <weft/wait/perform.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace weft {

class Kernel;

/// There is more blocking work than the bounds allow: back-pressure. Nothing was begun.
class Overloaded : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Job : public ListNode<> {
 public:
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // The Kernel's side

  /// The work itself; keeps its own result and errors.
  virtual void run() noexcept = 0;
  /// The result is there. The last use of the job by the kernel.
  void complete() noexcept;
  /// Nobody waits for it any more, and nobody will: it need not be run if it has not begun.
  [[nodiscard]] bool orphaned() const noexcept {
    return refs_.load(std::memory_order_relaxed) == 1;  // relaxed: a hint
  }

  // The op's side

  [[nodiscard]] ObjectId id() const noexcept { return id_; }
  [[nodiscard]] bool done() const noexcept {
    return done_.load(std::memory_order_acquire);  // acquire: partner is the store in complete()
  }
  /// Starts the job on the waiter's kernel, the first time; then waits for its end.
  [[nodiscard]] Armed arm(Arm& arm);
  void disarm(Arm& arm) noexcept;
  void retain() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }  // relaxed: we hold one
  void release() noexcept;

 protected:
  Job() = default;
  virtual ~Job() = default;
  /// Gives itself to the kernel.
  virtual void begin(Kernel& kernel);

 private:
  const ObjectId id_ = new_object_id();
  Atomic<std::uint32_t> refs_{1};
  std::atomic<bool> done_{false};
  Spinlock lock_;
  bool started_ = false;   // the op's
  Arm* waiter_ = nullptr;  // under lock_
};

/// Owns the op's half of a job.
template <class J>
class JobRef {
 public:
  JobRef() = default;
  explicit JobRef(J* job) noexcept : job_(job) {}
  JobRef(JobRef&& other) noexcept : job_(std::exchange(other.job_, nullptr)) {}
  JobRef& operator=(JobRef&& other) noexcept {
    std::swap(job_, other.job_);
    return *this;
  }
  ~JobRef() {
    if (job_ != nullptr) job_->release();
  }
  J* operator->() const noexcept { return job_; }
  J& operator*() const noexcept { return *job_; }
  explicit operator bool() const noexcept { return job_ != nullptr; }

 private:
  J* job_ = nullptr;
};

/// Waits for a job; `finish(J&)` turns the finished job into the result.
template <class J, class Finish>
class JobOp {
 public:
  using Result = std::invoke_result_t<Finish&, J&>;
  static constexpr Reason reason = J::reason;
  static constexpr bool outside = true;

  JobOp(JobRef<J> job, Finish finish) : job_(std::move(job)), finish_(std::move(finish)) {}
  ObjectId object() const noexcept { return job_->id(); }
  bool try_now() const noexcept { return job_->done(); }
  Armed arm(Arm& arm) { return job_->arm(arm); }
  void disarm(Arm& arm) noexcept { job_->disarm(arm); }
  Result take() { return finish_(*job_); }
  /// Does the job on the calling thread, as a kernel would; then take().
  void run_here() noexcept {
    job_->retain();
    job_->run();
    job_->complete();
  }

 private:
  JobRef<J> job_;
  Finish finish_;
};

}  // namespace weft

/// blocking(f): calls a function that blocks its thread, without blocking a worker.
///
///     Rows rows = blocking([query = text] { return database.run(query); });
///
///     auto f = [query = text] { return database.run(query); };
///     Rows rows = co_await blocking_op(std::move(f));
///     std::optional<Rows> rows = co_await timeout(blocking_op(std::move(f)), 1s);
///
/// For libraries that know no other way to wait, and for computations so long that a worker should
/// not be held up by them. f runs on a thread of the Io's kernel; its result comes back, and its
/// exception is thrown here.
///
/// There are at most KernelOptions::most_threads such threads (64), made when needed and ended when
/// idle for a while, and most_queued (4096) functions that wait for one. Then blocking() throws
/// Overloaded at once, and f has not been called: the time to refuse work, or to retry later.
/// (Names are looked up by the same threads; so are files, where there is no io_uring.)
///
/// Inside f one is on a plain thread and no longer in the task. What weft offers to plain threads
/// works there (channels, say; a wait blocks the thread); task-locals, cancellation and this_io()
/// do not reach it.
///
/// A task that is cancelled, or whose select is won by another case, goes on at once. If f had not
/// begun by then it never will, and it is destroyed before the task goes on. If it had, it runs to
/// its end unobserved: nothing can stop a thread from outside. So **f must own what it touches**:
/// capture by value or by shared_ptr. (By reference is right only where the task cannot be
/// cancelled during the call, under a Shield for instance.) f is destroyed on the thread it ran on,
/// as soon as it has run, so before the caller has its result; a result nobody waits for is
/// destroyed there too, or by the caller as it turns away. An Io waits in its destructor for what
/// is still running.
///
/// From a fiber or a plain thread: blocking(f). A plain thread may block, so there it is the same
/// as f(). From a coroutine: co_await blocking_op(f). (With GCC 12, give an f that owns something a
/// name first, as above: it destroys the captures of a lambda inside a co_await twice.) On a
/// virtual kernel f runs at once, on the worker and its stack, so that a simulation stays the same
/// every time.
///
/// Rejected: a pool for the whole process. It has no owner that could bound it, wait for it, or be
/// asked by a simulation to run it one function at a time.
#pragma once

#include <weft/base/outcome.hpp>
#include <weft/io/job.hpp>
#include <weft/task/coro.hpp>

#include <atomic>
#include <functional>
#include <optional>
#include <utility>

namespace weft {

namespace detail {

/// While it lives, the calling thread is a plain one: a kernel may run jobs on a worker.
class AsPlainThread {
 public:
  AsPlainThread() noexcept { set_current(nullptr); }
  AsPlainThread(const AsPlainThread&) = delete;
  AsPlainThread& operator=(const AsPlainThread&) = delete;
  ~AsPlainThread() { set_current(before_); }

 private:
  Current* const before_ = current();
};

template <class F>
class BlockingJob final : public Job {
 public:
  using Result = std::invoke_result_t<F&>;
  static_assert(!is_coro<Result>,
                "blocking(f): f returns a Coro, which would not have run; call weft::await in f");

  explicit BlockingJob(F f) : f_(std::move(f)) {}

  void run() noexcept override {
    if (!claim()) return;
    const AsPlainThread plain;
    outcome_.emplace(Outcome<Result>::of([this]() -> Result { return std::invoke(*f_); }));
    f_.reset();
  }
  /// Nobody waits any more: f is not called if it has not begun.
  void give_up() noexcept {
    if (claim()) f_.reset();
  }
  Result take() {
    WEFT_CHECK(outcome_.has_value(), "a blocking call was dropped with its Io, yet waited for");
    // Taken out whole: an exception then dies in the waiter, not on whichever thread lets the job
    // go.
    Outcome<Result> outcome = std::move(*outcome_);
    outcome_.reset();
    return std::move(outcome).value();
  }

 private:
  /// True for the one who may touch f_.
  bool claim() noexcept {
    // relaxed: only the winner touches f_, and the job was handed to its thread by a lock.
    return !claimed_.exchange(true, std::memory_order_relaxed);
  }

  std::atomic<bool> claimed_{false};
  std::optional<F> f_;
  std::optional<Outcome<Result>> outcome_;
};

}  // namespace detail

template <class F>
class BlockingOp {
 public:
  using Result = std::invoke_result_t<F&>;
  static constexpr Reason reason{"blocking"};
  static constexpr bool outside = true;

  explicit BlockingOp(F f) : job_(new detail::BlockingJob<F>(std::move(f))) {}
  BlockingOp(BlockingOp&&) noexcept = default;
  BlockingOp& operator=(BlockingOp&&) = delete;
  ~BlockingOp() {
    if (job_) job_->give_up();
  }

  ObjectId object() const noexcept { return job_->id(); }
  bool try_now() const noexcept { return job_->done(); }
  Armed arm(Arm& arm) { return job_->arm(arm); }
  void disarm(Arm& arm) noexcept { job_->disarm(arm); }
  Result take() { return job_->take(); }
  void run_here() noexcept { job_->run(); }

 private:
  JobRef<detail::BlockingJob<F>> job_;
};

template <class F>
  requires std::invocable<F&>
[[nodiscard]] BlockingOp<F> blocking_op(F f) {
  return BlockingOp<F>(std::move(f));
}

template <class F>
  requires std::invocable<F&>
std::invoke_result_t<F&> blocking(F f) {
  return perform(blocking_op(std::move(f)));
}

}  // namespace weft

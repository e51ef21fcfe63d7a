// Threads for jobs that block: as many as there are jobs, up to a bound; then a queue, up to a
// bound; then Overloaded. A thread that had nothing to do for a while ends.
//
// Jobs and deadlocks. A job is *awaited* until it is complete or orphaned. That it leaves our lists
// and that its waiter is made ready is one step, under the mutex: so who finds awaited() false, and
// after that nobody made ready, knows that no result will wake anybody. But a job that has been
// orphaned may still do something at its end, as any other thread may. So who wants to know whether
// there are such threads counts those of the process and subtracts idle(); in this order, or a
// thread that has ended in between stands for another one that has not.
#pragma once

#include <weft/base/time.hpp>
#include <weft/io/job.hpp>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::io {

class JobPool {
 public:
  JobPool(std::size_t most_threads, std::size_t most_queued,
          Duration idle_limit = std::chrono::seconds(5)) noexcept
      : most_threads_(most_threads > 0 ? most_threads : 1),
        most_queued_(most_queued),
        idle_limit_(idle_limit) {}
  JobPool(const JobPool&) = delete;
  JobPool& operator=(const JobPool&) = delete;
  /// Waits for jobs that run; those that have not begun are dropped (completed, but not run).
  ~JobPool();

  /// Throws Overloaded, or std::system_error if not a single thread can be had.
  void start(Job& job);
  /// Is there a job, queued or running, whose end somebody waits for?
  [[nodiscard]] bool awaited();
  /// Threads that wait for jobs.
  [[nodiscard]] std::size_t idle();

 private:
  [[nodiscard]] bool full() const noexcept;
  void add_thread_if_needed();
  void take_orphans(List<Job>& orphans) noexcept;
  void work();
  [[nodiscard]] Job* next_job(std::unique_lock<std::mutex>& lock);
  void leave(std::unique_lock<std::mutex>& lock);

  const std::size_t most_threads_;
  const std::size_t most_queued_;
  const Duration idle_limit_;

  // An OS mutex: held for a few instructions and while somebody is made ready; not while a job runs
  // or a task waits, nor while anything of the user's is destroyed.
  std::mutex mutex_;
  std::condition_variable wake_;
  // All under mutex_.
  List<Job> queue_;
  List<Job> running_;
  std::size_t queued_ = 0;
  std::size_t idle_ = 0;    // threads that wait on wake_
  std::size_t coming_ = 0;  // threads about to look for a job: new, or done with one
  bool closing_ = false;
  std::vector<std::thread> threads_;  // all but those that end by themselves
  std::thread left_;                  // the last that did; it joins the one before it
};

}  // namespace weft::io

// Threads for jobs that block: as many as there are jobs, up to a bound; then a queue, up to a
// bound; then Overloaded. A thread that had nothing to do for a while ends.
#pragma once

#include <weft/io/job.hpp>

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

namespace weft::io {

class JobPool {
 public:
  JobPool(std::size_t most_threads, std::size_t most_queued) noexcept
      : most_threads_(most_threads), most_queued_(most_queued) {}
  JobPool(const JobPool&) = delete;
  JobPool& operator=(const JobPool&) = delete;
  /// Waits for jobs that run; those that have not begun and that nobody waits for are dropped.
  ~JobPool();

  /// Throws Overloaded, or std::system_error if not a single thread can be had.
  void start(Job& job);
  /// Jobs that were started and are not complete.
  [[nodiscard]] std::size_t pending();
  [[nodiscard]] std::size_t threads();

 private:
  void add_thread();
  void work();
  void join_ended(std::unique_lock<std::mutex>& lock);

  const std::size_t most_threads_;
  const std::size_t most_queued_;

  // An OS mutex: only held for a few instructions, never while a job runs or a task waits.
  std::mutex mutex_;
  std::condition_variable wake_;
  // All under mutex_.
  List<Job> queue_;
  std::size_t queued_ = 0;
  std::size_t running_ = 0;
  std::size_t idle_ = 0;
  std::size_t threads_ = 0;
  bool closing_ = false;
  std::vector<std::thread> all_;
  std::vector<std::thread::id> ended_;
};

}  // namespace weft::io

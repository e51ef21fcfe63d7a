#include "io/job_pool.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <string>

#include <pthread.h>

namespace weft::io {

namespace {
constexpr std::chrono::seconds idle_limit{5};
}

void JobPool::start(Job& job) {
  std::unique_lock lock(mutex_);
  join_ended(lock);
  if (queued_ >= idle_ && threads_ < most_threads_) {
    try {
      add_thread();
    } catch (...) {
      if (threads_ == 0) throw;  // the others will get to it
    }
  }
  if (queued_ >= most_queued_ + idle_) {
    throw Overloaded("too much blocking work: " + std::to_string(threads_) + " threads and " +
                     std::to_string(queued_) +
                     " jobs waiting; retry later, or raise KernelOptions::most_threads or "
                     "most_queued");
  }
  queue_.push_back(job);
  ++queued_;
  wake_.notify_one();
}

void JobPool::add_thread() {
  // Signals are for the program's own threads.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    all_.reserve(all_.size() + 1);
    ended_.reserve(all_.size() + 1);
    all_.emplace_back([this] { work(); });
    ++threads_;
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void JobPool::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Job* job = queue_.pop_front();
    if (job == nullptr) {
      if (closing_) break;
      ++idle_;
      const bool told =
          wake_.wait_for(lock, idle_limit, [this] { return closing_ || !queue_.empty(); });
      --idle_;
      if (!told) break;
      continue;
    }
    --queued_;
    ++running_;
    lock.unlock();
    if (!job->orphaned()) job->run();
    job->complete();
    lock.lock();
    --running_;
  }
  --threads_;
  ended_.push_back(std::this_thread::get_id());
}

void JobPool::join_ended(std::unique_lock<std::mutex>& lock) {
  while (!ended_.empty()) {
    const auto id = ended_.back();
    ended_.pop_back();
    const auto at = std::ranges::find(all_, id, &std::thread::get_id);
    std::thread thread = std::move(*at);
    all_.erase(at);
    lock.unlock();
    thread.join();
    lock.lock();
  }
}

std::size_t JobPool::pending() {
  const std::lock_guard guard(mutex_);
  return queued_ + running_;
}

std::size_t JobPool::threads() {
  const std::lock_guard guard(mutex_);
  return all_.size();
}

JobPool::~JobPool() {
  {
    const std::lock_guard guard(mutex_);
    closing_ = true;
    wake_.notify_all();
  }
  for (std::thread& thread : all_) thread.join();
}

}  // namespace weft::io

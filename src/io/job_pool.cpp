#include "io/job_pool.hpp"

#include "base/thread.hpp"

#include <algorithm>
#include <string>
#include <system_error>

#include <pthread.h>

namespace weft::io {

namespace {

bool any_awaited(const List<Job>& jobs) noexcept {
  for (const Job* job = jobs.front(); job != nullptr; job = jobs.next(*job)) {
    if (!job->orphaned()) return true;
  }
  return false;
}

void complete_all(List<Job>& jobs) noexcept {
  while (Job* job = jobs.pop_front()) job->complete();
}

}  // namespace

void JobPool::start(Job& job) {
  List<Job> orphans;
  bool taken = false;
  {
    const std::lock_guard guard(mutex_);
    add_thread_if_needed();
    if (full()) take_orphans(orphans);
    if (!full()) {
      queue_.push_back(job);
      ++queued_;
      taken = true;
    }
  }
  complete_all(orphans);
  if (!taken) {
    throw Overloaded("too much blocking work: all " + std::to_string(most_threads_) +
                     " threads are at it and " + std::to_string(most_queued_) +
                     " jobs wait; retry later, or raise KernelOptions::most_threads or "
                     "most_queued");
  }
  wake_.notify_one();
}

// A thread that is free, or about to be, takes one of the queued jobs; those do not count.
bool JobPool::full() const noexcept {
  return queued_ >= most_queued_ + idle_ + coming_;
}

void JobPool::add_thread_if_needed() {
  if (queued_ < idle_ + coming_ || threads_.size() == most_threads_) return;
  try {
    threads_.reserve(threads_.size() + 1);
    const NoSignals no_signals;
    threads_.emplace_back([this] { work(); });
    ++coming_;
  } catch (const std::system_error& error) {
    if (!threads_.empty()) return;  // the others will get to it
    throw std::system_error(error.code(), "starting a thread for blocking work");
  }
}

void JobPool::take_orphans(List<Job>& orphans) noexcept {
  for (Job* job = queue_.front(); job != nullptr;) {
    Job* const next = queue_.next(*job);
    if (job->orphaned()) {
      job->unlink();
      --queued_;
      orphans.push_back(*job);
    }
    job = next;
  }
}

void JobPool::work() {
  ::pthread_setname_np(::pthread_self(), "weft-blocking");
  std::unique_lock lock(mutex_);
  --coming_;
  while (Job* job = next_job(lock)) {
    running_.push_back(*job);
    lock.unlock();
    if (!job->orphaned()) job->run();
    lock.lock();
    job->unlink();
    job->retain();  // what dies with it dies without the lock
    job->complete();
    ++coming_;  // who has just been told may count on this thread for the next job
    lock.unlock();
    job->release();
    lock.lock();
    --coming_;
  }
  if (!closing_) leave(lock);
}

// Null: there was nothing to do for long, or there will never be.
Job* JobPool::next_job(std::unique_lock<std::mutex>& lock) {
  while (queue_.empty()) {
    if (closing_) return nullptr;
    ++idle_;
    const bool told =
        wake_.wait_for(lock, idle_limit_, [this] { return closing_ || !queue_.empty(); });
    --idle_;
    if (!told) return nullptr;
  }
  --queued_;
  return queue_.pop_front();
}

// The calling thread ends by itself. It joins the one that did so before it, so that one at most is
// left to be joined, and no worker ever waits for a thread's end.
void JobPool::leave(std::unique_lock<std::mutex>& lock) {
  const auto self = std::ranges::find(threads_, std::this_thread::get_id(), &std::thread::get_id);
  std::thread before = std::exchange(left_, std::move(*self));
  threads_.erase(self);
  lock.unlock();
  if (before.joinable()) before.join();
}

bool JobPool::awaited() {
  const std::lock_guard guard(mutex_);
  return any_awaited(running_) || any_awaited(queue_);
}

std::size_t JobPool::idle() {
  const std::lock_guard guard(mutex_);
  return idle_;
}

JobPool::~JobPool() {
  List<Job> dropped;
  {
    const std::lock_guard guard(mutex_);
    closing_ = true;  // from here on threads leave all of this alone
    dropped.take_all(queue_);
    queued_ = 0;
  }
  wake_.notify_all();
  complete_all(dropped);
  for (std::thread& thread : threads_) thread.join();
  if (left_.joinable()) left_.join();
}

}  // namespace weft::io

#include "sched/monitor.hpp"

#include <weft/task/dump.hpp>

#include "base/thread.hpp"
#include "io/clock.hpp"
#include "sched/cpus.hpp"
#include "sched/stuck_stack.hpp"

#include <cstdio>
#include <mutex>
#include <system_error>

#include <pthread.h>
#include <unistd.h>

namespace weft {

namespace {

constexpr auto interval = std::chrono::milliseconds(5);
constexpr auto between_reports = std::chrono::seconds(1);
constexpr auto spares_linger = std::chrono::seconds(1);

}  // namespace

Monitor::Monitor(Pool& pool, const PoolOptions& options)
    : pool_(pool),
      pin_(options.pin),
      report_after_(options.report_stuck_after),
      clock_(make_thread_kernel()),
      seen_(pool.workers_.size()) {}

void Monitor::start() {
  const NoSignals no_signals;
  for (std::size_t i = 0; i < pool_.regular_; ++i) {
    pool_.workers_[i]->retired.store(false);
    pool_.started_.store(i + 1);
    start_thread(*pool_.workers_[i]);
  }
  thread_ = std::thread([this] { watch(); });
}

void Monitor::start_thread(PoolWorker& worker) {
  worker.thread = std::thread([this, &worker] {
    const std::string name = "weft-" + std::to_string(worker.index + 1);
    ::pthread_setname_np(::pthread_self(), name.c_str());
    worker.tid.store(::gettid());
    admit_stack_signal();
    if (pin_ && worker.index < pool_.regular_) {
      pin_to_cpu(usable_cpus()[worker.index % usable_cpus().size()]);
    }
    pool_.work(worker);
    worker.retired.store(true);
  });
}

void Monitor::stop() noexcept {
  stopping_.store(true);
  clock_->interrupt();
  if (thread_.joinable()) thread_.join();
  for (auto& worker : pool_.workers_) {
    if (worker->thread.joinable()) worker->thread.join();
  }
}

void Monitor::watch() {
  ::pthread_setname_np(::pthread_self(), "weft-monitor");
  running_.store(true);
  while (!stopping_.load()) {
    clock_->wait(clock_->now() + interval);
    if (stopping_.load()) break;
    look(clock_->now());
    doze();
  }
  running_.store(false);
}

// As long as everybody sleeps there is nothing to watch. Whoever wakes up looks whether we doze
// after it counts as awake, and we look whether anybody is awake after we count as dozing.
void Monitor::doze() {
  dozing_.store(true);
  while (dozing_.load() && !stopping_.load() && spares_.load() == 0 &&
         pool_.idlers_.poller() != nullptr &&
         pool_.idlers_.sleepers() == pool_.idlers_.everybody()) {
    clock_->wait(Instant::never());
  }
  dozing_.store(false);
}

void Monitor::rouse() noexcept {
  if (dozing_.exchange(false)) clock_->interrupt();
}

void Monitor::look(Instant now) {
  stuck_ = 0;
  for (std::size_t i = 0; i < pool_.worker_count(); ++i) look_at(i, now);
  attend_outside();
  help_out(now);
}

void Monitor::look_at(std::size_t index, Instant now) {
  PoolWorker& worker = *pool_.workers_[index];
  Seen& seen = seen_[index];
  const std::uint64_t turns = worker.turns_begun();
  const bool away = worker.idler.asleep.load() != 0 || worker.held.load() || worker.retired.load();
  if (away || turns != seen.turns || seen.since == Instant{}) {
    seen = {
        .turns = turns, .since = now, .cpu = away ? Duration{} : io::cpu_time_of(worker.thread)};
    worker.stuck.store(false);
    return;
  }
  const Duration stuck_for = now - seen.since;
  if (stuck_for < interval) return;
  const bool computes = io::cpu_time_of(worker.thread) - seen.cpu >= interval;
  if (!computes && io::is_runnable(worker.tid.load()))
    return;  // the machine has other things to do
  ++stuck_;
  worker.stuck.store(true);
  // What is hot there is taken by those who have nothing to do; there may be nobody. For a moment
  // it is in no queue, and only who has this lock declares deadlocks. (If somebody polls, see
  // below.)
  if (pool_.outside_.try_lock()) {
    const std::lock_guard guard(pool_.outside_, std::adopt_lock);
    if (Task* task = worker.steal_hot(worker, turns)) pool_.inject(*task);
  }
  if (worker.hot() || worker.anything_to_steal() || pool_.ranks_.highest() != RankedQueue::none) {
    pool_.idlers_.wake_one();
  }
  const bool due = report_after_ > Duration::zero() && stuck_for >= report_after_;
  if (due && !seen.reported && now >= next_report_) {
    seen.reported = true;
    next_report_ = now + between_reports;
    report(worker, stuck_for);
  }
}

// If nobody sleeps there, and nobody has looked since we did.
void Monitor::attend_outside() {
  std::uint64_t polls = 0;
  for (std::size_t i = 0; i < pool_.worker_count(); ++i) polls += pool_.workers_[i]->polls.get();
  const bool neglected = polls == std::exchange(polls_, polls);
  if (!pool_.outside_.try_lock()) return;  // then somebody is there
  const std::lock_guard guard(pool_.outside_, std::adopt_lock);
  answer_dump_request(pool_);
  if (pool_.virtual_time_ || pool_.idlers_.poller() != nullptr || !neglected) return;
  if (pool_.kernel_->in_use()) pool_.kernel_->wait(Instant{});
  WakeList wakes;
  pool_.timeline_.advance(pool_.kernel_->now(), wakes);
}

void Monitor::help_out(Instant now) {
  Idlers& idlers = pool_.idlers_;
  const bool somebody_free = idlers.sleepers() + idlers.searchers() > 0;
  // Those who sleep may all do so on their own words, and nobody in the kernel.
  if (somebody_free && idlers.poller() == nullptr) idlers.wake_one();

  const std::size_t spares = spares_.load();
  // A worker may also look stuck because there are more of them than cores.
  const std::size_t enough = std::min(pool_.regular_, usable_cpus().size());
  const bool too_few = idlers.everybody() < stuck_ + enough;
  if (too_few && !somebody_free && pool_.work_waits()) {
    start_spare();
    return;
  }

  if (spares <= stuck_) {
    too_many_since_.reset();
    unneeded_.store(0);
    return;
  }
  if (!too_many_since_) too_many_since_ = now;
  if (now - *too_many_since_ < spares_linger) return;
  unneeded_.store(spares - stuck_);
  for (std::size_t i = pool_.regular_; i < pool_.worker_count(); ++i) {
    idlers.wake(pool_.workers_[i]->idler);
  }
}

void Monitor::start_spare() {
  for (std::size_t i = pool_.regular_; i < pool_.workers_.size(); ++i) {
    PoolWorker& spare = *pool_.workers_[i];
    if (!spare.retired.load()) continue;
    if (spare.thread.joinable()) spare.thread.join();
    // It counts before it exists: others see it from its first step on.
    spare.retired.store(false);
    pool_.started_.store(std::max(pool_.started_.load(), i + 1));
    spares_.fetch_add(1);
    try {
      const NoSignals no_signals;
      start_thread(spare);
      spares_started_.fetch_add(1);
    } catch (const std::system_error&) {  // no thread to be had now; maybe at the next look
      spares_.fetch_sub(1);
      spare.retired.store(true);
    }
    return;
  }
}

bool Monitor::may_retire(PoolWorker& worker) noexcept {
  if (worker.index < pool_.regular_ || worker.has_tasks()) return false;
  std::size_t unneeded = unneeded_.load();
  while (unneeded > 0) {
    if (unneeded_.compare_exchange_weak(unneeded, unneeded - 1)) {
      spares_.fetch_sub(1);
      return true;
    }
  }
  return false;
}

void Monitor::report(const PoolWorker& worker, Duration stuck_for) {
  const std::string stack = stack_of_thread(worker.thread, *clock_);
  if (stack.empty()) return;  // it is in no task: the machine has kept it waiting
  reports_.fetch_add(1);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(stuck_for).count();
  const std::string text = "weft: worker " + std::to_string(worker.index + 1) +
                           " has been in one task for " + std::to_string(ms) +
                           " ms; what blocks belongs in blocking(), what computes should yield()\n";
  std::fputs((text + stack).c_str(), stderr);
}

}  // namespace weft

#include <weft/sched/pool.hpp>

#include <weft/task/dump.hpp>

#include "sched/cpus.hpp"
#include "sched/monitor.hpp"
#include "sched/nap.hpp"
#include "sched/pool_worker.hpp"

#include <cstdio>
#include <mutex>

namespace weft {

namespace {

// Some microseconds in all before a worker goes to sleep: being woken costs several times that.
constexpr int rounds_before_sleep = 16;
constexpr int pauses_per_round = 16;

std::size_t workers_wanted(const PoolOptions& options) {
  return options.workers > 0 ? options.workers : default_workers();
}

std::size_t searchers_wanted(std::size_t workers) {
  return std::max<std::size_t>(1, std::min(workers, usable_cpus().size()) / 2);
}

}  // namespace

// Set-up and end

Pool::Pool(PoolOptions options)
    : Io(std::move(options.io)),
      kernel_(options.kernel ? std::move(options.kernel) : make_real_kernel()),
      on_deadlock_(options.on_deadlock),
      virtual_time_(kernel_->patience() == Duration::zero()),
      regular_(workers_wanted(options)),
      timeline_(kernel_->now()),
      idlers_(*kernel_, searchers_wanted(regular_), virtual_time_) {
  const std::size_t most = regular_ + options.most_spares;
  workers_.reserve(most);
  for (std::size_t i = 0; i < most; ++i) {
    workers_.push_back(std::make_unique<PoolWorker>(*this, i));
    workers_.back()->turns_seen.resize(most);
  }
  monitor_ = std::make_unique<Monitor>(*this, options);
  enter_registry();
  try {
    monitor_->start();
  } catch (...) {
    leave_registry();
    stop_threads();
    throw;
  }
}

Pool::~Pool() noexcept {
  if (live() > 0) {
    cancel_all();
    wait_until_quiet();
  }
  leave_registry();
  wait_for_visitors();
  stop_threads();
}

void Pool::stop_threads() noexcept {
  stopping_.store(true);
  for (auto& worker : workers_) idlers_.wake(worker->idler);
  monitor_->stop();
}

void Pool::refuse_in_task() {
  if (this_task() == nullptr) return;
  throw std::logic_error(
      "waiting for a pool inside a task would block the task's worker; spawn and join instead");
}

void Pool::wait_until_quiet() noexcept {
  const Waiting waiting(*this);
  for (;;) {
    const std::uint32_t before = quiet_.load();
    if (live() == 0) return;
    quiet_.wait(before);
  }
}

void Pool::run() {
  refuse_in_task();
  wait_until_quiet();
  deadlock_.throw_if_any();
}

// Whoever is claimed and not yet committed is in no queue, and nobody else wakes him.
void Pool::cancel_all() noexcept {
  const Visit visit(*this);
  root().cancel(CancelReason::shutdown);
}

bool Pool::shutdown(Duration limit) {
  refuse_in_task();
  cancel_all();
  const auto clock = make_thread_kernel();
  const Instant until = clock->now() + limit;
  while (live() > 0) {
    const Instant now = clock->now();
    if (now >= until) {
      report_leftovers();
      return false;
    }
    clock->wait(std::min(until, now + std::chrono::milliseconds(1)));
  }
  return true;
}

// No task is left if as many have ended as were admitted. Those that ended are counted first: both
// numbers only grow, and who sees a task's end sees its beginning and that of all it spawned; so
// they are equal only if there was a moment without tasks.
std::size_t Pool::live() const noexcept {
  const std::uint64_t ended = tasks_ended();
  std::uint64_t admitted = admitted_.load();
  for (std::size_t i = 0; i < worker_count(); ++i) admitted += workers_[i]->spawned.get();
  return static_cast<std::size_t>(admitted - ended);
}

std::uint64_t Pool::tasks_ended() const noexcept {
  std::uint64_t ended = 0;
  for (std::size_t i = 0; i < worker_count(); ++i) ended += workers_[i]->ended.get();
  return ended;
}

void Pool::tell_if_quiet() noexcept {
  if (waiting_.load() == 0 || live() != 0) return;
  quiet_.fetch_add(1);
  quiet_.notify_all();
}

// What tasks ask

PoolWorker* Pool::own_worker() const noexcept {
  Worker* worker = this_worker();
  return worker != nullptr && &worker->io() == this ? static_cast<PoolWorker*>(worker) : nullptr;
}

void Pool::arm_timer(TimerNode& timer) noexcept {
  if (timeline_.arm(timer)) kernel_->interrupt();
}

std::uint32_t Pool::choose(std::uint32_t n) noexcept {
  PoolWorker* worker = own_worker();
  return worker == nullptr ? 0 : worker->rng.below(n);
}

std::uint64_t Pool::next_tid() noexcept {
  constexpr std::uint64_t tids_at_once = 64;
  PoolWorker* worker = own_worker();
  if (worker == nullptr) return reserve_tids(1);
  if (worker->tids == worker->tids_end) {
    worker->tids = reserve_tids(tids_at_once);
    worker->tids_end = worker->tids + tids_at_once;
  }
  return worker->tids++;
}

void Pool::admit() noexcept {
  if (PoolWorker* worker = own_worker()) {
    worker->spawned.add();
  } else {
    visit_begins();  // until it is launched: it counts as live, and is in no queue yet
    admitted_.fetch_add(1);
  }
}

void Pool::retire() noexcept {
  own_worker()->ended.add();
}

void Pool::launch(Task& task) noexcept {
  PoolWorker* const worker = own_worker();
  if (worker == nullptr) {
    ready(task);
    visit_ends();
  } else if (task.priority() != priority::normal) {
    rank(task);
  } else if (!deliver(task)) {
    worker->spawn(task);
  }
}

void Pool::ready(Task& task) noexcept {
  PoolWorker* const worker = own_worker();
  if (worker != nullptr) {
    if (task.priority() != priority::normal) {
      rank(task);
    } else if (!deliver(task)) {
      worker->wake(task);
    }
    return;
  }
  const Visit visit(*this);
  if (task.priority() != priority::normal) {
    rank(task);
  } else if (!deliver(task)) {
    inject(task);
  }
}

// To the worker it wants, unless that one is stuck or has too much to do already.
bool Pool::deliver(Task& task) noexcept {
  if (task.wanted_worker() == 0) return false;
  PoolWorker& wanted = *workers_[(task.wanted_worker() - 1U) % regular_];
  // relaxed: a hint.
  if (wanted.stuck.load() ||
      wanted.inbox_size.load(std::memory_order_relaxed) >= PoolWorker::longest_inbox) {
    return false;
  }
  wanted.inbox_size.fetch_add(1, std::memory_order_relaxed);  // relaxed: a hint
  wanted.inbox.push(task);
  idlers_.wake(wanted.idler);
  return true;
}

void Pool::inject(Task& task) noexcept {
  injector_.push(task);
  idlers_.wake_one();
}

void Pool::rank(Task& task) noexcept {
  ranks_.push(task);
  idlers_.wake_one();
}

void Pool::block(Task& task) {
  WEFT_CHECK(false, "task '", task.name(), "' on a pool has no thread to block");
}

// A worker's day

void Pool::work(PoolWorker& worker) {
  worker.attach(true);
  idlers_.joined();
  monitor_->awake();
  for (;;) {
    if (holds_.load() != 0) stand_still(worker);
    look_outside(worker);
    worker.empty_inbox();
    // After bounded local work, somebody from outside.
    if (Task* task = injector_.pop()) worker.put_first(*task);
    if (worker.run_tasks()) {
      // It has more than it gets done.
      if (worker.anything_to_steal() || ranks_.highest() != RankedQueue::none) idlers_.wake_one();
      continue;
    }
    if (stopping_.load() || monitor_->may_retire(worker)) break;
    tell_if_quiet();
    if (Task* task = search(worker)) {
      worker.put_first(*task);
    } else if (worker.inbox.empty() && !worker.has_tasks()) {  // it has some if it was held
      sleep(worker);
    }
  }
  if (worker.idler.searching) stop_searching(worker);
  idlers_.left();
  // The others may all be asleep, and it was for us to notice what that means.
  if (virtual_time_) idlers_.wake_one();
  tell_if_quiet();
  tell_poller();
  worker.detach();
}

// For a few microseconds. One that may not search, because others do, waits for its turn as long.
// Null: nothing, or something has been sent to it; if it counts as searching, it still does.
Task* Pool::search(PoolWorker& worker) noexcept {
  worker.searches.add();
  for (std::size_t i = 0; i < worker_count(); ++i) {
    worker.turns_seen[i] = workers_[i]->turns_begun();
  }
  Task* task = nullptr;
  for (int round = 0; task == nullptr && round < rounds_before_sleep; ++round) {
    if (!worker.inbox.empty()) return nullptr;
    if (idlers_.start_searching(worker.idler)) task = look_around(worker);
    if (task == nullptr) spin_pause(pauses_per_round);
  }
  if (!worker.idler.searching) return nullptr;
  if (task == nullptr) task = look_for_hot(worker);
  if (task != nullptr) stop_searching(worker);
  return task;
}

Task* Pool::look_around(PoolWorker& worker) noexcept {
  if (Task* task = worker.take_injected(regular_)) return task;
  if (Task* task = ranks_.pop()) return task;
  const std::size_t count = worker_count();
  const std::size_t first = worker.rng.below(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    PoolWorker& victim = *workers_[(first + i) % count];
    if (&victim == &worker) continue;
    if (Task* task = worker.steal_from(victim)) return task;
  }
  return nullptr;
}

// What somebody woke and has not come to run since we began to search.
Task* Pool::look_for_hot(PoolWorker& worker) noexcept {
  for (std::size_t i = 0; i < worker_count(); ++i) {
    if (i == worker.index) continue;
    if (Task* task = worker.steal_hot(*workers_[i], worker.turns_seen[i])) return task;
  }
  return nullptr;
}

void Pool::stop_searching(PoolWorker& worker) noexcept {
  if (idlers_.stop_searching(worker.idler) && work_anywhere()) idlers_.wake_one();
}

bool Pool::work_anywhere() const noexcept {
  if (!injector_.empty() || ranks_.highest() != RankedQueue::none) return true;
  for (std::size_t i = 0; i < worker_count(); ++i) {
    if (workers_[i]->anything_to_steal()) return true;
  }
  return false;
}

// The same, with what is hot.
bool Pool::work_waits() const noexcept {
  for (std::size_t i = 0; i < worker_count(); ++i) {
    if (workers_[i]->hot()) return true;
  }
  return work_anywhere();
}

// Announce, look once more, sleep. Afterwards the worker counts as searching, or there is something
// for it alone.
void Pool::sleep(PoolWorker& worker) {
  worker.sleeps.add();
  idlers_.announce(worker.idler);
  tell_if_quiet();
  if (!worker.inbox.empty() || worker.has_tasks() || stopping_.load() || holds_.load() != 0) {
    idlers_.leave(worker.idler);
  } else if (work_anywhere()) {
    idlers_.search_again(worker.idler);
  }
  if (idlers_.poller() == &worker.idler) {
    poll(worker);
    idlers_.leave(worker.idler);
    if (worker.queued() > 1) idlers_.wake_one();
  } else {
    tell_poller();
    Idlers::sleep(worker.idler);
  }
  monitor_->awake();
}

// The last one to fall asleep may have brought about a deadlock, which is for the poller to find.
void Pool::tell_poller() noexcept {
  if (on_deadlock_ == OnDeadlock::wait || !all_asleep() || live() == 0) return;
  if (timeline_.next().is_never() && !kernel_->expects()) kernel_->interrupt();
}

// The outside

// Between tasks, if nobody sleeps there.
void Pool::look_outside(PoolWorker& worker) {
  if (idlers_.poller() != nullptr || virtual_time_) return;
  const bool timers = !timeline_.next().is_never();
  if ((!timers && !kernel_->in_use()) || !outside_.try_lock()) return;
  const std::lock_guard guard(outside_, std::adopt_lock);
  worker.polls.add();
  worker.looking_outside = true;
  if (kernel_->in_use()) kernel_->wait(Instant{});
  if (timers) {
    WakeList wakes;
    timeline_.advance(kernel_->now(), wakes);
  }
  worker.looking_outside = false;
  if (worker.queued() > 1) idlers_.wake_one();
}

void Pool::poll(PoolWorker& worker) {
  const std::lock_guard guard(outside_);
  worker.looking_outside = true;
  while (worker.idler.asleep.load() != 0 && !worker.has_tasks()) {
    if (virtual_time_ && !all_asleep()) break;  // somebody was woken: then time stands still
    worker.polls.add();
    wait_outside(worker);
  }
  worker.looking_outside = false;
}

void Pool::wait_outside(PoolWorker& worker) {
  answer_dump_request(*this);
  const Instant next = timeline_.sleep();
  if (next.is_never()) {
    wait_without_deadline(worker);
  } else if (!virtual_time_ || all_asleep()) {  // else somebody armed this timer, and runs
    kernel_->wait(nap_until(next, timeline_, *kernel_));
  }
  timeline_.awake();
  WakeList wakes;
  timeline_.advance(kernel_->now(), wakes);
}

void Pool::wait_without_deadline(PoolWorker& worker) {
  if (live() == 0 || !all_asleep()) {
    kernel_->wait(Instant::never());  // see tell_poller()
    return;
  }
  if (!deadlock_.nobody_will_wake(*kernel_, on_deadlock_, own_threads())) return;
  // In this order: whoever spawns a task counts it, publishes it and leaves, and whoever runs it is
  // awake; what it then waits for, a timer or a descriptor, is there before it sleeps. And nobody
  // has begun a turn or ended since we looked: it may have been the last one, or it waits for
  // something else now. Once more, because a visitor who cancels has claimed others, and may have
  // come after the first look and not be through, while those who were awake fell asleep.
  const std::uint64_t steps = steps_taken();
  if (live() > 0 && nobody_is_up() && worker.idler.asleep.load() != 0 &&
      timeline_.next().is_never() && !kernel_->expects() && nobody_is_up() &&
      steps_taken() == steps) {
    deadlock_.declare(*this);
  }
}

// Turns begun and tasks ended: both only grow.
std::uint64_t Pool::steps_taken() const noexcept {
  std::uint64_t steps = tasks_ended();
  for (std::size_t i = 0; i < worker_count(); ++i) steps += workers_[i]->turns_begun();
  return steps;
}

bool Pool::nobody_is_up() const noexcept {
  return !visited() && all_asleep() && !work_anywhere();
}

// Nothing runs, and nothing has been sent to anybody.
bool Pool::all_asleep() const noexcept {
  if (idlers_.sleepers() < idlers_.everybody() || idlers_.everybody() < regular_) return false;
  for (std::size_t i = 0; i < worker_count(); ++i) {
    if (!workers_[i]->inbox.empty()) return false;
  }
  return true;
}

std::size_t Pool::own_threads() const noexcept {
  return idlers_.everybody() - 1 + monitor_->threads() + waiting_.load();
}

// Dumps

void Pool::stand_still(PoolWorker& worker) noexcept {
  do {
    worker.held.store(true);
    while (const std::uint32_t holds = holds_.load()) holds_.wait(holds);
    worker.held.store(false);
  } while (holds_.load() != 0);  // another one, who has seen that we were held
}

// A worker that does not come home, and begins nothing, is in a task that may take for ever.
void Pool::hold() noexcept {
  holds_.fetch_add(1);
  const auto clock = make_thread_kernel();
  for (std::size_t i = 0; i < worker_count(); ++i) {
    const PoolWorker& worker = *workers_[i];
    if (&worker == own_worker()) continue;
    std::uint64_t turns = worker.turns_begun();
    Instant since = clock->now();
    while (!worker.held.load() && worker.idler.asleep.load() == 0 && !worker.retired.load()) {
      clock->wait(clock->now() + std::chrono::microseconds(100));
      if (worker.turns_begun() != turns) {
        turns = worker.turns_begun();
        since = clock->now();
      } else if (clock->now() - since > std::chrono::milliseconds(50)) {
        break;
      }
    }
  }
}

void Pool::let_go() noexcept {
  holds_.fetch_sub(1);
  holds_.notify_all();
}

}  // namespace weft

#include "sched/pool_worker.hpp"

#include <bit>

namespace weft {

namespace {

constexpr std::uint32_t most_hot_in_a_row = 16;
// Of so many tasks taken, one is the oldest in the queue, and the oldest of the fresh ones. The
// latter is rare: it begins another large branch of a tree of tasks, and costs memory.
constexpr std::uint32_t one_queued_in = 16;
constexpr std::uint32_t one_old_in = 1024;
constexpr std::uint32_t one_sample_in = 64;  // of turns and of wakes
constexpr std::uint32_t cold_for = 256;      // wakes
constexpr auto too_long_hot = std::chrono::microseconds(20);

void count(std::array<Counter, DurationHistogram::buckets>& counts, Duration d) noexcept {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(d.count(), 0));
  counts[std::min<std::size_t>(std::bit_width(ns), counts.size() - 1)].add();
}

DurationHistogram read(const std::array<Counter, DurationHistogram::buckets>& counts) noexcept {
  DurationHistogram histogram;
  for (std::size_t i = 0; i < counts.size(); ++i) histogram.counts[i] = counts[i].get();
  return histogram;
}

}  // namespace

PoolWorker::PoolWorker(Pool& pool, std::size_t number) noexcept
    : Worker(pool, true), index(number), rng(number + 1), pool_(pool) {}

// Into a queue of our own; if it is full, half of it goes to the injector.
void PoolWorker::push(Queue& queue, Task& task) noexcept {
  if (queue.push(&task)) return;
  std::array<Task*, Queue::capacity / 2> moved;
  pool_.injector_.push_all(queue.drain_half(moved));
  if (!queue.push(&task)) pool_.injector_.push(task);  // a thief is still at it
}

// One that yielded.
void PoolWorker::put_back(Task& task) noexcept {
  if (task.priority() == priority::normal) {
    push(queue_, task);
  } else {
    pool_.rank(task);
  }
}

void PoolWorker::wake(Task& task) noexcept {
  woken_.add();
  if (looking_outside) {  // whoever looks tells the others when it is through
    push(queue_, task);
    return;
  }
  sample_wake(task);
  if (keep_cold_ > 0) {
    --keep_cold_;
    push(queue_, task);
    pool_.idlers_.wake_one();
    return;
  }
  put_next(task);
}

// The hot one, which others take only if it has to wait for long.
void PoolWorker::put_next(Task& task) noexcept {
  lone_ = nullptr;
  Task* const before = hot_.put(task);
  if (before == nullptr) return;
  push(queue_, *before);
  pool_.idlers_.wake_one();
}

// A single task is left to this worker, which will soon wait for it, most likely; unless experience
// says otherwise. So it is hot: for a moment nobody else takes it.
void PoolWorker::spawn(Task& task) noexcept {
  const bool one_is_hot = hot();  // a thief may take it any time
  const bool lone_waits = lone_ != nullptr && one_is_hot;
  const bool alone = fresh_.empty() && keep_cold_ == 0 && !one_is_hot;
  if (keep_cold_ > 0) --keep_cold_;
  sample_wake(task);
  if (alone) {
    put_next(task);
    lone_ = &task;
    return;
  }
  if (lone_waits) let_others_have_lone();
  push(fresh_, task);
  pool_.idlers_.wake_one();
}

// As if it had never been hot.
void PoolWorker::let_others_have_lone() noexcept {
  if (std::exchange(lone_, nullptr) == nullptr) return;
  if (Task* const task = hot_.take()) push(fresh_, *task);
}

bool PoolWorker::wants_forks() const noexcept {
  return fresh_.size() == 0 && pool_.worker_count() > 1;
}

void PoolWorker::forked() noexcept {
  let_others_have_lone();
  pool_.idlers_.wake_one();
}

// The hot one, or else the newest, is what take_normal() would take now; not that it overtakes
// whoever is urgent.
bool PoolWorker::take_fresh(Task& task) noexcept {
  // relaxed: as in take().
  if (!ready_.empty() || pool_.holds_.load(std::memory_order_relaxed) != 0 ||
      pool_.ranks_.about_highest() > priority::normal) {
    return false;
  }
  const bool taken =
      (lone_ == &task && hot_.take() != nullptr) || (!hot() && fresh_.pop_newest(&task) != nullptr);
  // It is over with what was measured, also if that was somebody else in the same block.
  if (taken && (&task == watched_ || turn_since_ != Instant{})) sample_turn(task);
  return taken;
}

[[gnu::always_inline]] inline Task* PoolWorker::take_normal() noexcept {
  if (++takes_ % one_queued_in == 0) {
    if (takes_ % one_old_in == 0) {
      if (Task* task = fresh_.pop()) return task;
    }
    if (Task* task = queue_.pop()) return task;
  }
  if (hot_in_a_row_ < most_hot_in_a_row) {
    if (Task* task = hot_.take()) {
      ++hot_in_a_row_;
      return task;
    }
  }
  hot_in_a_row_ = 0;
  if (Task* task = fresh_.pop_newest()) return task;
  if (Task* task = queue_.pop()) return task;
  return hot_.take();
}

// The urgent first; what is less than normal only if there is nothing else.
[[gnu::always_inline]] inline Task* PoolWorker::choose_next(std::uint8_t at_least) noexcept {
  SharedRanks& ranks = pool_.ranks_;
  if (ranks.about_highest() > priority::normal) {
    if (Task* task = ranks.pop(std::max<int>(at_least, priority::normal + 1))) return task;
  }
  if (at_least > priority::normal) return nullptr;
  if (Task* task = take_normal()) return task;
  if (ranks.about_highest() < at_least || ranks.about_highest() == RankedQueue::none)
    return nullptr;
  if (Task* task = pool_.injector_.pop()) return task;
  return ranks.pop(at_least);
}

Task* PoolWorker::take(std::uint8_t at_least) noexcept {
  // relaxed: the dump waits until we have seen it.
  if (pool_.holds_.load(std::memory_order_relaxed) != 0) return nullptr;
  Task* const task = choose_next(at_least);
  if (task == nullptr) return nullptr;
  if (task == watched_ || turn_since_ != Instant{} || takes_ % one_sample_in == 0) {
    sample_turn(*task);
  }
  return task;
}

void PoolWorker::sample_wake(const Task& task) noexcept {
  if (++wakes_ % one_sample_in != 0) return;
  watched_ = &task;
  watched_since_ = pool_.now();
}

// Between two tasks. A watched task that was stolen is forgotten with the next sample.
void PoolWorker::sample_turn(const Task& next) noexcept {
  const Instant now = pool_.now();
  if (turn_since_ != Instant{}) {
    count(length_, now - turn_since_);
    turn_since_ = {};
  }
  if (&next == watched_) {
    watched_ = nullptr;
    const Duration delay = now - watched_since_;
    count(delay_, delay);
    if (delay > too_long_hot) keep_cold_ = cold_for;
  }
  if (takes_ % one_sample_in == 0) turn_since_ = now;
}

bool PoolWorker::run_tasks() {
  budget_ = turns_per_visit;
  bool any = false;
  // relaxed: as in take().
  while (budget_ > 0 && pool_.holds_.load(std::memory_order_relaxed) == 0) {
    Task* task = ready_.pop();
    if (task == nullptr) task = take();
    if (task == nullptr) break;
    // Wherever the task came from: who still counted as searching while it runs would keep
    // everybody else asleep.
    if (idler.searching) pool_.stop_searching(*this);
    --budget_;
    any = true;
    run(*task);
  }
  return any;
}

void PoolWorker::empty_inbox() noexcept {
  if (inbox.empty()) return;
  ReadyQueue sent;
  inbox.drain_into(sent);
  std::size_t count = 0;
  while (Task* task = sent.pop()) {
    put_first(*task);
    ++count;
  }
  inbox_size.fetch_sub(count, std::memory_order_relaxed);  // relaxed: a hint
}

Task* PoolWorker::take_injected(std::size_t sharers) noexcept {
  return pool_.injector_.pop_some(queue_, sharers);
}

Task* PoolWorker::steal_from(PoolWorker& victim) noexcept {
  for (Queue* const mine : {&queue_, &fresh_}) {
    Queue& theirs = mine == &queue_ ? victim.queue_ : victim.fresh_;
    const std::size_t before = mine->size();
    if (Task* task = theirs.steal_half(*mine)) {
      stolen.add(1 + mine->size() - before);
      return task;
    }
  }
  if (!victim.stuck.load() || victim.inbox.empty()) return nullptr;
  ReadyQueue sent;
  victim.inbox.drain_into(sent);
  Task* const first = sent.pop();
  std::size_t count = first == nullptr ? 0 : 1;
  while (Task* task = sent.pop()) {
    push(queue_, *task);
    ++count;
  }
  victim.inbox_size.fetch_sub(count, std::memory_order_relaxed);  // relaxed: a hint
  return first;
}

Task* PoolWorker::steal_hot(PoolWorker& victim, std::uint64_t seen) noexcept {
  if (!victim.hot() || victim.turns_begun() != seen) return nullptr;
  return victim.hot_.take();
}

std::size_t PoolWorker::queued() const noexcept {
  return queue_.size() + fresh_.size() + (hot() ? 1 : 0) +
         inbox_size.load(std::memory_order_relaxed);  // relaxed: a report
}

WorkerStats PoolWorker::stats() const noexcept {
  WorkerStats stats;
  stats.spawned = spawned.get();
  stats.ended = ended.get();
  stats.turns = turns_begun();
  stats.woken = woken_.get();
  stats.stolen = stolen.get();
  stats.searches = searches.get();
  stats.sleeps = sleeps.get();
  stats.polls = polls.get();
  stats.queued = queued();
  stats.asleep = idler.asleep.load() != 0;
  stats.stuck = stuck.load();
  stats.delay = read(delay_);
  stats.length = read(length_);
  return stats;
}

}  // namespace weft

// How a coroutine leaves the worker it runs on, to wait or to give its turn.
#include <weft/task/coro.hpp>
#include <weft/task/worker.hpp>

#include <utility>

namespace weft {

void Worker::leave_coroutine(Task& task, std::coroutine_handle<> handle) noexcept {
  task.publish_forks();
  task.resume_point_ = handle;
  if (after_ != After::next) after_ = After::requeue;  // see give_turn_to()
}

// A coroutine that leaves goes straight on with the next in turn, if that is one too, and has
// begun. (In a simulation the one that leaves may be among those that are next.)
[[gnu::always_inline]] inline bool Worker::ready_to_hand_over(Task& task) noexcept {
  task.publish_forks();
  if (budget_ == 0 || detail::simulated()) return false;
  stack::reset_float_control(thread_);
  return true;
}
[[gnu::always_inline]] inline bool Worker::has_begun(const Task& coroutine) noexcept {
  return coroutine.flow() == Wait::Flow::coroutine && coroutine.resume_point_ &&
         coroutine.fiber_ == nullptr;
}
// `next` is the first of those that are ready. As soon as `from` is parked or queued, which comes
// next, it may go on elsewhere, and end.
[[gnu::always_inline]] inline void Worker::hand_runner_over(Task& from, Task& next) noexcept {
  next.fiber_ = std::exchange(from.fiber_, nullptr);
  --budget_;
  ready_.pop();
  wait = nullptr;  // for signal handlers
}
[[gnu::always_inline]] inline std::coroutine_handle<> Worker::go_straight_on(Task& next) noexcept {
  begin(next);
  if (next.recheck_ != nullptr && !recheck(next)) return std::noop_coroutine();
  return detail::transfer_to(std::exchange(next.resume_point_, {}));
}

std::coroutine_handle<> Worker::park_coroutine(Task& task,
                                               std::coroutine_handle<> handle) noexcept {
  task.resume_point_ = handle;
  if (ready_to_hand_over(task)) {
    if (fetches_) fetch();
    if (Task* const next = ready_.front(); next != nullptr && has_begun(*next)) {
      hand_runner_over(task, *next);
      settle_parked(task);
      return go_straight_on(*next);
    }
  }
  after_ = After::park;
  return std::noop_coroutine();
}

std::coroutine_handle<> Worker::yield_coroutine(Task& task,
                                                std::coroutine_handle<> handle) noexcept {
  if (ready_to_hand_over(task)) {
    if (fetches_) fetch(task.priority());
    Task* const next = ready_.front();
    if (next == nullptr) {
      --budget_;
      count_turn();
      return detail::transfer_to(handle);
    }
    if (has_begun(*next)) {
      task.resume_point_ = handle;
      hand_runner_over(task, *next);
      requeue(task);
      return go_straight_on(*next);
    }
  }
  leave_coroutine(task, handle);
  return std::noop_coroutine();
}

std::coroutine_handle<> detail::yield_coroutine(std::coroutine_handle<> handle) noexcept {
  Worker* const worker = this_worker();
  return worker->yield_coroutine(*worker->task(), handle);
}

void detail::root_coroutine_done() noexcept {
  this_worker()->coroutine_done();
}

}  // namespace weft

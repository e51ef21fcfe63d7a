/// Tasks by number: system calls on tasks, for those who know a tid and have no handle (a shell, a
/// dashboard, a supervisor of others' tasks).
///
///     const std::uint64_t tid = this_tid();
///     auto handle = new_task([&] { ... });       // queued first, then the caller behind it
///     kill_task(tid);                            // true: it was there
///     std::optional<Outcome<void>> end = perform(wait_task_op(tid));
///
/// All are about the calling task's own Io. The rest of that family are operations like any other:
/// readable_op() and writable_op() of an Fd, sleep_op(), timeout(handle.join_op(), 1s). A new one
/// is a new Op: no scheduler has to know it (examples/own_call.cpp).
///
/// A task is looked for among all that are running, so this takes time in proportion to them; keep
/// a handle where there are many.
#pragma once

#include <weft/task/io.hpp>
#include <weft/task/worker.hpp>

namespace weft {

namespace detail {
template <class T>
Coro<JoinHandle<T>> after_a_turn(JoinHandle<T> handle) {
  co_await next_turn();
  co_return handle;
}
}  // namespace detail

/// Throws std::logic_error outside of tasks.
[[nodiscard]] std::uint64_t this_tid();

/// Tells a task to stop, at its current or next wait. False: no such task (any more).
bool kill_task(std::uint64_t tid, CancelReason reason = CancelReason::killed);

/// Spawns into the scope around the caller, and lets it run first. Its failure stays with its
/// handle. In coroutines: co_await co_new_task(f).
template <class F>
auto new_task(F f, SpawnOptions options = {}) {
  options.isolated = true;
  auto handle = enclosing_scope().spawn(std::move(f), options);
  yield();
  return handle;
}
template <class F>
auto co_new_task(F f, SpawnOptions options = {}) {
  options.isolated = true;
  auto handle = enclosing_scope().spawn(std::move(f), options);
  return detail::after_a_turn(std::move(handle));
}

/// Waits for a task's end, however it came. Nothing: there was no such task, or not any more.
class WaitTaskOp : public detail::EndOp {
 public:
  using Result = std::optional<Outcome<void>>;
  static constexpr Reason reason{"wait for task"};

  explicit WaitTaskOp(std::uint64_t tid) noexcept : EndOp(nullptr), tid_(tid) {}
  WaitTaskOp(WaitTaskOp&& other) noexcept
      : EndOp(std::exchange(other.task_, nullptr)), tid_(other.tid_) {}
  WaitTaskOp& operator=(WaitTaskOp&&) = delete;
  ~WaitTaskOp();

  ObjectId object() const noexcept { return task_ == nullptr ? ObjectId::none : EndOp::object(); }
  /// Looks for the task, and holds it.
  bool try_now();
  Result take() const;

 private:
  std::uint64_t tid_;
};
[[nodiscard]] inline WaitTaskOp wait_task_op(std::uint64_t tid) noexcept {
  return WaitTaskOp(tid);
}
inline std::optional<Outcome<void>> wait_task(std::uint64_t tid) {
  return perform(wait_task_op(tid));
}

}  // namespace weft

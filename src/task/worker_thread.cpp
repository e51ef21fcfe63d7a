// A worker and its thread: how they come together and part, and what others send it.
#include <weft/task/io.hpp>
#include <weft/task/worker.hpp>

#include <algorithm>
#include <utility>

namespace weft {

namespace {

constexpr const char* two_threads =
    "two threads use one engine; give each thread its own Inline, or spawn into a Loop";

}  // namespace

void Inbox::drain_into(ReadyQueue& queue) noexcept {
  Task* newest =
      newest_.exchange(nullptr, std::memory_order_acquire);  // acquire: partner is push()
  Task* oldest = nullptr;
  while (newest != nullptr) {
    Task* next = newest->next_ready();
    newest->next_ready() = oldest;
    oldest = newest;
    newest = next;
  }
  while (oldest != nullptr) {
    Task* next = oldest->next_ready();
    queue.push(*oldest);
    oldest = next;
  }
}

void Worker::attach(bool with_fibers) {
  if (with_fibers) alt_stack_.emplace();  // may throw: before anything else
  WEFT_CHECK(attached_to_.exchange(std::this_thread::get_id()) == std::thread::id{}, two_threads);
  thread_ = stack::ThreadState::capture();
  // The thread may be unwinding (a loop that is run by a destructor); its tasks are not.
  outer_exceptions_ = std::exchange(*thread_.exceptions, {});
  stack::adopt_thread(home_.sanitizer);
  if (with_fibers) seat = take_seat();  // a thread that waits is alone, and there are few seats
  outer_ = current();
  set_current(this);
}

void Worker::detach() noexcept {
  if (runner_ != nullptr) {
    io_.stacks().give(Fiber::destroy(std::exchange(runner_, nullptr)));
  }
  while (idle_count_ > 0) io_.stacks().give(Fiber::destroy(idle_fibers_[--idle_count_]));
  *thread_.exceptions = outer_exceptions_;
  set_current(outer_);
  give_seat(std::exchange(seat, no_seat));
  attached_to_.store({});
  alt_stack_.reset();
}

bool Worker::attached_here() const noexcept {
  const std::thread::id owner = attached_to_.load();
  if (owner == std::thread::id{}) return false;
  WEFT_CHECK(owner == std::this_thread::get_id(), two_threads);
  return true;
}

bool find_running_stack(stack::Running& running) noexcept {
  const Task* task = this_task();
  if (task == nullptr || task->fiber() == nullptr) return false;
  running.stack = task->fiber()->stack();
  running.tid = task->tid();
  const std::string_view name = task->name();
  const std::size_t size = std::min(name.size(), sizeof running.name - 1);
  std::copy_n(name.data(), size, running.name);
  running.name[size] = '\0';
  return true;
}

}  // namespace weft

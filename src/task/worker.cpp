#include <weft/task/worker.hpp>

#include <weft/base/sanitized.hpp>
#include <weft/task/coro.hpp>
#include <weft/task/io.hpp>

#include <utility>

namespace weft {

// The engine's last use of a completed task. If nobody else holds it, a value that was not claimed
// dies here, after its task: it must not see the task that happens to run now as its own.
void Worker::end(Task& task) noexcept {
  Wait* const running = std::exchange(wait, nullptr);
  const bool was_running = running == &task;
  task.release();
  io_.retire();
  if (!was_running) wait = running;
}

// What the task that left could not do for itself, because it was still on its stack.
void Worker::settle() {
  const After after = std::exchange(after_, After::nothing);
  switch (after) {
    case After::nothing:
      break;
    case After::requeue:
      requeue(*left_);
      break;
    case After::next:
      left_->to_state(TaskState::ready);
      put_next(*left_);
      break;
    case After::park:
      settle_parked(*left_);
      break;
    case After::finish:
      give_fiber(std::exchange(left_->fiber_, nullptr), reusable(*left_));
      end(*left_);
      break;
    case After::drop_runner:
      give_fiber(std::exchange(dropped_, nullptr), !io_.measures_stacks());
      break;
  }
}

void Worker::run(Task& task) {
  begin(task);
  if (stack::Strand* strand = strand_for(task)) {
    stack::switch_strand(home_, *strand, thread_, this);
  }
  wait = nullptr;
  settle();
}

void Worker::run_on_thread(Task& task) noexcept {
  begin(task);
  task.execute();
  task.finish();
  end(task);
}

// A stack of the usual size, whose earlier use does not matter.
bool Worker::reusable(const Task& task) const noexcept {
  return task.stack_size_ == 0 && !io_.measures_stacks();
}

// It is kept by the worker when it has ended.
bool Worker::stays_warm(const Task& task) const noexcept {
  return reusable(task) && idle_count_ < idle_fibers_.size();
}

// Where the task goes on. Null: there is no stack for it, and if it had not begun yet it has ended
// with that error.
stack::Strand* Worker::strand_for(Task& task) {
  try {
    if (on_hand(task)) return &strand_of(task);
    if (task.flow() == Wait::Flow::coroutine) {
      runner_ = take_fiber(0, false, &Worker::runner_main);
    } else {
      task.fiber_ = take_fiber(task.stack_size_, task.keep_float_control_, &Worker::fiber_main);
    }
    return &strand_of(task);
  } catch (...) {
    if (task.resume_point_) {  // a coroutine in the middle of something: later, then
      wait = nullptr;
      requeue(task);
      return nullptr;
    }
    task.refuse(std::current_exception());
    task.finish();
    end(task);
    return nullptr;
  }
}

Fiber* Worker::take_fiber(std::size_t stack_size, bool keep_float_control, void (*entry)(void*)) {
  Fiber* fiber = nullptr;
  if (stack_size == 0 && !io_.measures_stacks() && idle_count_ > 0) {
    fiber = idle_fibers_[--idle_count_];
  } else {
    const stack::Stack stack = io_.stacks().take(stack_size);
    if (io_.measures_stacks()) io_.stacks().clean(stack);
    fiber = Fiber::create(stack);
  }
  if (entry == &fiber_main && fiber->resting()) {
    fiber->go_on(keep_float_control);
  } else {
    fiber->start(entry, keep_float_control);
  }
  return fiber;
}

// Nobody is on it any more.
void Worker::give_fiber(Fiber* fiber, bool reusable) noexcept {
  if (reusable && idle_count_ < idle_fibers_.size()) {
    idle_fibers_[idle_count_++] = fiber;
  } else {
    io_.stacks().give(Fiber::destroy(fiber));
  }
}

// False: what woke it was a false alarm, and it is to be parked again.
bool Worker::recheck(Task& task) noexcept {
  if (!task.recheck_->really(*task.recheck_)) {
    this_worker()->after_ = After::park;
    return false;
  }
  task.recheck_ = nullptr;
  return true;
}

// The task has a stack lent to it; maybe it comes back on another worker.
void Worker::run_coroutine_task(Task& task) {
  if (task.recheck_ != nullptr && !recheck(task)) return;
  std::coroutine_handle<> handle = std::exchange(task.resume_point_, {});
  if (!handle) handle = task.root();
  if (!handle) {  // cancelled before it began
    this_worker()->after_ = After::finish;
    return;
  }
  detail::run_coroutine(handle);
  Worker* const worker = this_worker();
  stack::reset_float_control(worker->thread_);
  WEFT_CHECK(worker->after_ != After::nothing,
             "a coroutine awaited something that is not a weft operation");
}

// The first function on a runner's stack. Nobody returns from it: if ThreadSanitizer knew of each
// call, its idea of the stack would grow for ever.
__attribute__((no_sanitize("thread"))) void Worker::runner_main(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  Fiber& self = *worker->runner_;
  stack::after_switch(self.strand().sanitizer);
  worker->settle();
  for (;;) {
    bool spare = false;
    for (Task* task = worker->task(); task != nullptr && !spare;) {
      task->fiber_ = &self;
      run_coroutine_task(*task);
      worker = this_worker();  // others may have run since, see go_straight_on()
      worker->coroutine_left(*worker->task());
      worker = this_worker();  // it may have moved while it ran, and found another runner there
      if (worker->runner_ == nullptr) worker->runner_ = &self;
      spare = worker->runner_ != &self;
      if (!spare) task = worker->next_for_runner();
    }
    if (spare) {
      worker->after_ = After::drop_runner;
      worker->dropped_ = &self;
    }
    stack::Strand& to = worker->next_strand();
    void* back = stack::switch_strand(self.strand(), to, worker->thread_, worker, spare);
    worker = static_cast<Worker*>(back);
    worker->settle();
  }
}

// The coroutine is off the stack, which is still lent to it: for its end, that may wait too.
void Worker::coroutine_left(Task& task) noexcept {
  if (after_ == After::finish) {
    after_ = After::nothing;
    task.collect();
    task.finish();
    task.fiber_ = nullptr;
    this_worker()->end(task);
  } else {
    task.fiber_ = nullptr;
    left_ = &task;
    wait = nullptr;
    settle();
  }
}

// Another coroutine, for the runner that has just finished with one.
Task* Worker::next_for_runner() noexcept {
  if (budget_ == 0) return nullptr;
  if (fetches_) fetch();
  Task* next = ready_.front();
  if (next == nullptr || next->flow() != Wait::Flow::coroutine || next->fiber_ != nullptr) {
    return nullptr;
  }
  take_up(*next);
  return next;
}

// The first function on every fiber's stack. As above.
__attribute__((no_sanitize("thread"))) void Worker::fiber_main(void* argument) {
  stack::look_aside();
  auto* worker = static_cast<Worker*>(argument);
  Task* task = worker->task();
  Fiber& fiber = *task->fiber_;
  stack::after_switch(fiber.strand().sanitizer);
  worker->settle();
  for (;;) {
    stack::look_again();
    stack::received(task);
    if (stack::races_matter()) stack::name_strand(fiber.strand().sanitizer, task->name());
    task->execute();
    task->finish();
    worker = this_worker();          // it may have moved while it ran
    stack::published(&task->refs_);  // to whoever destroys it; the worker's own part is aside
    stack::published(&worker->io_);
    stack::look_aside();
    if (Task* next = worker->next_for_this_fiber(*task)) {
      task->fiber_ = nullptr;
      worker->end(*task);
      stack::reset_float_control(worker->thread_);
      task = next;
      task->fiber_ = &fiber;
      worker->begin(*task);
    } else {
      worker = static_cast<Worker*>(worker->leave_ended(*task, fiber));
      task = worker->task();
      worker->settle();
    }
  }
}

// Returns if the fiber stays warm and gets another task. (Sanitizers want to know of an end.)
[[gnu::always_inline]] inline void* Worker::leave_ended(Task& task, Fiber& fiber) {
#if defined(WEFT_ASAN) || defined(WEFT_TSAN)
  constexpr bool may_rest = false;
#else
  constexpr bool may_rest = true;
#endif
  after_ = After::finish;
  left_ = &task;
  stack::Strand& to = next_strand();
  if (!may_rest || task.keep_float_control_ || !stays_warm(task)) {
    stack::switch_strand(fiber.strand(), to, thread_, this, true);
    __builtin_unreachable();
  }
  stack::reset_float_control(thread_);
  fiber.rest();
  return stack::switch_strand(fiber.strand(), to, thread_, this);
}

// Of a worker that fetches: sees to it that the next task is in hand.
void Worker::fetch(std::uint8_t at_least) noexcept {
  if (!ready_.empty()) return;
  if (Task* task = take_next(at_least)) ready_.push(*task);
}

void Worker::yield_fetching(Task& task) {
  if (budget_ > 0) {
    fetch(task.priority());
    if (ready_.empty()) {
      --budget_;
      count_turn();
      return;
    }
  }
  leave_fiber(task, After::requeue);
}

// A task that has not started yet can take over the stack of one that ended, with no switch at all.
Task* Worker::next_for_this_fiber(const Task& finished) noexcept {
  if (fetches_ && budget_ > 0) fetch();
  Task* next = ready_.front();
  if (budget_ == 0 || io_.measures_stacks() || next == nullptr ||
      next->flow() != Wait::Flow::fiber || next->fiber_ != nullptr ||
      next->stack_size_ != finished.stack_size_ || next->keep_float_control_ ||
      finished.keep_float_control_) {
    return nullptr;
  }
  --budget_;
  return ready_.pop();
}

bool Worker::give_turn_to(Task& task) {
  Task* const waiter = this->task();
  if (waiter == nullptr || &task.io() != &io_ || task.priority_ != waiter->priority_ ||
      waiter->wanted_worker_ != 0) {
    return false;
  }
  const bool to_coroutine = task.flow() == Wait::Flow::coroutine;
  switch (waiter->flow()) {
    case Wait::Flow::fiber: {
      const bool has_stack = to_coroutine ? runner_ != nullptr : idle_count_ > 0 && reusable(task);
      if (has_stack && take_fresh(task)) leave_fiber(*waiter, After::next, &task);
      return false;
    }
    case Wait::Flow::coroutine:
      if (!to_coroutine || !take_fresh(task)) return false;
      ready_.push(task);  // it is the only one: that its turn is next is what take_fresh() said
      after_ = After::next;
      return true;
    case Wait::Flow::thread:
      break;
  }
  return false;
}

// Of one that has a stack, or can have a warm one. A turn counts also if it is one too many.
[[gnu::always_inline]] inline stack::Strand& Worker::strand_to(Task& task) noexcept {
  if (budget_ > 0) --budget_;
  begin(task);
  if (on_hand(task)) return strand_of(task);
  if (task.flow() == Wait::Flow::coroutine || task.keep_float_control_ ||
      !idle_fibers_[idle_count_ - 1]->resting()) {
    return *strand_for(task);
  }
  task.fiber_ = idle_fibers_[--idle_count_];
  task.fiber_->go_on(false);
  return task.fiber_->strand();
}

// Where a leaving fiber goes. A task that begins need not be sent home for, if there is a warm
// fiber for it.
[[gnu::always_inline]] inline stack::Strand& Worker::next_strand() noexcept {
  if (Task* const next = next_to_hop_to()) [[likely]] {
    take_up(*next);
    return strand_of(*next);
  }
  Task* const next = ready_.front();
  if (next == nullptr || budget_ == 0 || idle_count_ == 0 || !reusable(*next)) {
    wait = nullptr;
    return home_;
  }
  ready_.pop();
  return strand_to(*next);
}

// `to`: a task that has been taken, and has a stack. Else to whoever is next.
[[gnu::noinline]] void Worker::leave_fiber(Task& task, After after, Task* to) {
  WEFT_CHECK(task.fiber_ != nullptr, "task '", task.name(), "' waits where it has no stack: in a ",
             "destructor of what it captured, after it could not be started");
  task.publish_forks();
  {
    const stack::Aside aside;
    after_ = after;
    left_ = &task;
    if (task.fiber_ == runner_) runner_ = nullptr;  // a coroutine that waits in a destructor
    stack::Strand& from = task.fiber_->strand();
    void* back =
        stack::switch_strand(from, to == nullptr ? next_strand() : strand_to(*to), thread_, this);
    static_cast<Worker*>(back)->settle();
  }
  stack::received(&task);
}

// Whoever goes on settles what the one before left to do.
void Worker::arrived(void* argument) {
  auto* const worker = static_cast<Worker*>(argument);
  if (worker->after_ == After::park) {
    worker->after_ = After::nothing;
    settle_parked(*worker->left_);
  } else if (worker->after_ != After::nothing) {
    worker->settle();
  }
}

namespace {
// Apart, because it makes a function save all registers.
[[gnu::noinline]] void switch_in_the_middle(stack::Strand& from, stack::Strand& to,
                                            stack::ThreadState& thread, Worker* worker,
                                            void (*arrived)(void*)) {
  arrived(stack::switch_strand(from, to, thread, worker));
}
}  // namespace

// What leave_fiber() does, in the usual case, without a return after the switch.
void Worker::park_fiber(Task& task) {
  Fiber* const fiber = task.fiber_;
  Task* next = nullptr;
  if (fiber != nullptr && fiber != runner_ && !stack::races_matter()) {
    task.publish_forks();
    next = next_to_hop_to();
  }
  if (next == nullptr) {
    leave_fiber(task, After::park);
    return;
  }
  if (fetches_ || task.observer_ != nullptr) {
    after_ = After::park;
    left_ = &task;
  } else {
    // Early: nobody but this worker, which is busy here, goes on with it or looks at its stack, and
    // whoever wakes it only queues it. (An observer might do anything, even look at its stack.)
    settle_parked(task);
  }
  take_up(*next);
  stack::Strand& to = strand_of(*next);
  if (stack::can_switch_away(fiber->strand(), thread_)) {
    stack::switch_strand_away(fiber->strand(), to, thread_, this, &Worker::arrived);
  } else {
    switch_in_the_middle(fiber->strand(), to, thread_, this, &Worker::arrived);
  }
}

void yield_elsewhere() {
  const Task* task = this_task();
  if (task == nullptr) return;
  task->throw_if_cancelled();
  WEFT_CHECK(task->flow() != Wait::Flow::coroutine,
             "weft::yield() in a coroutine cannot give up its turn; use co_await next_turn()");
}

bool detail::yield_to_simulation(const Task& task) noexcept {
  return point({.object = task.id(), .access = Access::read, .what = "yield", .yields = true});
}

void detail::yield_of_driver() {
  yield();
}

}  // namespace weft

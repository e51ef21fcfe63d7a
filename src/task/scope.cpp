#include <weft/task/scope.hpp>

#include <weft/task/io.hpp>
#include <weft/task/worker.hpp>

#include <algorithm>
#include <stdexcept>

namespace weft {

namespace {

Task& require_task(const char* what) {
  Task* task = this_task();
  if (task == nullptr) {
    throw std::logic_error(std::string(what) +
                           " outside of a task: run it on an Io, or name one (Scope scope(io))");
  }
  return *task;
}

int uncaught_exceptions() noexcept {
  const Worker* worker = this_worker();
  return worker == nullptr ? std::uncaught_exceptions() : worker->uncaught_exceptions();
}

}  // namespace

Wait::Flow flow_of_closures(const Io& io) noexcept {
  return io.flow_of_closures();
}
Wait::Flow flow_of_coroutines(const Io& io) noexcept {
  return io.flow_of_coroutines();
}

// Set-up and end

Scope::Scope(ScopeOptions options) : Scope(require_task("Scope"), options) {}

Scope::Scope(const Task& task, const ScopeOptions& options)
    : CancelNode(Kind::scope, nullptr),
      io_(task.io()),
      name_(options.name),
      on_failure_(options.on_failure),
      owner_(nullptr),
      exceptions_at_start_(uncaught_exceptions()) {
  enter_tree(task.active());
  in_tree_ = true;
  arm_deadline(options.deadline);
}

Scope::Scope(Io& io, ScopeOptions options)
    : CancelNode(Kind::scope, nullptr),
      io_(io),
      name_(options.name),
      on_failure_(options.on_failure),
      owner_(nullptr),
      exceptions_at_start_(uncaught_exceptions()) {
  const Task* task = this_task();
  enter_tree(task != nullptr && &task->io() == &io ? task->active() : io.root());
  in_tree_ = true;
  arm_deadline(options.deadline);
}

Scope::Scope(OfOwner, ScopeOptions options)
    : CancelNode(Kind::scope, &require_task("within()")),
      io_(this_task()->io()),
      name_(options.name),
      on_failure_(options.on_failure),
      owner_(this_task()),
      exceptions_at_start_(uncaught_exceptions()) {
  enter_tree_and_obey(owner_->active());
  in_tree_ = true;
  owner_->set_active(*this);
  arm_deadline(options.deadline);
}

Scope::Scope(OfIo, Io& io)
    : CancelNode(Kind::scope, nullptr),
      io_(io),
      name_("root"),
      on_failure_(OnFailure::isolate),
      owner_(nullptr),
      exceptions_at_start_(0) {}

Scope::Scope(OfFork, Io& io, CancelNode& under)
    : CancelNode(Kind::scope, nullptr),
      io_(io),
      name_("fork"),
      on_failure_(OnFailure::isolate),
      owner_(nullptr),
      exceptions_at_start_(uncaught_exceptions()) {
  enter_tree(under);
  in_tree_ = true;
  arm_deadline(Instant::never());
}

Scope::~Scope() noexcept(false) {
  const bool unwinding = uncaught_exceptions() > exceptions_at_start_;
  std::exception_ptr error;
  if (!over(error)) {
    if (unwinding) cancel(CancelReason::sibling_failed);
    wait_in_destructor(unwinding);
    error = take_error();
  }
  leave();
  if (error && !unwinding) std::rethrow_exception(error);
}

void Scope::wait_in_destructor(bool unwinding) {
  Task* task = this_task();
  if (task == nullptr || task->flow() != Wait::Flow::coroutine) {
    try {
      wait_for_children();
    } catch (const std::exception& error) {
      // A plain thread waits for tasks of a loop that nobody drives.
      WEFT_CHECK(false, "Scope '", name_, "' cannot end: its children still run. ", error.what());
    }
    return;
  }
  WEFT_CHECK(unwinding, "Scope '", name_, "' ends in a coroutine while children run; ",
             "co_await scope.joined() before, or use co_await within(...)");
  WEFT_CHECK(&io_ == &task->io(), "Scope '", name_, "' on another Io is left by an exception in a ",
             "coroutine while children run; use within(...) on that Io");
  // An exception or a cancellation leaves the scope, and a coroutine cannot suspend in a
  // destructor: it keeps the stack it is on. The children have been cancelled, it will not be long.
  task->let_wait_on_stack(true);
  wait_for_children();
  task->let_wait_on_stack(false);
}

void Scope::leave() noexcept {
  if (timer_armed_) io_.disarm_timer(timer_);
  timer_armed_ = false;
  if (!std::exchange(in_tree_, false)) return;
  if (owner_ != nullptr) {
    owner_->set_active(*parent());
    leave_tree_and_obey_parent();
  } else {
    leave_tree();
  }
}

// The deadline

Scope::DeadlineTimer::DeadlineTimer(Scope& s) noexcept
    : TimerNode([](TimerNode& node, WakeList& wakes) noexcept {
        static_cast<DeadlineTimer&>(node).scope.mark_tree(CancelReason::timeout, wakes);
      }),
      scope(s) {}

void Scope::arm_deadline(Instant own) noexcept {
  const CancelNode* above = parent();
  while (above->kind() == Kind::task) above = above->parent();
  // A shield keeps the deadlines above it out.
  const Instant inherited = above->kind() == Kind::shield
                                ? Instant::never()
                                : static_cast<const Scope*>(above)->deadline_;
  deadline_ = std::min(own, inherited);
  if (own >= inherited) return;  // the scope above will be cancelled first, and us with it
  timer_.deadline = own;
  timer_armed_ = true;
  io_.arm_timer(timer_);
}

// Children

std::size_t Scope::size() const noexcept {
  detail::point({.access = Access::read, .what = "size", .address = this});
  return children();
}

std::size_t Scope::children() const noexcept {
  const LeaningGuard guard(lock());
  return children_;
}

void Scope::add_child(Task& task) noexcept {
  const LeaningGuard guard(lock());
  link_locked(task, *this);
  ++children_;
}

void Scope::child_failed(Task& task, const std::exception_ptr& error) noexcept {
  if (on_failure_ == OnFailure::isolate || task.isolated()) {
    if (!task.has_handles()) io_.report_unhandled(task, error);
    return;
  }
  body_failed(error);
}

void Scope::body_failed(const std::exception_ptr& error) noexcept {
  {
    const LeaningGuard guard(lock());
    if (!first_error_) first_error_ = error;
  }
  if (on_failure_ != OnFailure::keep_going) cancel(CancelReason::sibling_failed);
}

// The scope may be gone as soon as the last joiner is committed.
void Scope::child_done(Task& task) noexcept {
  WakeList wakes;
  const LeaningGuard guard(lock());
  unlink_locked(task);
  if (--children_ > 0) return;
  while (Arm* arm = joiners_.pop_front()) {
    if (arm->claim()) wakes.add(*arm);
  }
}

ObjectId Scope::id() noexcept {
  const LeaningGuard guard(lock());
  if (id_ == ObjectId::none) id_ = new_object_id();
  return id_;
}

bool Scope::has_id() const noexcept {
  const LeaningGuard guard(lock());
  return id_ != ObjectId::none;
}

// Whoever has told us of a child's end is through with us when it has let go of the lock.
bool Scope::over(std::exception_ptr& error) noexcept {
  const LeaningGuard guard(lock());
  if (children_ > 0) return false;
  error = std::exchange(first_error_, nullptr);
  return true;
}

std::exception_ptr Scope::take_error() noexcept {
  const LeaningGuard guard(lock());
  return std::exchange(first_error_, nullptr);
}

Armed Scope::EmptyOp::arm(Arm& arm) noexcept {
  const LeaningGuard guard(scope_.lock());
  if (scope_.children_ == 0) return arm.claim() ? Armed::won : Armed::lost;
  scope_.joiners_.push_back(arm);
  return Armed::waiting;
}

void Scope::EmptyOp::disarm(Arm& arm) noexcept {
  const LeaningGuard guard(scope_.lock());
  arm.unlink();
}

// Children hear of a cancellation through the tree; the wait for their end must itself not be cut
// short.
void Scope::wait_for_children() {
  if (children() == 0) return;
  Shield shield;
  perform(empty_op());
}

void Scope::join() {
  std::exception_ptr error;
  if (!over(error)) {
    wait_for_children();
    error = take_error();
  }
  if (error) std::rethrow_exception(error);
  if (const Task* task = this_task()) task->throw_if_cancelled();
}

bool Scope::Joined::Awaiter::await_ready() {
  if (scope_.over(error_)) return true;
  shield_.emplace();
  empty_.emplace(scope_.empty_op());
  return empty_->await_ready();
}

void Scope::Joined::Awaiter::await_resume() {
  if (empty_) {
    empty_->await_resume();
    shield_.reset();
    error_ = scope_.take_error();
  }
  if (error_) std::rethrow_exception(error_);
  this_task()->throw_if_cancelled();
}

Scope& enclosing_scope() {
  CancelNode* node = &require_task("spawning into the scope around the caller").active();
  while (node->kind() != CancelNode::Kind::scope) node = node->parent();
  return static_cast<Scope&>(*node);
}

// Shield

Shield::Shield() : CancelNode(Kind::shield, this_task()), task_(this_task()) {
  if (task_ == nullptr) return;
  enter_tree_and_obey(task_->active());
  task_->set_active(*this);
}

Shield::~Shield() {
  if (task_ == nullptr) return;
  WEFT_CHECK(&task_->active() == this, "a Shield must end in the block it was declared in");
  task_->set_active(*parent());
  leave_tree_and_obey_parent();
}

}  // namespace weft

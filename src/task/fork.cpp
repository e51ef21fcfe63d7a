#include <weft/task/fork.hpp>

#include <weft/task/worker.hpp>

namespace weft::detail {

void ForkBase::offer() noexcept {
  Worker* const worker = this_worker();
  if (worker == nullptr || worker->task() == nullptr) return;
  task_ = worker->task();
  active_ = &task_->active();
  locals_ = task_->locals();
  task_->forks().push_back(*this);
  if (worker->wants_forks()) [[unlikely]] {
    ForkBase* const oldest = task_->forks().pop_front();
    if (!oldest->publish()) task_->forks().push_front(*oldest);
    worker->forked();
  }
}

// By its task, at a later time: so what it is to see has been noted. False: there is no memory for
// it; then it is called when its result is asked for.
bool ForkBase::publish() noexcept {
  LocalBinding* const locals = task_->locals();
  try {
    scope_.reset(new Scope(Scope::OfFork{}, task_->io(), *active_));
    task_->set_locals(locals_);
    spawn_in(*scope_, task_->fork_options());
  } catch (...) {
    scope_.reset();
  }
  task_->set_locals(locals);
  return scope_ != nullptr;
}

void ForkBase::publish_all(Task& task) noexcept {
  List<ForkBase, ForkBase> forks;
  forks.take_all(task.forks());
  while (ForkBase* fork = forks.pop_front()) {
    if (!fork->publish()) task.forks().push_back(*fork);
  }
}

void publish_forks(Task& task) noexcept {
  ForkBase::publish_all(task);
}

void ForkBase::Delete::operator()(Scope* scope) const noexcept {
  if (scope->size() > 0) {
    scope->cancel(CancelReason::sibling_failed);
    scope->wait_in_destructor(true);
  }
  delete scope;
}

}  // namespace weft::detail

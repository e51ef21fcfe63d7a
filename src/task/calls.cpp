#include <weft/task/calls.hpp>

namespace weft {

namespace {

/// With a reference for the caller; null if there is none.
Task* find_task(Io& io, std::uint64_t tid) noexcept {
  Task* found = nullptr;
  io.root().walk([&](CancelNode& node, std::size_t) noexcept {
    if (found != nullptr || node.kind() != CancelNode::Kind::task) return;
    auto& task = static_cast<Task&>(node);
    if (task.tid() != tid) return;
    task.retain();  // it has not left the tree, so the engine still holds it
    found = &task;
  });
  return found;
}

}  // namespace

std::uint64_t this_tid() {
  const Task* task = this_task();
  if (task == nullptr) throw std::logic_error("this_tid() outside of a task");
  return task->tid();
}

bool kill_task(std::uint64_t tid, CancelReason reason) {
  bool found = false;
  WakeList wakes;
  // No reference is taken: a task that fails meanwhile, and of which nobody has a handle, must see
  // that nobody has.
  this_io().root().walk([&](CancelNode& node, std::size_t) noexcept {
    if (found || node.kind() != CancelNode::Kind::task) return;
    if (static_cast<Task&>(node).tid() != tid) return;
    node.mark_tree(reason, wakes);
    found = true;
  });
  return found;
}

WaitTaskOp::~WaitTaskOp() {
  if (task_ != nullptr) task_->release();
}

bool WaitTaskOp::try_now() {
  if (task_ == nullptr) task_ = find_task(this_io(), tid_);
  return task_ == nullptr || task_->done();
}

WaitTaskOp::Result WaitTaskOp::take() const {
  if (task_ == nullptr) return std::nullopt;
  return task_->ending();
}

}  // namespace weft

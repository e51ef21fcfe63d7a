#include <weft/task/calls.hpp>

namespace weft {

namespace {

/// Calls f(task), if there is such a task: it stays in the tree meanwhile, so the engine holds it.
template <class F>
bool with_task(Io& io, std::uint64_t tid, F f) noexcept {
  bool found = false;
  io.root().walk([&](CancelNode& node, std::size_t) noexcept {
    if (found || node.kind() != CancelNode::Kind::task) return;
    auto& task = static_cast<Task&>(node);
    if (task.tid() != tid) return;
    found = true;
    f(task);
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
  WakeList wakes;
  // No reference is taken: a task that fails meanwhile, and of which nobody has a handle, must see
  // that nobody has.
  return with_task(this_io(), tid, [&](Task& task) noexcept { task.mark_tree(reason, wakes); });
}

WaitTaskOp::~WaitTaskOp() {
  if (task_ != nullptr) task_->release();
}

bool WaitTaskOp::try_now() {
  if (task_ == nullptr) {
    with_task(this_io(), tid_, [&](Task& task) noexcept {
      task.retain();
      task_ = &task;
    });
  }
  return task_ == nullptr || task_->done();
}

WaitTaskOp::Result WaitTaskOp::take() const {
  if (task_ == nullptr) return std::nullopt;
  return task_->ending();
}

}  // namespace weft

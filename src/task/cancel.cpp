#include <weft/task/cancel.hpp>

#include <weft/wait/point.hpp>

namespace weft {

void CancelNode::link_locked(CancelNode& child, CancelNode& parent) noexcept {
  child.parent_ = &parent;
  parent.children_.push_back(child);
  const CancelReason reason = parent.flag_.reason();
  if (reason != CancelReason::none && child.kind_ != Kind::shield) child.flag_.set(reason);
}

void CancelNode::enter_tree(CancelNode& parent) noexcept {
  const LeaningGuard guard(parent.lock_);
  link_locked(*this, parent);
}

void CancelNode::leave_tree() noexcept {
  const LeaningGuard guard(parent_->lock_);
  unlink_locked(*this);
}

void CancelNode::enter_tree_and_obey(CancelNode& parent) noexcept {
  const LeaningGuard guard(parent.lock_);
  link_locked(*this, parent);
  owner_->obey(flag_);
}

// Under both locks: a canceller that holds either must not see a wait of the owner that obeys this
// node, and then cancel a later one that no longer does.
void CancelNode::leave_tree_and_obey_parent() noexcept {
  const LeaningGuard guard(parent_->lock_);
  const LeaningGuard own(lock_);
  unlink_locked(*this);
  owner_->obey(parent_->flag_);
}

/// Marks one node. If it was not marked yet, interrupts its owner and keeps the node locked.
bool CancelNode::mark_and_hold(CancelReason reason, WakeList& wakes) noexcept {
  lock_.lock();
  if (flag_.reason() != CancelReason::none) {
    lock_.unlock();
    return false;
  }
  flag_.set(reason);
  // The owner changes what it obeys only under this lock, so the answer cannot become stale
  // meanwhile.
  if (owner_ != nullptr && owner_->obeyed() == &flag_ && owner_->cancel()) {
    wakes.add(*owner_, Wait::by_cancel);
  }
  return true;
}

// Depth first without recursion: a tree may be a million levels deep. A locked node's children stay
// where they are, so the way back needs only the parent pointers.
bool CancelNode::mark_tree(CancelReason reason, WakeList& wakes) noexcept {
  if (!mark_and_hold(reason, wakes)) return false;
  CancelNode* node = this;
  CancelNode* child = node->children_.front();
  for (;;) {
    if (child != nullptr) {
      if (child->kind_ != Kind::shield && child->mark_and_hold(reason, wakes)) {
        node = child;
        child = node->children_.front();
      } else {
        child = node->children_.next(*child);
      }
      continue;
    }
    if (node == this) break;
    CancelNode* parent = node->parent_;
    child = parent->children_.next(*node);
    node->lock_.unlock();
    node = parent;
  }
  lock_.unlock();
  return true;
}

void CancelNode::cancel_children(CancelReason reason) noexcept {
  detail::point({.what = "cancel"});
  WakeList wakes;
  const LeaningGuard guard(lock_);
  for (CancelNode* c = children_.front(); c != nullptr; c = children_.next(*c)) {
    if (c->kind_ != Kind::shield) c->mark_tree(reason, wakes);
  }
}

bool CancelNode::cancel_tree(CancelReason reason) noexcept {
  detail::point({.what = "cancel"});
  WakeList wakes;
  return mark_tree(reason, wakes);
}

}  // namespace weft

/// The cancellation tree.
///
/// Every task, scope and shield is a node. Cancelling a node marks it and everything below it,
/// except what lies under a shield, and interrupts the waits of the tasks that obey a marked node.
/// A mark is sticky and never goes up. A node added under a marked one is born marked. A node
/// leaves the tree when it ends, whichever way it ended, so a long-lived parent does not accumulate
/// the dead.
///
/// Locking: one spinlock per node guards its list of children and its mark. The walk holds the
/// locks of the path from where it started down to where it is; everybody else takes one lock at a
/// time. Claimed waits are committed after all locks are released.
#pragma once

#include <weft/base/list.hpp>
#include <weft/wait/leaning_lock.hpp>

namespace weft {

class CancelNode : public ListNode<CancelNode> {
 public:
  enum class Kind : std::uint8_t { task, scope, shield };

  /// `owner`: the waiter that may obey this node's flag, if any.
  CancelNode(Kind kind, Wait* owner) noexcept : owner_(owner), kind_(kind) {}
  CancelNode(const CancelNode&) = delete;
  CancelNode& operator=(const CancelNode&) = delete;

  [[nodiscard]] Kind kind() const noexcept { return kind_; }
  [[nodiscard]] CancelNode* parent() const noexcept { return parent_; }
  [[nodiscard]] const CancelFlag& flag() const noexcept { return flag_; }
  [[nodiscard]] CancelReason cancel_reason() const noexcept { return flag_.reason(); }

  /// Marks this node and what lies below. Idempotent: the first reason stays. True if it was the
  /// first.
  bool cancel_tree(CancelReason reason) noexcept;
  /// Marks everything below this node, but not the node.
  void cancel_children(CancelReason reason) noexcept;
  /// The same for callers that hold a lock: the waits to wake are left in `wakes`.
  bool mark_tree(CancelReason reason, WakeList& wakes) noexcept;

  /// Calls f(node, depth) for everything below, parents before their children, in order. The locks
  /// from here down to the node's parent are held, so that no node goes away meanwhile: f must not
  /// touch the tree.
  template <class F>
  void walk(F&& f) const;
  /// Calls f(child) for every child, under this node's lock.
  template <class F>
  void for_each_child(F&& f) const {
    const LeaningGuard guard(lock_);
    for (CancelNode* c = children_.front(); c != nullptr; c = children_.next(*c)) f(*c);
  }

 protected:
  ~CancelNode() = default;

  void enter_tree(CancelNode& parent) noexcept;
  void leave_tree() noexcept;

  /// The owner, which obeys the parent, obeys this node from now on; and the way back.
  void enter_tree_and_obey(CancelNode& parent) noexcept;
  void leave_tree_and_obey_parent() noexcept;

  [[nodiscard]] LeaningTreeLock& lock() const noexcept { return lock_; }
  // The parent's lock is held.
  static void link_locked(CancelNode& child, CancelNode& parent) noexcept;
  static void unlink_locked(CancelNode& child) noexcept { child.unlink(); }

 private:
  [[nodiscard]] bool mark_and_hold(CancelReason reason, WakeList& wakes) noexcept;

  CancelNode* parent_ = nullptr;           // fixed while linked
  List<CancelNode, CancelNode> children_;  // under lock_
  Wait* const owner_;
  CancelFlag flag_;  // set under lock_, read by anybody
  const Kind kind_;
  mutable LeaningTreeLock lock_;
};

template <class F>
void CancelNode::walk(F&& f) const {
  lock_.lock();
  const CancelNode* node = this;
  CancelNode* child = children_.front();
  std::size_t depth = 1;
  try {
    for (;;) {
      if (child != nullptr) {
        f(*child, depth);
        child->lock_.lock();
        node = child;
        ++depth;
        child = node->children_.front();
        continue;
      }
      const CancelNode* parent =
          node->parent_;  // locked unless we are done: `node` cannot leave it
      if (node != this) child = parent->children_.next(*node);
      node->lock_.unlock();
      if (node == this) return;
      node = parent;
      --depth;
    }
  } catch (...) {  // from f: memory
    for (;;) {
      const CancelNode* parent = node->parent_;
      node->lock_.unlock();
      if (node == this) throw;
      node = parent;
    }
  }
}

}  // namespace weft

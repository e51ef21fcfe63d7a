/// An intrusive doubly linked list: no allocation, O(1) removal by node.
///
///     struct Job : weft::ListNode<> { ... };
///     weft::List<Job> jobs;
///     jobs.push_back(job);
///     job.unlink();            // from whichever list it is in
///
/// A node knows whether it is linked, so unlinking twice is harmless. A type that sits in several
/// lists derives from several `ListNode<Tag>`. Not synchronised: the owner of the list provides a
/// lock. A list must be empty when it dies; a node must be unlinked when it dies (both checked).
#pragma once

#include <weft/base/check.hpp>

namespace weft {

template <class Tag = void>
class ListNode {
 public:
  ListNode() = default;
  ListNode(const ListNode&) = delete;
  ListNode& operator=(const ListNode&) = delete;
  ~ListNode() { WEFT_CHECK(!linked(), "list node destroyed while linked"); }

  [[nodiscard]] bool linked() const noexcept { return next_ != nullptr; }

  [[gnu::always_inline]] void unlink() noexcept {
    if (!linked()) return;
    next_->prev_ = prev_;
    prev_->next_ = next_;
    next_ = prev_ = nullptr;
  }

 private:
  template <class, class>
  friend class List;
  ListNode* next_ = nullptr;
  ListNode* prev_ = nullptr;
};

template <class T, class Tag = void>
class List {
  using Node = ListNode<Tag>;

 public:
  List() noexcept { head_.next_ = head_.prev_ = &head_; }
  List(const List&) = delete;
  List& operator=(const List&) = delete;
  ~List() {
    WEFT_CHECK(empty(), "list destroyed with nodes in it");
    head_.next_ = head_.prev_ = nullptr;
  }

  [[nodiscard]] bool empty() const noexcept { return head_.next_ == &head_; }

  [[gnu::always_inline]] void push_back(T& item) noexcept { insert(*head_.prev_, item); }
  void push_front(T& item) noexcept { insert(head_, item); }
  void insert_before(T& next, T& item) noexcept { insert(*static_cast<Node&>(next).prev_, item); }

  [[nodiscard, gnu::always_inline]] T* front() const noexcept {
    return empty() ? nullptr : to_item(head_.next_);
  }

  [[gnu::always_inline]] T* pop_front() noexcept {
    T* item = front();
    if (item != nullptr) static_cast<Node*>(item)->unlink();
    return item;
  }

  /// The item after `item`, or null at the end.
  [[nodiscard, gnu::always_inline]] T* next(const T& item) const noexcept {
    Node* node = static_cast<const Node&>(item).next_;
    return node == &head_ ? nullptr : to_item(node);
  }

  /// Moves everything from `other` to the end of this list.
  void take_all(List& other) noexcept {
    if (other.empty()) return;
    Node* first = other.head_.next_;
    Node* last = other.head_.prev_;
    other.head_.next_ = other.head_.prev_ = &other.head_;
    first->prev_ = head_.prev_;
    head_.prev_->next_ = first;
    last->next_ = &head_;
    head_.prev_ = last;
  }

 private:
  static T* to_item(Node* node) noexcept { return static_cast<T*>(node); }

  [[gnu::always_inline]] void insert(Node& after, T& item) noexcept {
    Node& node = item;
    WEFT_CHECK(!node.linked(), "list node is already in a list");
    node.prev_ = &after;
    node.next_ = after.next_;
    after.next_->prev_ = &node;
    after.next_ = &node;
  }

  Node head_;
};

}  // namespace weft

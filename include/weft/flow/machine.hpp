/// How flows run. For users: flow.hpp.
///
/// A flow is a graph of nodes that do not change; all that changes is in the run: a Slot with the
/// current result, and a pile of frames, one for each node that is waiting for its input. So a flow
/// can be run many times, at the same time too, and however long a chain is, running it takes the
/// stack of one call. A chain that goes on by returning the next flow (bind) replaces its frame, so
/// it takes no memory either.
///
///     begin(A) ──"first B"──▶ begin(B) ──done──▶ then(A) ──done──▶ the end
///                                                   ├──"C instead"──▶ begin(C)     bind
///                                                   └──"again B"────▶ begin(B)     retry, repeat
///
/// Between any two steps the run looks whether its task has been cancelled. If so the result is
/// "cancelled", and then() is called for the nodes that wait, so that they can clean up.
///
/// Rejected: a coroutine per operator. A chain that goes on for ever would keep a frame for every
/// link that it has been through.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/task/coro.hpp>

#include <cstdint>
#include <new>
#include <vector>

namespace weft::flow_detail {

/// The result of the part that has just ended: a value of some type, an error, or cancelled.
class Slot {
 public:
  Slot() = default;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() { clear(); }

  [[nodiscard]] bool ok() const noexcept { return kind_ == Kind::value; }
  [[nodiscard]] bool failed() const noexcept { return kind_ == Kind::error; }
  [[nodiscard]] bool cancelled() const noexcept { return kind_ == Kind::cancelled; }
  /// It failed, or took too long by a limit of its own: not by one of the task that runs it.
  [[nodiscard]] bool can_be_mended() const noexcept;
  [[nodiscard]] const std::exception_ptr& error() const noexcept { return error_; }
  [[nodiscard]] CancelReason reason() const noexcept { return reason_; }

  template <class T, class... Args>
  void set(Args&&... args) {
    clear();
    using V = detail::Stored<T>;
    void* room = room_;
    if constexpr (!fits<V>()) room = pointer_ = ::operator new(sizeof(V), align<V>());
    try {
      ::new (room) V(std::forward<Args>(args)...);
    } catch (...) {
      if constexpr (!fits<V>()) ::operator delete(room, align<V>());
      throw;
    }
    kind_ = Kind::value;
    destroy_ = [](Slot& slot) noexcept {
      V* const value = slot.get<V>();
      value->~V();
      if constexpr (!fits<V>()) ::operator delete(static_cast<void*>(value), align<V>());
    };
  }
  void fail(std::exception_ptr error) noexcept {
    clear();
    kind_ = Kind::error;
    error_ = std::move(error);
  }
  void cancel(CancelReason reason) noexcept {
    clear();
    kind_ = Kind::cancelled;
    reason_ = reason;
  }

  /// The value, out of the slot.
  template <class T>
  T take() {
    WEFT_CHECK(ok(), "a flow's value was asked for where there is none");
    using V = detail::Stored<T>;
    if constexpr (std::is_void_v<T>) {
      clear();
    } else if constexpr (std::is_reference_v<T>) {
      T value = static_cast<T>(**get<V>());
      clear();
      return static_cast<T>(value);
    } else {
      V value = std::move(*get<V>());
      clear();
      return value;
    }
  }
  template <class T>
  Outcome<T> outcome() {
    if (failed()) return Outcome<T>::failure(error_);
    if (cancelled()) return Outcome<T>::cancel(reason_);
    if constexpr (std::is_void_v<T>) {
      return Outcome<T>::success();
    } else {
      return Outcome<T>::success(take<T>());
    }
  }
  template <class T>
  void set_outcome(Outcome<T> outcome) {
    if (outcome.failed()) {
      fail(outcome.error());
    } else if (outcome.cancelled()) {
      cancel(outcome.reason());
    } else {
      set_result<T>([&]() -> T { return std::move(outcome).value(); });
    }
  }
  /// What f returns, or throws.
  template <class T, class F>
  void set_result(F&& f) {
    if constexpr (std::is_void_v<T>) {
      f();
      set<void>();
    } else if constexpr (std::is_reference_v<T>) {
      set<T>(std::addressof(f()));
    } else {
      set<T>(f());
    }
  }

 private:
  enum class Kind : std::uint8_t { nothing, value, error, cancelled };

  template <class V>
  static consteval bool fits() {
    return sizeof(V) <= sizeof room_ && alignof(V) <= alignof(std::max_align_t);
  }
  template <class V>
  static consteval std::align_val_t align() {
    return std::align_val_t{alignof(V)};
  }
  template <class V>
  V* get() noexcept {
    void* const room = fits<V>() ? static_cast<void*>(room_) : pointer_;
    return std::launder(static_cast<V*>(room));
  }
  void clear() noexcept {
    if (kind_ == Kind::value) destroy_(*this);
    if (kind_ == Kind::error) error_ = nullptr;
    kind_ = Kind::nothing;
  }

  Kind kind_ = Kind::nothing;
  CancelReason reason_ = CancelReason::none;
  void (*destroy_)(Slot&) noexcept = nullptr;
  std::exception_ptr error_;
  union {
    alignas(std::max_align_t) std::byte room_[48];
    void* pointer_;
  };
};

class Node;

/// A counted reference to a node.
class NodeRef {
 public:
  NodeRef() = default;
  explicit NodeRef(const Node* fresh) noexcept : node_(fresh) {}
  NodeRef(const NodeRef& other) noexcept;
  NodeRef(NodeRef&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  NodeRef& operator=(NodeRef other) noexcept {
    std::swap(node_, other.node_);
    return *this;
  }
  ~NodeRef();
  [[nodiscard]] const Node* get() const noexcept { return node_; }

 private:
  friend class Node;
  const Node* node_ = nullptr;
};

struct Frame {
  const Node* node;
  NodeRef keep{};           // the node, if nobody else keeps it
  std::uint64_t times = 0;  // the node's own count
};

/// What to do next.
struct Step {
  Coro<void> wait{};           // first this,
  const Node* next = nullptr;  // then this, if there is one: the node is done if it does not
  bool stay = false;           // stay, to go on with its result.
  NodeRef keep{};              // `next`, if nobody else keeps it

  static Step done() { return {}; }
  static Step after(Coro<void> wait) { return {.wait = std::move(wait)}; }
  static Step first(const NodeRef& node) { return {.next = node.get(), .stay = true}; }
  static Step instead(NodeRef node) {
    const Node* const next = node.get();
    return {.next = next, .keep = std::move(node)};
  }
};

class Node {
 public:
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Fills the slot, or says what to do first. May throw: that is then the result.
  virtual Step begin(Slot& slot, Frame& frame) const = 0;
  /// The input's result is in the slot.
  virtual Step then(Slot& slot, Frame& frame) const;

 protected:
  Node() = default;
  virtual ~Node() = default;
  /// Gives the nodes it holds to `dying` if it was the last to hold them. Without it long chains
  /// would be destroyed by recursion.
  virtual void let_go(const Node*& dying) noexcept;
  static void let_go_of(NodeRef& ref, const Node*& dying) noexcept;

 private:
  friend class NodeRef;
  static void release(const Node* node) noexcept;

  mutable Atomic<std::uint32_t> refs_{1};
  mutable const Node* next_dying_ = nullptr;
};

inline NodeRef::NodeRef(const NodeRef& other) noexcept : node_(other.node_) {
  if (node_ != nullptr) {
    node_->refs_.fetch_add(1, std::memory_order_relaxed);  // relaxed: other holds one
  }
}
inline NodeRef::~NodeRef() {
  if (node_ != nullptr) Node::release(node_);
}

/// Runs a flow to its end; the result is in the slot.
[[nodiscard]] Coro<void> run(const Node& root, Slot& slot);

}  // namespace weft::flow_detail

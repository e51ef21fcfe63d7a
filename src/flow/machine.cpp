#include <weft/flow/machine.hpp>

#include <weft/task/task.hpp>

namespace weft::flow_detail {

bool Slot::can_be_mended() const noexcept {
  if (failed()) return true;
  const Wait& task = *this_task();
  return cancelled() && reason_ == CancelReason::timeout &&
         task.cancel_reason() == CancelReason::none;
}

Step Node::then(Slot&, Frame&) const {
  WEFT_CHECK(false, "a flow went on where it has no input");
  return {};
}

void Node::let_go(const Node*&) noexcept {}

void Node::let_go_of(NodeRef& ref, const Node*& dying) noexcept {
  const Node* const node = std::exchange(ref.node_, nullptr);
  // acq_rel: whoever destroys it sees what the others did with it before they let go
  if (node == nullptr || node->refs_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  node->next_dying_ = dying;
  dying = node;
}

void Node::release(const Node* node) noexcept {
  const Node* dying = nullptr;
  NodeRef last(node);
  let_go_of(last, dying);
  while (dying != nullptr) {
    Node* const dead = const_cast<Node*>(dying);  // nobody else knows it any more
    dying = dead->next_dying_;
    dead->let_go(dying);
    delete dead;
  }
}

Coro<void> run(const Node& root, Slot& slot) {
  const Wait& task = *this_task();
  std::vector<Frame> frames;
  frames.push_back({.node = &root});
  bool begins = true;
  while (!frames.empty()) {
    Step step;
    try {
      Frame& frame = frames.back();
      const CancelReason reason = task.cancel_reason();
      if (reason != CancelReason::none) slot.cancel(reason);
      if (!begins) {
        step = frame.node->then(slot, frame);
      } else if (reason == CancelReason::none) {
        step = frame.node->begin(slot, frame);
      }
      if (step.wait.handle()) co_await std::move(step.wait);
    } catch (const Cancelled& c) {
      slot.cancel(c.reason());
      step.next = nullptr;
    } catch (...) {
      slot.fail(std::current_exception());
      step.next = nullptr;
    }
    begins = step.next != nullptr;
    if (!begins || !step.stay) frames.pop_back();
    if (begins) frames.push_back({.node = step.next, .keep = std::move(step.keep)});
  }
}

}  // namespace weft::flow_detail

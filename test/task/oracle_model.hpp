/// A model that says what random programs must do: one queue, one clock, no stacks, no
/// waits to claim, nothing concurrent. Slow and simple on purpose.
#pragma once

#include <weft/base/outcome.hpp>

#include "task/oracle_program.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::test {

inline std::string ending(bool failed, CancelReason reason) {
  return failed ? "error" : reason == CancelReason::none ? "value" : to_string(reason);
}

class Model {
 public:
  /// `turns`: who joins a task that is the only one ready, and has not begun, gives it its turn.
  Model(std::vector<std::size_t> capacities, int patience_ms, bool turns)
      : patience_ms_(patience_ms), turns_(turns) {
    for (const std::size_t c : capacities) channels_.push_back({c, {}, {}, {}});
  }

  Trace run(const Program& program) {
    Node root{.kind = Node::scope, .policy = OnFailure::isolate};
    root_ = &root;
    spawn(0, program, root);
    set_timer(patience_ms_, [this] { mark(*root_, CancelReason::requested); });
    for (;;) {
      while (!ready_.empty()) {
        Task& task = *ready_.front();
        ready_.pop_front();
        go_on(task);
      }
      if (timers_.empty()) break;
      now_ms_ = timers_.begin()->first.first;
      while (!timers_.empty() && timers_.begin()->first.first == now_ms_) {
        auto fire = timers_.begin()->second;
        timers_.erase(timers_.begin());
        fire();
      }
    }
    for (auto& [id, task] : tasks_) {
      trace_.push_back(std::to_string(id) + " ended: " + ending(task->failed, task->reason));
    }
    return std::move(trace_);
  }

 private:
  struct Task;
  using Key = std::pair<int, int>;  // deadline, order of arming

  /// A task, a scope or a shield in the tree of cancellation.
  struct Node {
    enum Kind { task, scope, shield } kind = task;
    OnFailure policy = OnFailure::cancel_siblings;
    Node* parent = nullptr;
    std::list<Node*> children{};
    CancelReason mark = CancelReason::none;
    Task* owner = nullptr;   // who is interrupted when it obeys this node
    int running = 0;         // scopes: children that have not ended
    bool error = false;      // scopes: a child or the body has failed
    Task* joiner = nullptr;  // scopes
    std::optional<Key> timer{};
  };
  struct Frame {
    const Program* body = nullptr;
    std::size_t next = 0;
    std::unique_ptr<Node> within{};  // of a within(); null for the task's own frame
    bool failed = false;             // how the body ended
    CancelReason reason = CancelReason::none;
  };
  enum class For { nothing, start, yield, turn, sleep, send, recv, recv_for, join, scope, within };
  struct Task : Node {
    int id = 0;
    const Program* program = nullptr;
    std::vector<Frame> frames;
    Node* active = nullptr;
    For waits = For::nothing;
    bool interrupted = false;  // woken by a cancellation
    std::optional<int> value;  // recv, or what send offers
    std::optional<Key> sleeping;
    std::unique_ptr<Node> shield;
    std::unique_ptr<Node> nursery;  // of a scope statement
    bool done = false;
    bool failed = false;
    CancelReason reason = CancelReason::none;
    std::list<Task*> joiners;
    std::list<Task*>* queue = nullptr;  // where it waits
  };
  struct Chan {
    std::size_t capacity;
    std::deque<int> buffer;
    std::list<Task*> senders;
    std::list<Task*> receivers;
  };
  struct Signal {
    bool raised = false;
    bool failed = false;
    CancelReason reason = CancelReason::none;
  };
  static Signal cancelled(CancelReason reason) { return {true, false, reason}; }

  void note(const Task& task, const std::string& text) {
    trace_.push_back(std::to_string(task.id) + " " + text + " @" + std::to_string(now_ms_));
  }
  Key set_timer(int when, std::function<void()> fire) {
    const Key key{when, ++armed_};
    timers_.emplace(key, std::move(fire));
    return key;
  }
  void clear_timer(std::optional<Key>& key) {
    if (key) timers_.erase(*key);
    key.reset();
  }

  // The tree

  static void link(Node& node, Node& parent) {
    node.parent = &parent;
    parent.children.push_back(&node);
    if (node.kind != Node::shield) node.mark = parent.mark;
  }
  static void unlink(Node& node) { node.parent->children.remove(&node); }
  void mark(Node& node, CancelReason reason) {
    if (node.kind == Node::shield || node.mark != CancelReason::none) return;
    node.mark = reason;
    if (node.owner != nullptr && node.owner->active == &node) interrupt(*node.owner);
    for (Node* child : node.children) mark(*child, reason);
  }
  void interrupt(Task& task) {
    if (task.waits == For::nothing || task.waits == For::start || task.waits == For::yield ||
        task.waits == For::turn) {
      return;
    }
    task.interrupted = true;
    wake(task);
  }
  /// Takes a waiting task out of whatever it waits for.
  void wake(Task& task) {
    if (task.queue != nullptr) task.queue->remove(&task);
    task.queue = nullptr;
    clear_timer(task.sleeping);
    resumed_as_[&task] = std::exchange(task.waits, For::nothing);
    ready_.push_back(&task);
  }
  static void suspend(Task& task, For reason, std::list<Task*>* queue = nullptr) {
    task.waits = reason;
    task.queue = queue;
    if (queue != nullptr) queue->push_back(&task);
  }

  // Tasks

  void spawn(int id, const Program& program, Node& scope) {
    auto made = std::make_unique<Task>();
    Task& task = *made;
    task.id = id;
    task.program = &program;
    task.owner = &task;
    task.active = &task;
    task.waits = For::nothing;
    tasks_[id] = std::move(made);
    link(task, scope);
    ++scope.running;
    resumed_as_[&task] = For::start;
    ready_.push_back(&task);
  }
  void fail(Node& scope) {
    scope.error = true;
    if (scope.policy != OnFailure::keep_going) mark(scope, CancelReason::sibling_failed);
  }
  void finish(Task& task, const Signal& how) {
    task.done = true;
    task.failed = how.failed;
    task.reason = how.reason;
    Node& scope = *task.parent;
    if (how.failed && scope.policy != OnFailure::isolate) fail(scope);
    while (!task.joiners.empty()) wake(*task.joiners.front());
    unlink(task);
    if (--scope.running == 0 && scope.joiner != nullptr) {
      wake(*std::exchange(scope.joiner, nullptr));
    }
  }
  /// Waits for the children of a scope, deaf to cancellation.
  void wait_for_children(Task& task, Node& scope, For reason) {
    task.shield = std::make_unique<Node>(Node{.kind = Node::shield});
    link(*task.shield, *task.active);
    task.active = task.shield.get();
    scope.joiner = &task;
    suspend(task, reason);
  }
  static void drop_shield(Task& task) {
    task.active = task.shield->parent;
    unlink(*task.shield);
    task.shield.reset();
  }

  void go_on(Task& task) {
    task.waits = For::nothing;
    Signal signal = resume(task);
    while (task.waits == For::nothing) {
      Frame* frame = task.frames.empty() ? nullptr : &task.frames.back();
      if (frame == nullptr) return finish(task, signal);
      if (signal.raised || frame->next == frame->body->size()) {
        if (!frame->within) return finish(task, signal);
        signal = end_of_body(task, *frame, signal);
        continue;
      }
      signal = execute(task, frame->body->at(frame->next++));
    }
  }

  Signal resume(Task& task) {
    const For was = std::exchange(resumed_as_[&task], For::nothing);
    if (was == For::start) {
      if (task.mark != CancelReason::none) return cancelled(task.mark);
      task.frames.push_back({.body = task.program});
      return {};
    }
    if (std::exchange(task.interrupted, false)) return cancelled(task.active->mark);
    switch (was) {
      case For::yield:
        if (task.active->mark != CancelReason::none) return cancelled(task.active->mark);
        note(task, "yield");
        break;
      case For::turn:
        if (task.active->mark != CancelReason::none) return cancelled(task.active->mark);
        wait_for_end(task, *tasks_[joins_[&task]]);
        break;
      case For::sleep:
        note(task, "sleep");
        break;
      case For::send:
        note(task, "send");
        break;
      case For::recv:
      case For::recv_for:
        note_recv(task);
        break;
      case For::join:
        note_join(task, *tasks_[joins_[&task]]);
        break;
      case For::scope:
        drop_shield(task);
        return end_of_scope(task);
      case For::within:
        drop_shield(task);
        return end_of_within(task);
      default:
        break;
    }
    return {};
  }
  void note_recv(Task& task) {
    note(task, "recv " + (task.value ? std::to_string(*task.value) : "nothing"));
    task.value.reset();
  }
  void note_join(Task& task, const Task& other) {
    note(task, "join " + std::to_string(other.id) + " " + ending(other.failed, other.reason));
  }

  // Statements

  Signal execute(Task& task, const Stmt& s) {
    const bool waits = s.what != Do::spawn && s.what != Do::cancel && s.what != Do::scope &&
                       s.what != Do::within && s.what != Do::fail &&
                       !(s.what == Do::join && !tasks_.contains(s.a));
    if (waits && task.active->mark != CancelReason::none) return cancelled(task.active->mark);
    switch (s.what) {
      case Do::yield:
        task.waits = For::yield;
        resumed_as_[&task] = For::yield;
        ready_.push_back(&task);
        break;
      case Do::sleep:
        suspend(task, For::sleep);
        task.sleeping = set_timer(now_ms_ + s.a, [this, &task] { wake(task); });
        break;
      case Do::send:
        send(task, channels_[static_cast<std::size_t>(s.a)]);
        break;
      case Do::recv:
      case Do::recv_for:
        recv(task, channels_[static_cast<std::size_t>(s.a)], s);
        break;
      case Do::spawn:
        note(task, "spawn " + std::to_string(s.a));
        spawn(s.a, s.body, innermost(task));
        break;
      case Do::cancel:
        note(task, "cancel " + std::to_string(s.a));
        if (tasks_.contains(s.a)) mark(*tasks_[s.a], CancelReason::killed);
        break;
      case Do::join:
        join(task, s.a);
        break;
      case Do::scope:
        return scope(task, s);
      case Do::within:
        begin_within(task, s);
        break;
      case Do::fail:
        return {true, true, CancelReason::none};
    }
    return {};
  }

  Node& innermost(Task& task) {
    for (auto f = task.frames.rbegin(); f != task.frames.rend(); ++f) {
      if (f->within) return *f->within;
    }
    return *root_;
  }
  void send(Task& task, Chan& ch) {
    const int value = ++sent_;
    if (!ch.receivers.empty()) {
      Task& receiver = *ch.receivers.front();
      receiver.value = value;
      wake(receiver);
    } else if (ch.buffer.size() < ch.capacity) {
      ch.buffer.push_back(value);
    } else {
      task.value = value;
      return suspend(task, For::send, &ch.senders);
    }
    note(task, "send");
  }
  void recv(Task& task, Chan& ch, const Stmt& s) {
    if (!ch.buffer.empty()) {
      task.value = ch.buffer.front();
      ch.buffer.pop_front();
      if (!ch.senders.empty()) ch.buffer.push_back(take_from_sender(ch));
    } else if (!ch.senders.empty()) {
      task.value = take_from_sender(ch);
    } else {
      task.value.reset();
      if (s.what == Do::recv) return suspend(task, For::recv, &ch.receivers);
      suspend(task, For::recv_for, &ch.receivers);
      task.sleeping = set_timer(now_ms_ + s.b, [this, &task] { wake(task); });
      return;
    }
    note_recv(task);
  }
  int take_from_sender(Chan& ch) {
    Task& sender = *ch.senders.front();
    const int value = *std::exchange(sender.value, std::nullopt);
    wake(sender);
    return value;
  }
  void join(Task& task, int id) {
    if (!tasks_.contains(id)) return note(task, "join " + std::to_string(id) + " unknown");
    Task& other = *tasks_[id];
    joins_[&task] = id;
    const bool alone = ready_.size() == 1 && ready_.front() == &other;
    const bool gives = turns_ && alone && resumed_as_[&other] == For::start;
    if (!gives) return wait_for_end(task, other);
    task.waits = For::turn;
    resumed_as_[&task] = For::turn;
    ready_.push_back(&task);
  }
  void wait_for_end(Task& task, Task& other) {
    if (other.done) return note_join(task, other);
    suspend(task, For::join, &other.joiners);
  }
  Signal scope(Task& task, const Stmt& s) {
    task.nursery = std::make_unique<Node>(Node{.kind = Node::scope});
    link(*task.nursery, *task.active);
    for (const Stmt& child : s.body) spawn(child.a, child.body, *task.nursery);
    if (task.nursery->running == 0) return end_of_scope(task);
    wait_for_children(task, *task.nursery, For::scope);
    return {};
  }
  Signal end_of_scope(Task& task) {
    const bool error = task.nursery->error;
    unlink(*task.nursery);
    task.nursery.reset();
    if (error) return {true, true, CancelReason::none};
    if (task.active->mark != CancelReason::none) return cancelled(task.active->mark);
    note(task, "scope");
    return {};
  }
  void begin_within(Task& task, const Stmt& s) {
    auto node = std::make_unique<Node>(Node{.kind = Node::scope, .policy = s.policy});
    Node& n = *node;
    n.owner = &task;
    link(n, *task.active);
    task.active = &n;
    if (s.b > 0) {
      n.timer = set_timer(now_ms_ + s.b, [this, &n] {
        n.timer.reset();
        mark(n, CancelReason::timeout);
      });
    }
    task.frames.push_back({.body = &s.body, .within = std::move(node)});
  }
  Signal end_of_body(Task& task, Frame& frame, const Signal& how) {
    Node& scope = *frame.within;
    frame.failed = how.failed;
    frame.reason = how.reason;
    if (how.failed) fail(scope);
    if (how.reason != CancelReason::none) mark(scope, how.reason);
    if (scope.running == 0) return end_of_within(task);
    wait_for_children(task, scope, For::within);
    return {};
  }
  Signal end_of_within(Task& task) {
    Frame frame = std::move(task.frames.back());
    task.frames.pop_back();
    clear_timer(frame.within->timer);
    task.active = frame.within->parent;
    unlink(*frame.within);
    const CancelReason outside = task.active->mark;
    if (frame.reason != CancelReason::none && outside != CancelReason::none) {
      return cancelled(outside);
    }
    const bool error = frame.within->error;
    note(task, "within " + ending(error, error ? CancelReason::none : frame.reason));
    return {};
  }

  const int patience_ms_;
  const bool turns_;
  int now_ms_ = 0;
  int armed_ = 0;
  int sent_ = 0;
  Node* root_ = nullptr;
  std::deque<Task*> ready_;
  std::map<Key, std::function<void()>> timers_;
  std::map<int, std::unique_ptr<Task>> tasks_;
  std::map<Task*, For> resumed_as_;
  std::map<Task*, int> joins_;
  std::vector<Chan> channels_;
  Trace trace_;
};

}  // namespace weft::test

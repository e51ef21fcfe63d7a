#include <weft/flow/task_graph.hpp>

#include <algorithm>

namespace weft {

Coro<void> detail::wait_for_all(std::vector<Task*> tasks) {
  for (Task* task : tasks) {
    co_await EndOp(task);
    if (!task->ending().ok()) {
      throw DependencyFailed("did not run: '" + std::string(task->name()) + "' (tid " +
                             std::to_string(task->tid()) + ") did not succeed");
    }
  }
}

void TaskGraph::add_node(Node node) {
  for (const Node& other : nodes_) {
    if (other.name == node.name) {
      throw std::invalid_argument("task graph: there are two tasks called '" + node.name + "'");
    }
  }
  nodes_.push_back(std::move(node));
}

std::size_t TaskGraph::index_of(const std::string& name, const std::string& wanted_by) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&](const Node& node) { return node.name == name; });
  if (found == nodes_.end()) {
    throw std::invalid_argument("task graph: '" + wanted_by + "' waits for '" + name +
                                "', which was not added");
  }
  return static_cast<std::size_t>(found - nodes_.begin());
}

std::vector<std::size_t> TaskGraph::order() {
  for (Node& node : nodes_) {
    node.inputs.clear();
    for (const std::string& name : node.after) node.inputs.push_back(index_of(name, node.name));
  }
  std::vector<std::uint8_t> seen(nodes_.size());
  std::vector<std::size_t> path;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < nodes_.size(); ++i) visit(i, seen, path, order);
  return order;
}

// Depth first, without recursion: a chain may be long.
void TaskGraph::visit(std::size_t i, std::vector<std::uint8_t>& seen,
                      std::vector<std::size_t>& path, std::vector<std::size_t>& order) const {
  enum : std::uint8_t { fresh, open, done };
  if (seen[i] != fresh) return;
  path.assign(1, i);
  std::vector<std::size_t> next_input{0};
  seen[i] = open;
  while (!path.empty()) {
    const Node& node = nodes_[path.back()];
    if (next_input.back() == node.inputs.size()) {
      seen[path.back()] = done;
      order.push_back(path.back());
      path.pop_back();
      next_input.pop_back();
      continue;
    }
    const std::size_t input = node.inputs[next_input.back()++];
    if (seen[input] == open) {
      std::string text = "task graph: a cycle: ";
      for (auto at = std::find(path.begin(), path.end(), input); at != path.end(); ++at) {
        text += "'" + nodes_[*at].name + "' waits for ";
      }
      throw std::invalid_argument(text + "'" + nodes_[input].name + "'");
    }
    if (seen[input] == fresh) {
      seen[input] = open;
      path.push_back(input);
      next_input.push_back(0);
    }
  }
}

Coro<void> TaskGraph::co_run() {
  const std::vector<std::size_t> in_order = order();
  std::vector<Future<void>> tasks(nodes_.size());
  Scope scope({.name = "task graph"});
  for (const std::size_t i : in_order) {
    std::vector<Future<void>> inputs;
    for (const std::size_t input : nodes_[i].inputs) inputs.push_back(tasks[input]);
    const WaitsFor waits_for = [inputs = std::move(inputs)]() {
      std::vector<Task*> raw;
      for (const Future<void>& input : inputs) raw.push_back(input.task());
      return detail::wait_for_all(std::move(raw));
    };
    tasks[i] = nodes_[i].start(scope, {.name = nodes_[i].name}, waits_for);
  }
  co_await scope.joined();
  for (const Future<void>& task : tasks) task.outcome().value();
}

}  // namespace weft

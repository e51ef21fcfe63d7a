#include <weft/task/dump.hpp>

#include <weft/stack/backtrace.hpp>
#include <weft/task/coro.hpp>
#include <weft/task/fiber.hpp>
#include <weft/task/io.hpp>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

// For debuggers: tools/gdb/weft.py starts here.
extern "C" {
std::atomic<weft::Io*> weft_all_ios[64];
}

namespace weft {

namespace {

std::atomic<std::uint32_t> dumps_requested{0};
std::atomic<std::uint32_t> handlers_running{0};

void on_dump_signal(int) {
  const int saved = errno;
  handlers_running.fetch_add(1);  // seq_cst, as all here: partner is unregister_io()
  dumps_requested.fetch_add(1);
  for (auto& slot : weft_all_ios) {
    if (Io* io = slot.load()) io->interrupt();
  }
  handlers_running.fetch_sub(1);
  errno = saved;
}

class Dumper {
 public:
  Dumper(Io& io, const DumpOptions& options) : io_(io), options_(options) {}

  std::string run() {
    out_ = std::string(io_.kind()) + ": " + std::to_string(io_.live()) + " task(s)\n";
    io_.root().walk([this](CancelNode& node, std::size_t depth) { print(node, depth); });
    if (left_out_ > 0) line(1, "... and " + std::to_string(left_out_) + " more task(s)");
    return std::move(out_);
  }

 private:
  void line(std::size_t depth, const std::string& text) {
    out_.append(2 * std::min<std::size_t>(depth, 40), ' ');
    out_ += text;
    out_ += '\n';
  }

  void print(CancelNode& node, std::size_t depth) {
    switch (node.kind()) {
      case CancelNode::Kind::task:
        print(static_cast<Task&>(node), depth);
        break;
      case CancelNode::Kind::shield:
        line(depth, "shield");
        break;
      case CancelNode::Kind::scope: {
        auto& scope = static_cast<Scope&>(node);
        const std::string name = scope.name().empty() ? "" : " '" + std::string(scope.name()) + "'";
        const std::string id = scope.has_id() ? " " + number(scope.id()) : "";
        line(depth, "scope" + name + id + cancelled(scope));
      }
    }
  }

  void print(const Task& task, std::size_t depth) {
    if (printed_++ >= options_.max_tasks) {
      ++left_out_;
      return;
    }
    std::string text = std::string(task.name()) + " (tid " + std::to_string(task.tid()) + ", " +
                       kind_of(task) + ") " + to_string(task.state());
    if (task.state() == TaskState::blocked) text += ": " + what_it_waits_for(task);
    if (const Fiber* fiber = own_stack(task)) {
      text += io_.measures_stacks() ? ", stack used " : ", stack at most ";
      text += std::to_string(io_.stacks().high_water(fiber->stack())) + " of " +
              std::to_string(fiber->stack().size());
    }
    line(depth, text + cancelled(task));
    if (!options_.backtraces) return;
    const bool off_stack = task.state() == TaskState::ready || task.state() == TaskState::blocked;
    if (off_stack) print_backtrace(task, depth + 2);
  }

  /// Null: none, or not for us to look at. A running coroutine is on a stack that is only lent to
  /// it, and what runs on another thread does not stand still.
  static const Fiber* own_stack(const Task& task) {
    if (task.state() != TaskState::running) return task.fiber();
    return &task == this_task() && task.flow() == Wait::Flow::fiber ? task.fiber() : nullptr;
  }

  void print_backtrace(const Task& task, std::size_t depth) {
    if (const Fiber* fiber = task.fiber()) {
      std::array<void*, 64> pcs{};
      const std::size_t n = stack::capture_backtrace(fiber->strand().context, fiber->stack(), pcs);
      for (std::size_t i = 0; i < n; ++i) line(depth, stack::describe_address(pcs[i]));
      return;
    }
    // A coroutine's callers are reached through the promises; the first word of a frame is its
    // code.
    std::coroutine_handle<> handle = task.resume_point();
    for (int i = 0; handle && i < 64; ++i) {
      line(depth, stack::describe_function(*static_cast<void**>(handle.address())));
      handle = std::coroutine_handle<detail::PromiseBase>::from_address(handle.address())
                   .promise()
                   .continuation();
    }
  }

  [[nodiscard]] std::string number(ObjectId id) const {
    return "#" + std::to_string(io_.number_of(id));
  }
  static const char* kind_of(const Task& task) {
    switch (task.flow()) {
      case Wait::Flow::fiber:
        return "fiber";
      case Wait::Flow::coroutine:
        return "coroutine";
      case Wait::Flow::thread:
        return "thread";
    }
    return "?";
  }
  static std::string cancelled(const CancelNode& node) {
    const CancelReason reason = node.cancel_reason();
    return reason == CancelReason::none ? "" : std::string(", cancelled: ") + to_string(reason);
  }
  [[nodiscard]] std::string what_it_waits_for(const Task& task) const {
    std::string text;
    for (std::size_t i = 0; i < task.arm_count(); ++i) {
      const Arm& arm = task.arms()[i];
      if (i > 0) text += " | ";
      text += arm.reason.name;
      if (arm.object != ObjectId::none) text += " " + number(arm.object);
    }
    return text;
  }

  Io& io_;
  const DumpOptions options_;
  std::string out_;
  std::size_t printed_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace

std::string dump(Io& io, const DumpOptions& options) {
  struct Held {
    explicit Held(Io& held) noexcept : io(held) { io.hold(); }
    ~Held() { io.let_go(); }
    Io& io;
  };
  const Held held(io);
  return Dumper(io, options).run();
}

void dump_on_signal(int signal) {
  struct sigaction action{};
  action.sa_handler = &on_dump_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  if (::sigaction(signal, &action, nullptr) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            "dump_on_signal(" + std::to_string(signal) + ")");
  }
}

void answer_dump_request(Io& io) {
  // relaxed: the interrupt that follows the request makes the engine look again.
  const std::uint32_t requested = dumps_requested.load(std::memory_order_relaxed);
  if (io.dumps_answered == requested) return;
  io.dumps_answered = requested;
  std::fputs(("weft: " + dump(io)).c_str(), stderr);
}

namespace detail {

void register_io(Io& io) {
  // relaxed: only requests from now on concern this Io.
  io.dumps_answered = dumps_requested.load(std::memory_order_relaxed);
  for (auto& slot : weft_all_ios) {
    Io* expected = nullptr;
    if (slot.compare_exchange_strong(expected, &io)) return;
  }
  // More than 64: the others are not reached by signals and debuggers, and nothing else.
}

void unregister_io(Io& io) noexcept {
  for (auto& slot : weft_all_ios) {
    Io* expected = &io;
    if (slot.compare_exchange_strong(expected, nullptr)) break;
  }
  while (handlers_running.load() != 0) {  // a handler may still be using the pointer it read
  }
}

}  // namespace detail
}  // namespace weft

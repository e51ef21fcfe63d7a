#include <weft/task/io.hpp>

#include <weft/stack/overflow.hpp>
#include <weft/task/dump.hpp>
#include <weft/task/worker.hpp>

#include <cstdio>
#include <cstdlib>
#include <stdexcept>

#include <sched.h>

namespace weft {

namespace {

std::atomic<std::uint32_t> ios_made{0};

std::size_t who_is_running(char* buffer, std::size_t size) noexcept {
  const Task* task = this_task();
  if (task == nullptr) return 0;
  const auto name = task->name();
  const int n = std::snprintf(buffer, size, "task '%.*s' (tid %llu)", static_cast<int>(name.size()),
                              name.data(), static_cast<unsigned long long>(task->tid()));
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

}  // namespace

Io::Io(IoOptions options)
    // 15 bits are enough to tell apart those that live at the same time.
    : number_(
          static_cast<std::uint16_t>(ios_made.fetch_add(1, std::memory_order_relaxed) & 0x7fff)),
      options_(std::move(options)),
      stacks_({.size = options_.stack_size}),
      root_(Scope::OfIo{}, *this) {
  if (const char* measure = std::getenv("WEFT_MEASURE_STACKS")) {
    options_.measure_stacks = options_.measure_stacks || std::string_view(measure) == "1";
  }
  // relaxed: always the same value.
  detail::who_am_i.store(&who_is_running, std::memory_order_relaxed);
  stack::install_overflow_handler(&find_running_stack);
}

void Io::enter_registry() {
  detail::register_io(*this);
}
void Io::leave_registry() noexcept {
  detail::unregister_io(*this);
}

void Io::wait_for_visitors() const noexcept {
  // A visitor has at most a few instructions and one write to go.
  while (visited()) ::sched_yield();
}

void Io::report_leftovers() {
  const std::string text =
      "weft: shutdown: " + std::to_string(live()) + " task(s) did not end in time\n" + dump(*this);
  std::fputs(text.c_str(), stderr);
}

void Io::report_unhandled(const Task& task, const std::exception_ptr& error) noexcept {
  try {
    if (options_.on_unhandled) {
      options_.on_unhandled(task, error);
      return;
    }
    const std::string text = "weft: task '" + std::string(task.name()) + "' (tid " +
                             std::to_string(task.tid()) + ") failed: " + describe(error) + "\n";
    std::fputs(text.c_str(), stderr);
  } catch (...) {
    std::fputs("weft: a task failed, and so did the report of it\n", stderr);
  }
}

Io& this_io() {
  Task* task = this_task();
  if (task == nullptr) throw std::logic_error("this_io() outside of a task");
  return task->io();
}

Instant now() {
  return this_io().now();
}

std::uint32_t choose(std::uint32_t n) noexcept {
  const Task* task = this_task();
  return task == nullptr ? 0 : task->io().choose(n);
}

}  // namespace weft

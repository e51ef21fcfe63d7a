#include "sched/stuck_stack.hpp"

#include <weft/stack/backtrace.hpp>
#include <weft/task/task.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <span>

#include <pthread.h>

namespace weft {

namespace {

/// One question at a time. The handler fills it in between `asked` and `answered`.
struct Question {
  enum State : std::uint32_t { none, asked, answering, answered };
  std::atomic<std::uint32_t> state{none};
  std::atomic<pthread_t> whom{};
  bool in_task = false;
  std::uint64_t tid = 0;
  std::array<char, 64> name{};
  std::array<void*, 48> pcs{};
  std::size_t depth = 0;
};
Question question;
std::mutex asking;

void on_signal(int) {
  const int saved = errno;
  std::uint32_t state = Question::asked;
  // A signal may come so late that somebody else is asked by now.
  if (::pthread_equal(question.whom.load(), ::pthread_self()) != 0 &&
      question.state.compare_exchange_strong(state, Question::answering)) {
    const Task* task = this_task();
    question.in_task = task != nullptr;
    if (task != nullptr) {
      question.tid = task->tid();
      const std::string_view name = task->name();
      const std::size_t size = std::min(name.size(), question.name.size() - 1);
      std::copy_n(name.data(), size, question.name.data());
      question.name[size] = '\0';
    }
    question.depth = stack::capture_backtrace(question.pcs);
    question.state.store(Question::answered);
  }
  errno = saved;
}

/// False: the program uses the signal itself.
bool install_handler() {
  struct sigaction present{};
  if (::sigaction(SIGURG, nullptr, &present) != 0) return false;
  if ((present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == &on_signal) return true;
  if ((present.sa_flags & SA_SIGINFO) != 0 ||
      (present.sa_handler != SIG_DFL && present.sa_handler != SIG_IGN)) {
    return false;
  }
  struct sigaction action{};
  action.sa_handler = &on_signal;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  return ::sigaction(SIGURG, &action, nullptr) == 0;
}

bool wait_for_answer(Kernel& clock) {
  const Instant until = clock.now() + std::chrono::milliseconds(20);
  while (question.state.load() != Question::answered) {
    if (clock.now() > until) {
      // Take the question back, unless it is just being answered.
      std::uint32_t state = Question::asked;
      if (question.state.compare_exchange_strong(state, Question::none)) return false;
    }
    clock.wait(clock.now() + std::chrono::microseconds(100));
  }
  return true;
}

std::string answer_in_words() {
  if (!question.in_task) return "";
  std::string text = "  task '" + std::string(question.name.data()) + "' (tid " +
                     std::to_string(question.tid) + "):\n";
  // The first ones are the handler, and what the machine puts between it and the task.
  constexpr std::size_t own_frames = 2;
  for (std::size_t i = std::min(own_frames, question.depth); i < question.depth; ++i) {
    text += "    " + stack::describe_address(question.pcs[i]) + "\n";
  }
  return text;
}

}  // namespace

void admit_stack_signal() noexcept {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGURG);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

std::string stack_of_thread(const std::thread& thread, Kernel& clock) {
  const std::lock_guard guard(asking);
  if (!install_handler()) return "  (no stack: the program has its own handler of SIGURG)\n";
  const pthread_t handle = const_cast<std::thread&>(thread).native_handle();
  question.whom.store(handle);
  question.state.store(Question::asked);
  if (::pthread_kill(handle, SIGURG) != 0 || !wait_for_answer(clock)) {
    question.state.store(Question::none);
    return "  (no stack: the thread does not answer)\n";
  }
  std::string text = answer_in_words();
  question.state.store(Question::none);
  return text;
}

}  // namespace weft

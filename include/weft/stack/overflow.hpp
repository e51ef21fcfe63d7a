/// Says which task ran out of stack, before the process dies of it.
///
///     weft::stack::install_overflow_handler(find);   // find() names this thread's task
///     weft::stack::AltStack alt;                     // in every thread that runs tasks
///
///     weft: stack overflow in task 'parse' (tid 7), stack size 65536
///       raise it with SpawnOptions::stack_size or WEFT_STACK_SIZE
///
/// The handler needs a stack of its own, as the task's is used up: each thread that runs tasks
/// keeps an AltStack for as long as it does. After the message the default action is restored and
/// the access is repeated, so that a core file shows the frame that went too far. Faults that are
/// no overflow go to whoever handled them before: a crash reporter, a sanitizer, or the default
/// action.
///
/// Two kinds of access count as an overflow: one to the guard of the running stack; and one between
/// the stack pointer and the running stack, when the stack pointer itself has left it downwards (a
/// frame so large that it begins beyond the guard).
#pragma once

#include <weft/stack/stack_pool.hpp>

#include <csignal>
#include <cstddef>
#include <cstdint>

namespace weft::stack {

/// What the handler wants to know of the task that runs on the calling thread.
struct Running {
  Stack stack;
  std::uint64_t tid = 0;
  char name[64] = {};  // ends with a zero; longer names are cut
};

/// Describes the calling thread's task, or returns false if it runs none now. Called in a signal
/// handler, so it must be async-signal-safe.
using FindRunning = bool (*)(Running& running) noexcept;

/// For the whole process, on SIGSEGV and SIGBUS. Further calls only replace `find`. Never
/// uninstalled, as others may have chained to it.
void install_overflow_handler(FindRunning find);

/// Gives the calling thread an alternate signal stack, unless it has one, until destroyed by that
/// thread. Throws std::system_error.
class AltStack {
 public:
  AltStack();
  AltStack(const AltStack&) = delete;
  AltStack& operator=(const AltStack&) = delete;
  ~AltStack();

  /// False if the thread had one already.
  [[nodiscard]] bool installed() const noexcept { return memory_ != nullptr; }

 private:
  std::byte* memory_ = nullptr;  // a guard page, then the stack
  std::size_t bytes_ = 0;
};

}  // namespace weft::stack

/// What engines do when every task waits and nothing can wake one of them.
#pragma once

#include <weft/io/kernel.hpp>

#include <cstdint>
#include <mutex>
#include <stdexcept>
#include <string>

namespace weft {

class Io;

enum class OnDeadlock : std::uint8_t {
  automatic,  // fail if the process has no other thread, else wait
  fail,       // whatever other threads there are: nobody will wake these tasks
  wait,       // somebody will
};

/// All tasks wait and nothing can wake them. what() says who waits for what.
class Deadlock : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// How an engine finds one, and what it found until it can throw it.
class DeadlockWatch {
 public:
  /// Called when nothing inside the engine can wake a task, by the thread that waits for the
  /// outside: gives the outside some time to do it. True if there is no outside that could; the
  /// caller then looks once more for what may have come in before. `own`: threads of the engine
  /// besides the calling one.
  [[nodiscard]] bool nobody_will_wake(Kernel& kernel, OnDeadlock policy, std::size_t own = 0);

  /// Reports who waits for what on stderr, and cancels the engine's tasks (not its root: it stays
  /// usable). A task that was cancelled for one and still waits will do so for ever: fatal; also if
  /// all of them were cancelled before, for whatever reason, and the same is found again.
  void declare(Io& io);
  void throw_if_any();
  void forget() noexcept;

 private:
  // The waiting thread's.
  Duration patience_{};  // grows while nothing happens
  bool all_cancelled_before_ = false;
  std::mutex mutex_;
  std::string report_;  // under mutex_
};

}  // namespace weft

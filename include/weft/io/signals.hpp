/// Signals as something to wait for.
///
///     Signals stop({SIGINT, SIGTERM});
///     int which = stop.next();                                  // or co_await stop.next_op()
///     select(stop.next_op(), server_done.recv_op());
///
/// As long as a Signals object lives, the signals it names come to it and do what they did before
/// no more; when the last object for a signal goes, that is restored. Each object gets each signal,
/// in the order of arrival, from the moment it is made: none is lost while nobody waits, short of
/// 64 Ki of them. (The system itself merges a signal with one of the same number that has not been
/// delivered yet, except for real-time signals.) Several tasks that wait on one object take turns.
///
/// A signal arrives only if some thread of the program does not block it. The threads weft starts
/// (workers of pools, and for blocking work) block all of them; so std::raise() in a task of a pool
/// reaches nobody, and kill(getpid(), ...) does.
///
/// SIGKILL and SIGSTOP cannot be caught; SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS and
/// SIGABRT tell of a fault in the program, which cannot go on. To ask for them is an error.
///
/// Any task or plain thread may call any member.
#pragma once

#include <weft/io/fd.hpp>

#include <initializer_list>
#include <span>
#include <string>

namespace weft {

/// "SIGINT"; "SIGRTMIN+2"; "signal 99" for what is none.
[[nodiscard]] std::string signal_name(int signal);

/// The number of the next signal.
class NextSignalOp : public SourceOp<NextSignalOp, Direction::read> {
 public:
  using Result = int;
  static constexpr Reason reason{"signal"};

  explicit NextSignalOp(Source& source) noexcept : SourceOp(source) {}
  int take() const {
    checked("waiting for a signal");
    return number_;
  }

  SysResult call(Source& source) noexcept {
    const iovec into{&number_, sizeof number_};
    return source.world().read(source.fd(), &into, 1);
  }
  bool absorb(SysResult, std::uint32_t) noexcept { return true; }

 private:
  unsigned char number_ = 0;
};

class Signals {
 public:
  /// Throws std::system_error.
  Signals(std::initializer_list<int> signals)
      : Signals(std::span<const int>(signals.begin(), signals.size())) {}
  explicit Signals(std::span<const int> signals);

  [[nodiscard]] NextSignalOp next_op() const { return NextSignalOp(pipe_.source()); }
  int next() const { return perform(next_op()); }

  /// Restores what was; waiters wake with an error (EBADF). Idempotent.
  void close() noexcept { pipe_.close(); }

 private:
  Fd pipe_;
};

}  // namespace weft

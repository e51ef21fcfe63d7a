#include <weft/io/signals.hpp>

#include <csignal>
#include <cstring>

namespace weft {

namespace {

Fd subscribe(std::span<const int> signals) {
  const auto world = this_world();
  const SysResult fd = world->open_signals(signals);
  if (fd >= 0) return Fd(world, static_cast<int>(fd), Source::Kind::pipe);
  std::string what = "waiting for signals:";
  for (const int signal : signals) what += " " + signal_name(signal);
  if (fd == -EINVAL) {
    what +=
        "; none was named, or one that does not exist, that cannot be caught (SIGKILL, SIGSTOP) or "
        "that tells of a fault of the program itself (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, "
        "SIGSYS, SIGABRT)";
  } else if (fd == -EMFILE) {
    what += "; too many open descriptors, or too many Signals objects";
  }
  throw_sys_error(fd, what);
}

}  // namespace

std::string signal_name(int signal) {
  if (signal >= SIGRTMIN && signal <= SIGRTMAX) {
    const int above = signal - SIGRTMIN;
    return above == 0 ? "SIGRTMIN" : "SIGRTMIN+" + std::to_string(above);
  }
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

Signals::Signals(std::span<const int> signals) : pipe_(subscribe(signals)) {}

}  // namespace weft

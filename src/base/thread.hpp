// Threads of the library's own.
#pragma once

#include <csignal>

#include <pthread.h>

namespace weft {

/// Threads made while it lives get no signals, which are for the program's own threads; except for
/// those a thread brings upon itself, which cannot wait.
class NoSignals {
 public:
  NoSignals() noexcept {
    sigset_t most;
    ::sigfillset(&most);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      ::sigdelset(&most, own);
    }
    ::pthread_sigmask(SIG_SETMASK, &most, &before_);
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace weft

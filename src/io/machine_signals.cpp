// Signals of the process. A handler writes the number of each signal, as one byte, to the pipe of
// every subscription that asked for it. Handlers run on any thread at any moment, so they touch
// nothing but atomics and write():
//
//     subscribe    fill in the slot, the mask last: from here on handlers may use it
//     handler      users + 1; if the mask still has the signal: write; users - 1
//     unsubscribe  mask = 0; wait until users = 0 (a handler is a few instructions); close
//
// So a pipe is never written to after its end was closed: no number that was given out again is
// hit, and no SIGPIPE is raised.
//
// Rejected: signalfd. It sees only signals that are blocked in every thread, and threads that
// others start are not ours to arrange.
#include "io/machine.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <mutex>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

namespace weft::io {

namespace {

constexpr int most_signals = 64;

struct Subscription {
  std::atomic<std::uint64_t> mask{0};   // bit n - 1: signal n. 0: not to be used by handlers
  std::atomic<std::uint32_t> users{0};  // handlers that may be writing
  std::atomic<int> reader{-1};          // what was given out; -1: the slot is free
  // Fixed while the mask is not 0.
  int writer = -1;
  // After a fork without exec the copy has our handlers and our pipes, but its signals are not
  // ours.
  pid_t owner = 0;
};

/// What was there before us.
struct Handled {
  std::size_t subscribers = 0;
  struct sigaction previous{};
};

std::array<Subscription, 256> subscriptions;
std::atomic<std::size_t> subscriptions_used{0};  // how many slots were ever in use

// An OS mutex: held for a few system calls, by threads that begin or end a subscription.
std::mutex registry;
std::array<Handled, most_signals + 1> handled;  // by number; under `registry`

constexpr std::uint64_t bit_of(int signal) noexcept {
  return std::uint64_t{1} << static_cast<unsigned>(signal - 1);
}

extern "C" void weft_on_signal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  const pid_t self = ::getpid();
  const std::size_t used = subscriptions_used.load();
  for (std::size_t i = 0; i < used; ++i) {
    Subscription& to = subscriptions[i];
    if ((to.mask.load() & bit_of(signal)) == 0) continue;
    // seq_cst, as in end(): either we see the mask cleared, or it sees us.
    to.users.fetch_add(1);
    if ((to.mask.load() & bit_of(signal)) != 0 && to.owner == self) {
      // Full, with 64 KiB of signals nobody has read: then one more says nothing new.
      [[maybe_unused]] const auto n = ::write(to.writer, &byte, 1);
    }
    to.users.fetch_sub(1);
  }
  errno = saved;
}

/// SIGKILL and SIGSTOP cannot be caught. The others mark a fault of the program at the very
/// instruction it has come to: to go on after the handler would be to repeat it.
bool may_subscribe(int signal) noexcept {
  switch (signal) {
    case SIGKILL:
    case SIGSTOP:
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
    case SIGABRT:
      return false;
    default:
      return signal >= 1 && signal <= most_signals;
  }
}

bool is_ours(int signal) noexcept {
  struct sigaction now{};
  return ::sigaction(signal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 &&
         now.sa_handler == &weft_on_signal;
}

// The registry's lock is held by the callers of these.

SysResult add_handler(int signal) noexcept {
  Handled& entry = handled[static_cast<std::size_t>(signal)];
  if (entry.subscribers == 0) {
    struct sigaction action{};
    action.sa_handler = &weft_on_signal;
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    ::sigfillset(&action.sa_mask);  // one at a time: then bytes are in the order of arrival
    if (::sigaction(signal, &action, &entry.previous) != 0) return -errno;
  }
  ++entry.subscribers;
  return 0;
}

void remove_handler(int signal) noexcept {
  Handled& entry = handled[static_cast<std::size_t>(signal)];
  if (--entry.subscribers > 0) return;
  // Somebody may have put theirs over ours; then it stays.
  if (is_ours(signal)) ::sigaction(signal, &entry.previous, nullptr);
}

void remove_handlers(std::uint64_t mask) noexcept {
  for (int signal = 1; signal <= most_signals; ++signal) {
    if ((mask & bit_of(signal)) != 0) remove_handler(signal);
  }
}

SysResult add_handlers(std::uint64_t mask) noexcept {
  std::uint64_t added = 0;
  for (int signal = 1; signal <= most_signals; ++signal) {
    if ((mask & bit_of(signal)) == 0) continue;
    if (const SysResult result = add_handler(signal); result < 0) {
      remove_handlers(added);
      return result;
    }
    added |= bit_of(signal);
  }
  return 0;
}

Subscription* free_slot() noexcept {
  for (std::size_t i = 0; i < subscriptions.size(); ++i) {
    if (subscriptions[i].reader.load() >= 0) continue;
    if (i >= subscriptions_used.load()) subscriptions_used.store(i + 1);
    return &subscriptions[i];
  }
  return nullptr;
}

/// No handler uses the slot any more.
void end(Subscription& slot) noexcept {
  slot.mask.store(0);
  while (slot.users.load() != 0) ::sched_yield();
  ::close(slot.writer);
  slot.reader.store(-1);
}

}  // namespace

SysResult Machine::open_signals(std::span<const int> signals) {
  std::uint64_t mask = 0;
  for (const int signal : signals) {
    if (!may_subscribe(signal)) return -EINVAL;
    mask |= bit_of(signal);
  }
  if (mask == 0) return -EINVAL;
  const std::lock_guard guard(registry);
  Subscription* slot = free_slot();
  if (slot == nullptr) return -EMFILE;
  int fds[2];
  if (const SysResult result = pipe(fds); result < 0) return result;
  slot->writer = fds[1];
  slot->owner = ::getpid();
  slot->reader.store(fds[0]);
  slot->mask.store(mask);
  if (const SysResult result = add_handlers(mask); result < 0) {
    end(*slot);
    ::close(fds[0]);
    return result;
  }
  return fds[0];
}

void end_signals(int fd) noexcept {
  // Without the lock, since every close comes by here. Who closes a subscription has opened it, and
  // so sees its slot.
  const std::size_t used = fd < 0 ? 0 : subscriptions_used.load();
  for (std::size_t i = 0; i < used; ++i) {
    Subscription& slot = subscriptions[i];
    if (slot.reader.load() != fd) continue;
    const int saved = errno;
    const std::lock_guard guard(registry);
    remove_handlers(slot.mask.load());
    end(slot);
    errno = saved;
    return;
  }
}

}  // namespace weft::io

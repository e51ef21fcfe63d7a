#include <weft/stack/overflow.hpp>

#include <weft/base/check.hpp>

#include "stack/memory.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string_view>
#include <system_error>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace weft::stack {
namespace {

constexpr std::array signals = {SIGSEGV, SIGBUS};

std::atomic<FindRunning> find_running{nullptr};
// Who was there before, by index in `signals`; written once, before the handler can run.
std::array<struct sigaction, signals.size()> previous;

/// Text built without allocation or locale.
class Line {
 public:
  void add(std::string_view text) noexcept {
    const std::size_t length = std::min(text.size(), text_.size() - used_);
    std::copy_n(text.data(), length, text_.data() + used_);
    used_ += length;
  }
  void add(std::uint64_t number) noexcept {
    std::array<char, 20> digits;
    std::size_t at = digits.size();
    do {
      digits[--at] = static_cast<char>('0' + number % 10);
      number /= 10;
    } while (number != 0);
    add({digits.data() + at, digits.size() - at});
  }
  void write_to(int fd) const noexcept {
    std::size_t done = 0;
    while (done < used_) {
      const ssize_t count = write(fd, text_.data() + done, used_ - done);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return;
      done += static_cast<std::size_t>(count);
    }
  }

 private:
  std::array<char, 384> text_;
  std::size_t used_ = 0;
};

std::uintptr_t stack_pointer(const void* context) noexcept {
  const auto& machine = static_cast<const ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(machine.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return machine.sp;
#else
  static_cast<void>(machine);
  return UINTPTR_MAX;
#endif
}

bool is_overflow(const Stack& stack, const void* address, const void* context) noexcept {
  if (stack.empty()) return false;
  if (stack.guards(address)) return true;
  // A call writes just below the stack pointer, a leaf function up to 128 bytes below.
  constexpr std::uintptr_t red_zone = 128;
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  const auto bottom = reinterpret_cast<std::uintptr_t>(stack.bottom());
  const std::uintptr_t sp = stack_pointer(context);
  return sp < bottom && at < bottom && at + red_zone >= sp;
}

void report(const Running& running) noexcept {
  Line line;
  line.add("weft: stack overflow in task '");
  const char* end = std::find(std::begin(running.name), std::end(running.name), '\0');
  line.add({running.name, static_cast<std::size_t>(end - running.name)});
  line.add("' (tid ");
  line.add(running.tid);
  line.add("), stack size ");
  line.add(running.stack.size());
  line.add("\n  raise it with SpawnOptions::stack_size or WEFT_STACK_SIZE\n");
  line.write_to(STDERR_FILENO);
}

void restore_default(int signal) noexcept {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

void chain(int signal, siginfo_t* info, void* context) noexcept {
  const struct sigaction& old = previous[signal == SIGSEGV ? 0 : 1];
  if ((old.sa_flags & SA_SIGINFO) != 0) return old.sa_sigaction(signal, info, context);
  // Sent by a process, and not by an access that would be repeated: si_code says so.
  const bool sent = info->si_code <= 0;
  if (old.sa_handler == SIG_IGN && sent) return;
  if (old.sa_handler != SIG_IGN && old.sa_handler != SIG_DFL) return old.sa_handler(signal);
  // Ignoring a real fault would repeat it for ever, so the kernel does not either.
  restore_default(signal);
  if (sent) raise(signal);  // delivered when we return
}

void on_fault(int signal, siginfo_t* info, void* context) noexcept {
  const int saved_errno = errno;
  // acquire: partner is the release store in install_overflow_handler.
  const FindRunning find = find_running.load(std::memory_order_acquire);
  Running running;
  if (info->si_code > 0 && find != nullptr && find(running) &&
      is_overflow(running.stack, info->si_addr, context)) {
    report(running);
    restore_default(signal);
  } else {
    chain(signal, info, context);
  }
  errno = saved_errno;
}

void install_for(std::size_t index) {
  const int signal = signals[index];
  struct sigaction action = {};
  // Known before ours can run: a fault in between would find nobody to chain to.
  WEFT_CHECK(sigaction(signal, nullptr, &previous[index]) == 0, "cannot read action of ", signal);
  action.sa_sigaction = on_fault;
  // The previous handler, when chained to, shall find blocked what it asked for.
  action.sa_mask = previous[index].sa_mask;
  action.sa_flags =
      SA_SIGINFO | SA_ONSTACK | (previous[index].sa_flags & (SA_NODEFER | SA_RESTART));
  WEFT_CHECK(sigaction(signal, &action, nullptr) == 0, "cannot set action of ", signal);
}

}  // namespace

void install_overflow_handler(FindRunning find) {
  // release: partner is the acquire load in on_fault.
  find_running.store(find, std::memory_order_release);
  static std::once_flag once;
  std::call_once(once, [] {
    for (std::size_t i = 0; i < signals.size(); ++i) install_for(i);
  });
}

AltStack::AltStack() {
  stack_t current = {};
  sigaltstack(nullptr, &current);
  if ((current.ss_flags & SS_DISABLE) == 0) return;
  // Sanitizers symbolise in the handler that we chain to, and wide vector registers enlarge the
  // frame.
  const long wanted = sysconf(_SC_SIGSTKSZ);
  const std::size_t least = std::size_t{64} << 10;
  const std::size_t size = std::max(least, wanted > 0 ? 4 * static_cast<std::size_t>(wanted) : 0);
  const std::size_t page = page_size();
  const std::size_t bytes = page + (size + page - 1) / page * page;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::system_error(errno, std::generic_category(),
                            "weft: cannot map an alternate signal stack");
  }
  memory_ = static_cast<std::byte*>(memory);
  bytes_ = bytes;
  // Best effort: this stack is used once, just before the end.
  static_cast<void>(mprotect(memory_, page, PROT_NONE));
  stack_t mine = {};
  mine.ss_sp = memory_ + page;
  mine.ss_size = bytes - page;
  WEFT_CHECK(sigaltstack(&mine, nullptr) == 0, "sigaltstack failed with errno ", errno);
}

AltStack::~AltStack() {
  if (memory_ == nullptr) return;
  stack_t current = {};
  sigaltstack(nullptr, &current);
  // Somebody may have put theirs in place of ours; then it is not ours to remove.
  if (current.ss_sp == memory_ + page_size()) {
    stack_t off = {};
    off.ss_flags = SS_DISABLE;
    sigaltstack(&off, nullptr);
  }
  munmap(memory_, bytes_);
}

}  // namespace weft::stack

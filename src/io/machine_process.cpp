// Children. posix_spawn does the delicate part (between fork and exec, in a process with threads);
// a pidfd then names the child: it can be waited for and signalled without any risk of meeting
// another process that was given the same number, and waiting for it never reaps anybody else's
// child.
#include <weft/base/unique_fd.hpp>

#include "io/machine.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <new>
#include <string_view>

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::io {

namespace {

/// posix_spawn and its kin give an error number, and only ever fail to allocate.
void expect_memory(int error) {
  if (error != 0) throw std::bad_alloc();
}

/// What the child does to its descriptors, in this order.
class FileActions {
 public:
  FileActions() { expect_memory(::posix_spawn_file_actions_init(&actions_)); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
  ~FileActions() { ::posix_spawn_file_actions_destroy(&actions_); }

  void move(int from, int to) {
    expect_memory(::posix_spawn_file_actions_adddup2(&actions_, from, to));
  }
  void open_null(int to) {
    expect_memory(::posix_spawn_file_actions_addopen(&actions_, to, "/dev/null",
                                                     to == 0 ? O_RDONLY : O_WRONLY, 0));
  }
  void change_directory(const std::string& to) {
    expect_memory(::posix_spawn_file_actions_addchdir_np(&actions_, to.c_str()));
  }
  void close_from(int first) {
    expect_memory(::posix_spawn_file_actions_addclosefrom_np(&actions_, first));
  }
  [[nodiscard]] const posix_spawn_file_actions_t* get() const noexcept { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

/// No signal is blocked or ignored in the child, whatever we do: a program that inherits an ignored
/// SIGPIPE, say, does not stop when its reader does.
class Attributes {
 public:
  explicit Attributes(bool new_group) {
    expect_memory(::posix_spawnattr_init(&attributes_));
    sigset_t signals;
    ::sigemptyset(&signals);
    ::posix_spawnattr_setsigmask(&attributes_, &signals);
    ::sigfillset(&signals);
    ::posix_spawnattr_setsigdefault(&attributes_, &signals);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    const int group = new_group ? POSIX_SPAWN_SETPGROUP : 0;
    ::posix_spawnattr_setflags(
        &attributes_, static_cast<short>(POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | group));
  }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  [[nodiscard]] const posix_spawnattr_t* get() const noexcept { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

std::string_view key_of(std::string_view entry) noexcept {
  return entry.substr(0, entry.find('='));
}

std::vector<std::string> environment_of(const ChildSpec& spec) {
  std::vector<std::string> all;
  if (spec.inherit_environment) {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      all.emplace_back(*entry);
    }
  }
  for (const std::string& entry : spec.environment) {
    std::erase_if(all, [&](const std::string& old) { return key_of(old) == key_of(entry); });
    if (entry.find('=') != std::string::npos) all.push_back(entry);
  }
  return all;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  // posix_spawn does not write to them; its type is older than const.
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Fills in how the child gets its first three descriptors. Each of ours lies above them when the
/// child begins to move them, so that none is overwritten before its turn; `kept` are the copies
/// this may need.
SysResult arrange(const ChildSpec& spec, std::array<UniqueFd, 3>& kept, FileActions& actions) {
  for (int i = 0; i < 3; ++i) {
    int from = spec.fds[i];
    if (from == ChildSpec::null) actions.open_null(i);
    if (from == ChildSpec::same_as_output) actions.move(1, i);
    if (from < 0) continue;
    if (from < 3) {
      const SysResult copy = uninterrupted([&] { return ::fcntl(from, F_DUPFD_CLOEXEC, 3); });
      if (copy < 0) return copy;
      from = static_cast<int>(copy);
      kept[static_cast<std::size_t>(i)] = UniqueFd(from);
    }
    const SysResult flags = uninterrupted([&] { return ::fcntl(from, F_GETFL); });
    if (flags < 0) return flags;
    const int blocking = static_cast<int>(flags) & ~O_NONBLOCK;
    if (blocking != flags) uninterrupted([&] { return ::fcntl(from, F_SETFL, blocking); });
    actions.move(from, i);
  }
  return 0;
}

/// As waitpid() would say it.
int status_of(const siginfo_t& info) noexcept {
  if (info.si_code == CLD_EXITED) return (info.si_status & 0xff) << 8;
  constexpr int core_bit = 0x80;
  return info.si_status | (info.si_code == CLD_DUMPED ? core_bit : 0);
}

}  // namespace

SysResult Machine::spawn(const ChildSpec& spec, int& handle) {
  if (spec.arguments.empty()) return -EINVAL;
  FileActions actions;
  std::array<UniqueFd, 3> kept;
  if (const SysResult result = arrange(spec, kept, actions); result < 0) return result;
  // Ours are close-on-exec in any case; a library's may not be.
  actions.close_from(3);
  if (!spec.directory.empty()) actions.change_directory(spec.directory);
  const Attributes attributes(spec.new_group);
  const std::vector<char*> arguments = pointers_to(spec.arguments);
  const std::vector<std::string> environment = environment_of(spec);
  const std::vector<char*> variables = pointers_to(environment);

  const int saved = errno;
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, arguments[0], actions.get(), attributes.get(),
                                   arguments.data(), variables.data());
  errno = saved;
  if (error != 0) return -error;

  // Nobody but us reaps it, so the number is its own.
  const SysResult opened = uninterrupted([&] { return ::syscall(SYS_pidfd_open, pid, 0); });
  if (opened < 0) {
    // ESRCH: a program that ignores SIGCHLD has no dead children, and this one was quick.
    if (opened != -ESRCH) ::kill(pid, SIGKILL);
    uninterrupted([&] { return ::waitpid(pid, nullptr, 0); });
    return opened;
  }
  handle = static_cast<int>(opened);
  return pid;
}

SysResult Machine::reap(int handle, int& status, Reap how) {
  siginfo_t info{};
  const int flags = WEXITED | (how == Reap::look ? WNOHANG : 0);
  const SysResult result =
      uninterrupted([&] { return ::waitid(P_PIDFD, static_cast<id_t>(handle), &info, flags); });
  if (result < 0) return result;
  if (info.si_pid == 0) return -EAGAIN;
  status = status_of(info);
  return 0;
}

SysResult Machine::signal(int handle, int signal_number) {
  return uninterrupted(
      [&] { return ::syscall(SYS_pidfd_send_signal, handle, signal_number, nullptr, 0); });
}

SysResult Machine::signal_group(int process_id, int signal_number) {
  return uninterrupted([&] { return ::kill(-process_id, signal_number); });
}

}  // namespace weft::io

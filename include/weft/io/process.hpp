/// Child processes.
///
///     Process p = Process::start(Command("sort").arg("-u").stdin_pipe().stdout_pipe());
///     p.in().write("b\na\n");
///     p.in().close();
///     std::size_t n = p.out().read(buffer);
///     ExitStatus status = p.wait();                     // co_await p.wait_op(), select(...)
///
///     Finished f = run(Command("git").arg("status").directory("src"));     // all at once
///     if (!f.status.ok()) fail(f.status.describe() + ": " + f.err);
///
/// A Process owns its child. One that is destroyed while the child runs kills it (SIGKILL, to the
/// whole group if it has its own); so cancelling a task that runs a child ends the child too. The
/// dead child is buried off the workers; no zombie stays. On a plain thread the destructor waits
/// for that. (A child that may not be killed, since it has become another user, is waited for.)
///
/// Only children that were started here are ever waited for: others' children are left alone. In
/// turn, nobody else may take ours: a program that ignores SIGCHLD, or waits for "any child",
/// makes wait() fail with ECHILD.
///
/// The child starts with no signal blocked or ignored, with the descriptors 0, 1 and 2 and no
/// other, and with our environment as changed by the Command. The program is looked for in our PATH
/// if its name has no '/'; a relative path counts from the child's directory.
///
/// Any task or plain thread may call any member; destroy and move alone.
///
/// Rejected: SIGCHLD and waitpid(-1), which steal the children of libraries.
#pragma once

#include <weft/io/fd.hpp>
#include <weft/io/job.hpp>
#include <weft/task/coro.hpp>
#include <weft/wait/perform.hpp>

#include <array>
#include <concepts>
#include <csignal>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace weft {

/// How a child ended: by itself with a code, or by a signal.
struct ExitStatus {
  int code = 0;    // if signal is 0
  int signal = 0;  // that ended it
  bool dumped_core = false;

  [[nodiscard]] bool ok() const noexcept { return code == 0 && signal == 0; }
  /// "exit code 3", "ended by SIGKILL (Killed)"
  [[nodiscard]] std::string describe() const;
  friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

struct Finished;

/// What to start, and how. A value: it can be copied and started again.
class Command {
 public:
  explicit Command(std::string program);

  // A zero byte in any of these, or a '=' in a key, throws std::invalid_argument.
  Command& arg(std::string value);
  template <std::convertible_to<std::string_view>... Values>
  Command& args(const Values&... values) {
    (arg(std::string(std::string_view(values))), ...);
    return *this;
  }
  Command& env(std::string_view key, std::string_view value);
  Command& unset_env(std::string_view key);
  /// Starts from an empty environment, instead of ours.
  Command& clear_env();
  Command& directory(std::string path);
  /// A process group of its own: signals go to its children too, and those of our terminal (^C) do
  /// not reach it.
  Command& new_group();

  // The child's streams. If nothing is said, it has ours.

  Command& stdin_inherit() { return stream(0, Stream::inherit); }
  Command& stdin_null() { return stream(0, Stream::null); }
  Command& stdin_pipe() { return stream(0, Stream::pipe); }
  /// It becomes the child's: closed here once that is started, even if that fails. (Being blocking
  /// or not is shared between us and the child, and the child wants it to be blocking.)
  Command& stdin_from(Fd fd) { return stream(0, std::move(fd)); }
  Command& stdout_inherit() { return stream(1, Stream::inherit); }
  Command& stdout_null() { return stream(1, Stream::null); }
  Command& stdout_pipe() { return stream(1, Stream::pipe); }
  Command& stdout_to(Fd fd) { return stream(1, std::move(fd)); }
  Command& stderr_inherit() { return stream(2, Stream::inherit); }
  Command& stderr_null() { return stream(2, Stream::null); }
  Command& stderr_pipe() { return stream(2, Stream::pipe); }
  Command& stderr_to(Fd fd) { return stream(2, std::move(fd)); }
  /// To the same place as its standard output.
  Command& stderr_to_stdout() { return stream(2, Stream::same_as_output); }

  /// The words, for messages.
  [[nodiscard]] std::string describe() const;

 private:
  friend class Process;
  friend Coro<Finished> co_run(Command command, std::string input, std::size_t most_output);

  enum class Stream : std::uint8_t { unsaid, inherit, null, pipe, given, same_as_output };
  Command& stream(std::size_t number, Stream what);
  Command& stream(std::size_t number, Fd fd);
  void unless_said(std::size_t number, Stream what);

  ChildSpec spec_;
  std::array<Stream, 3> streams_{};
  std::array<std::shared_ptr<Fd>, 3> given_;  // shared by the copies; the first to start has it
};

namespace detail {

class StartJob;

/// A child from start to burial. Shared by its Process and by those who wait for it.
class Child {
 public:
  Child(std::shared_ptr<World> world, int process_id, int handle, bool group, std::string name)
      : handle_(std::move(world), handle, Source::Kind::other),
        process_id_(process_id),
        group_(group),
        name_(std::move(name)) {}

  [[nodiscard]] int process_id() const noexcept { return process_id_; }
  [[nodiscard]] Source& source() const { return handle_.source(); }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// EAGAIN while it runs. Then 0, every time.
  [[nodiscard]] SysResult look() noexcept;
  /// After look() gave 0.
  [[nodiscard]] ExitStatus status() const noexcept;
  /// ESRCH if it is over.
  [[nodiscard]] SysResult signal(int number) noexcept;
  /// The owner goes. True: it has been killed, and somebody must call bury().
  [[nodiscard]] bool abandon() noexcept;
  /// Waits for the end of an abandoned child, which cannot be far.
  void bury() noexcept;

 private:
  [[nodiscard]] SysResult look_locked() noexcept;
  SysResult signal_locked(int number) noexcept;

  const Fd handle_;  // stays open to the end: who waits may be late
  const int process_id_;
  const bool group_;
  const std::string name_;

  // While it is held the child is not reaped by anybody else, so that its number is its own.
  Spinlock lock_;
  bool ended_ = false;
  bool abandoned_ = false;
  SysResult result_ = 0;  // of reaping it
  int status_ = 0;
};

}  // namespace detail

/// Waits for a child's end. Any number of times, from any number of tasks: all get the same.
class ExitOp : public SourceOp<ExitOp, Direction::read> {
 public:
  using Result = ExitStatus;
  static constexpr Reason reason{"process"};

  explicit ExitOp(std::shared_ptr<detail::Child> child)
      : SourceOp(child->source()), child_(std::move(child)) {}
  ExitStatus take() const;

  SysResult call(Source&) noexcept { return child_->look(); }
  bool absorb(SysResult, std::uint32_t) noexcept { return true; }

 private:
  std::shared_ptr<detail::Child> child_;
};

class Process {
 public:
  Process() = default;  // empty, like one moved from
  Process(Process&&) noexcept = default;
  Process& operator=(Process&& other) noexcept;
  ~Process() { end(); }

  /// Starting takes as long as it takes to find and load the program, so it is done off the
  /// workers. Throws std::system_error (ENOENT: no such program, or directory). Cancelled: if the
  /// child is there already, it is killed.
  [[nodiscard]] static auto start_op(Command command);
  [[nodiscard]] static Process start(Command command);

  [[nodiscard]] int pid() const { return child().process_id(); }
  /// Our ends of the child's pipes; empty where none was asked for.
  [[nodiscard]] Fd& in() noexcept { return streams_[0]; }
  [[nodiscard]] Fd& out() noexcept { return streams_[1]; }
  [[nodiscard]] Fd& err() noexcept { return streams_[2]; }

  [[nodiscard]] ExitOp wait_op() const;
  ExitStatus wait() const { return perform(wait_op()); }

  /// Sends a signal, to the whole group if the child has its own. False: the child has ended.
  /// Throws std::system_error.
  bool kill(int signal = SIGKILL) const;
  /// Asks it to end (SIGTERM), and makes it if it has not after `grace`.
  ExitStatus terminate(Duration grace) const { return await(co_terminate(grace)); }
  [[nodiscard]] Coro<ExitStatus> co_terminate(Duration grace) const;

 private:
  friend class detail::StartJob;
  static Process launch(const Command& command, const std::shared_ptr<World>& world);
  [[nodiscard]] detail::Child& child() const;
  void end() noexcept;

  std::array<Fd, 3> streams_;
  std::shared_ptr<detail::Child> child_;
};

namespace detail {

/// If nobody takes the process, it dies with the job.
class StartJob final : public Job {
 public:
  static constexpr Reason reason{"start"};
  StartJob(Command command, std::shared_ptr<World> world)
      : command_(std::move(command)), world_(std::move(world)) {}
  void run() noexcept override;
  Process take();

 private:
  const Command command_;
  const std::shared_ptr<World> world_;
  Process process_;
  std::exception_ptr error_;
};

}  // namespace detail

inline auto Process::start_op(Command command) {
  constexpr auto take = [](detail::StartJob& job) { return job.take(); };
  return JobOp(JobRef(new detail::StartJob(std::move(command), this_world())), take);
}
inline Process Process::start(Command command) {
  return perform(start_op(std::move(command)));
}

struct Finished {
  ExitStatus status;
  std::string out;
  std::string err;
};

/// Runs a command to its end: feeds it `input` (without any it has none, unless the Command says
/// otherwise), and collects what it writes until it closes its outputs. If one of them grows beyond
/// `most_output` bytes the child is killed, and std::length_error thrown. Takes one task, and works
/// on a plain thread.
[[nodiscard]] Coro<Finished> co_run(Command command, std::string input = {},
                                    std::size_t most_output = std::size_t{64} << 20);
inline Finished run(Command command, std::string input = {},
                    std::size_t most_output = std::size_t{64} << 20) {
  return await(co_run(std::move(command), std::move(input), most_output));
}

}  // namespace weft

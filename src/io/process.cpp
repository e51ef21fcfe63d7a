#include <weft/io/process.hpp>

#include <weft/io/kernel.hpp>
#include <weft/io/signals.hpp>
#include <weft/task/io.hpp>
#include <weft/time/sleep.hpp>

#include <cstring>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include <sys/wait.h>

namespace weft {

namespace {

void check_text(std::string_view text, const char* what) {
  if (text.find('\0') == std::string_view::npos) return;
  throw std::invalid_argument(std::string(what) + " of a command has a zero byte in it: '" +
                              std::string(text) + "'");
}

void check_key(std::string_view key) {
  check_text(key, "a variable");
  if (!key.empty() && key.find('=') == std::string_view::npos) return;
  throw std::invalid_argument("'" + std::string(key) + "' cannot be the name of a variable");
}

}  // namespace

std::string ExitStatus::describe() const {
  if (signal == 0) return "exit code " + std::to_string(code);
  const char* text = ::sigdescr_np(signal);
  return "ended by " + signal_name(signal) +
         (text == nullptr ? "" : " (" + std::string(text) + ")") +
         (dumped_core ? ", core dumped" : "");
}

// --- Command ------------------------------------------------------------------------------------

Command::Command(std::string program) {
  arg(std::move(program));
}

Command& Command::arg(std::string value) {
  check_text(value, "an argument");
  spec_.arguments.push_back(std::move(value));
  return *this;
}

Command& Command::env(std::string_view key, std::string_view value) {
  check_key(key);
  check_text(value, "a variable");
  spec_.environment.push_back(std::string(key) + "=" + std::string(value));
  return *this;
}

Command& Command::unset_env(std::string_view key) {
  check_key(key);
  spec_.environment.emplace_back(key);
  return *this;
}

Command& Command::clear_env() {
  spec_.inherit_environment = false;
  spec_.environment.clear();
  return *this;
}

Command& Command::directory(std::string path) {
  check_text(path, "the directory");
  spec_.directory = std::move(path);
  return *this;
}

Command& Command::new_group() {
  spec_.new_group = true;
  return *this;
}

Command& Command::stream(std::size_t number, Stream what) {
  streams_[number] = what;
  given_[number] = nullptr;
  return *this;
}

Command& Command::stream(std::size_t number, Fd fd) {
  given_[number] = std::make_shared<Fd>(std::move(fd));
  streams_[number] = Stream::given;
  return *this;
}

void Command::unless_said(std::size_t number, Stream what) {
  if (streams_[number] == Stream::unsaid) streams_[number] = what;
}

std::string Command::describe() const {
  std::string text;
  for (const std::string& word : spec_.arguments) text += (text.empty() ? "" : " ") + word;
  return text;
}

// --- the child ----------------------------------------------------------------------------------

namespace detail {

SysResult Child::look_locked() noexcept {
  if (ended_) return result_;
  if (abandoned_) return -EBADF;
  const SysResult result = source().world().reap(source().fd(), status_, World::Reap::look);
  if (result == -EAGAIN) return result;
  ended_ = true;
  result_ = result;
  return result;
}

SysResult Child::look() noexcept {
  const std::lock_guard guard(lock_);
  return look_locked();
}

ExitStatus Child::status() const noexcept {
  if (WIFSIGNALED(status_)) return {0, WTERMSIG(status_), WCOREDUMP(status_) != 0};
  return {WEXITSTATUS(status_), 0, false};
}

SysResult Child::signal_locked(int number) noexcept {
  World& world = source().world();
  return group_ ? world.signal_group(process_id_, number) : world.signal(source().fd(), number);
}

SysResult Child::signal(int number) noexcept {
  const std::lock_guard guard(lock_);
  return look_locked() == -EAGAIN ? signal_locked(number) : -ESRCH;
}

bool Child::abandon() noexcept {
  const std::lock_guard guard(lock_);
  if (look_locked() != -EAGAIN) return false;
  signal_locked(SIGKILL);
  abandoned_ = true;  // from here on only bury() reaps it
  return true;
}

void Child::bury() noexcept {
  int status = 0;
  source().world().reap(source().fd(), status, World::Reap::wait);
}

namespace {

/// A job that nobody waits for. Kernels need not run such jobs, only let go of them somewhere; so
/// that is when the work is done.
class Burial final : public Job {
 public:
  explicit Burial(std::shared_ptr<Child> child) noexcept : child_(std::move(child)) {}
  ~Burial() override { child_->bury(); }
  void run() noexcept override {}

 private:
  const std::shared_ptr<Child> child_;
};

void bury_on_the_side(const std::shared_ptr<Child>& child) noexcept {
  const Task* task = this_task();
  Burial* burial = task == nullptr ? nullptr : new (std::nothrow) Burial(child);
  if (burial == nullptr) return child->bury();
  try {
    task->io().kernel().start(*burial);
  } catch (...) {  // Overloaded, or there are no threads to be had: here, then
    burial->release();
  }
}

}  // namespace

void StartJob::run() noexcept {
  try {
    process_ = Process::launch(command_, world_);
  } catch (...) {
    error_ = std::current_exception();
  }
}

Process StartJob::take() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  return std::move(process_);
}

}  // namespace detail

ExitStatus ExitOp::take() const {
  if (result() == 0) return child_->status();
  std::string what =
      "waiting for '" + child_->name() + "' (process " + std::to_string(child_->process_id()) + ")";
  if (result() == -ECHILD) {
    what += "; somebody else has waited for it, or the program ignores SIGCHLD";
  } else if (result() == -EBADF) {
    what += "; its Process was destroyed";
  }
  throw_sys_error(result(), what);
}

// --- Process ------------------------------------------------------------------------------------

namespace {

/// Keeps a given descriptor open while the child is started; then it is closed.
class Handover {
 public:
  explicit Handover(Fd& fd) : fd_(fd) {
    if (!fd_.source().enter()) {
      throw_sys_error(-EBADF,
                      "giving a closed descriptor, or one that was given before, to a child");
    }
  }
  Handover(const Handover&) = delete;
  Handover& operator=(const Handover&) = delete;
  ~Handover() {
    fd_.close();
    fd_.source().leave();
  }

 private:
  Fd& fd_;
};

}  // namespace

Process Process::launch(const Command& command, const std::shared_ptr<World>& world) {
  Process process;
  ChildSpec spec = command.spec_;
  std::array<Fd, 3> theirs;
  std::array<std::optional<Handover>, 3> handovers;
  for (std::size_t i = 0; i < 3; ++i) {
    switch (command.streams_[i]) {
      case Command::Stream::unsaid:
      case Command::Stream::inherit:
        break;
      case Command::Stream::null:
        spec.fds[i] = ChildSpec::null;
        break;
      case Command::Stream::same_as_output:
        spec.fds[i] = ChildSpec::same_as_output;
        break;
      case Command::Stream::given:
        handovers[i].emplace(*command.given_[i]);
        spec.fds[i] = command.given_[i]->number();
        break;
      case Command::Stream::pipe: {
        int fds[2];
        check_sys(world->pipe(fds), "making a pipe to a child");
        const std::size_t our_end = i == 0 ? 1 : 0;
        theirs[i] = Fd(world, fds[1 - our_end], Source::Kind::pipe);
        process.streams_[i] = Fd(world, fds[our_end], Source::Kind::pipe);
        spec.fds[i] = theirs[i].number();
        break;
      }
    }
  }
  int handle = -1;
  const SysResult pid = world->spawn(spec, handle);
  if (pid < 0) {
    throw_sys_error(pid, "starting '" + command.describe() + "'" +
                             (spec.directory.empty() ? "" : " in '" + spec.directory + "'"));
  }
  process.child_ = std::make_shared<detail::Child>(world, static_cast<int>(pid), handle,
                                                   spec.new_group, spec.arguments[0]);
  return process;
}

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    end();
    streams_ = std::move(other.streams_);
    child_ = std::move(other.child_);
  }
  return *this;
}

void Process::end() noexcept {
  if (child_ == nullptr) return;
  const std::shared_ptr<detail::Child> child = std::move(child_);
  if (child->abandon()) detail::bury_on_the_side(child);
}

detail::Child& Process::child() const {
  if (child_ == nullptr) throw_sys_error(-ESRCH, "an empty Process");
  return *child_;
}

ExitOp Process::wait_op() const {
  static_cast<void>(child());
  return ExitOp(child_);
}

bool Process::kill(int signal) const {
  const SysResult result = child().signal(signal);
  if (result == -ESRCH) return false;
  if (result < 0) {
    throw_sys_error(result, "sending " + signal_name(signal) + " to '" + child().name() +
                                "' (process " + std::to_string(pid()) + ")");
  }
  return true;
}

Coro<ExitStatus> Process::co_terminate(Duration grace) const {
  kill(SIGTERM);
  if (const auto status = co_await timeout(wait_op(), grace)) co_return *status;
  kill(SIGKILL);
  co_return co_await wait_op();
}

// --- run ----------------------------------------------------------------------------------------

namespace {

/// An operation, or nothing: never ready.
template <LeafOp O>
class Maybe {
 public:
  using Result = typename O::Result;
  static constexpr Reason reason = O::reason;
  static constexpr bool outside = branch::outside<O>;

  Maybe() = default;
  explicit Maybe(O op) : op_(std::move(op)) {}
  ObjectId object() const noexcept { return op_ ? op_->object() : ObjectId::none; }
  bool try_now() { return op_ && op_->try_now(); }
  Armed arm(Arm& arm) { return op_ ? op_->arm(arm) : Armed::waiting; }
  void disarm(Arm& arm) noexcept {
    if (op_) op_->disarm(arm);
  }
  bool confirm() noexcept { return op_->confirm(); }
  Result take() { return op_->take(); }

 private:
  std::optional<O> op_;
};

/// Collects one of a child's outputs.
class Collector {
 public:
  Collector(Fd& from, std::string& into, std::size_t most)
      : from_(from), into_(into), most_(most) {}

  [[nodiscard]] Maybe<ReadOp<1>> more_op() {
    if (!from_) return {};
    into_.resize(size_ + chunk);
    return Maybe(from_.read_op(std::as_writable_bytes(std::span(into_).subspan(size_))));
  }
  void got(std::size_t count, const Command& command) {
    if (count == 0) {
      from_.close();
      into_.resize(size_);
      return;
    }
    size_ += count;
    if (size_ <= most_) return;
    throw std::length_error("'" + command.describe() + "' wrote more than " +
                            std::to_string(most_) + " bytes; raise most_output");
  }

 private:
  static constexpr std::size_t chunk = std::size_t{64} << 10;  // what a pipe holds
  Fd& from_;
  std::string& into_;
  const std::size_t most_;
  std::size_t size_ = 0;
};

/// Feeds a child.
class Feeder {
 public:
  Feeder(Fd& to, ConstBytes input) : to_(to), input_(input) { given(0); }

  [[nodiscard]] Maybe<WriteOp<1>> more_op() {
    if (!to_) return {};
    return Maybe(to_.write_some_op(input_));
  }
  void given(std::size_t count) {
    input_ = input_.subspan(count);
    if (input_.empty()) to_.close();
  }

 private:
  Fd& to_;
  ConstBytes input_;
};

}  // namespace

// One task for all three streams, so that it also works where tasks do not run side by side.
Coro<Finished> co_run(Command command, std::string input, std::size_t most_output) {
  command.unless_said(0, input.empty() ? Command::Stream::null : Command::Stream::pipe);
  command.unless_said(1, Command::Stream::pipe);
  command.unless_said(2, Command::Stream::pipe);
  Process process = co_await Process::start_op(command);
  Finished finished;
  Feeder in(process.in(), as_bytes(input));
  Collector out(process.out(), finished.out, most_output);
  Collector err(process.err(), finished.err, most_output);
  while (process.in() || process.out() || process.err()) {
    try {
      const auto done = co_await race(in.more_op(), out.more_op(), err.more_op());
      if (done.index() == 0) in.given(std::get<0>(done));
      if (done.index() == 1) out.got(std::get<1>(done), command);
      if (done.index() == 2) err.got(std::get<2>(done), command);
    } catch (const std::system_error& error) {
      if (error.code().value() != EPIPE) throw;
      process.in().close();  // it does not read all of its input, which is its own affair
    }
  }
  finished.status = co_await process.wait_op();
  co_return finished;
}

}  // namespace weft

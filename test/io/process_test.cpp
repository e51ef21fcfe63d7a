#include <weft/io/process.hpp>

#include <weft/base/unique_fd.hpp>
#include <weft/io/pipe.hpp>

#include "io/children.hpp"

#include <array>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace weft;
using namespace weft::test;

namespace {

REAL_AND_INLINE(Process, T16_ExitCodes) {
  for (const int code : {0, 1, 3, 255}) {
    Process process = co_await Process::start_op(shell("exit " + std::to_string(code)));
    EXPECT_TRUE(is_there(process.pid()));  // until it is waited for
    const ExitStatus status = co_await process.wait_op();
    EXPECT_EQ(status, (ExitStatus{.code = code}));
    EXPECT_EQ(status.ok(), code == 0);
    EXPECT_EQ(status.describe(), "exit code " + std::to_string(code));
    EXPECT_FALSE(is_there(process.pid()));
    EXPECT_EQ(co_await process.wait_op(), status);  // as often as one likes
    EXPECT_FALSE(process.kill());
  }
}

REAL_AND_INLINE(Process, T16_EndedBySignals) {
  for (const int signal : {SIGTERM, SIGKILL, SIGINT}) {
    Process process = co_await Process::start_op(Command("sleep").arg("1000"));
    EXPECT_FALSE((co_await timeout(process.wait_op(), 100us)).has_value());
    EXPECT_TRUE(process.kill(signal));
    const ExitStatus status = co_await process.wait_op();
    EXPECT_EQ(status.signal, signal);
    EXPECT_FALSE(status.ok());
    if (signal == SIGKILL) {
      EXPECT_EQ(status.describe(), "ended by SIGKILL (Killed)");
    }
  }
}

REAL(Process, T16_AllWaitersGetTheStatus) {
  Process process = co_await Process::start_op(shell("read x; exit 7").stdin_pipe());
  Scope scope;
  std::vector<JoinHandle<int>> waiters;
  for (int i = 0; i < 5; ++i) {
    waiters.push_back(
        here.spawn(scope, [&]() -> Coro<int> { co_return (co_await process.wait_op()).code; }));
  }
  co_await sleep_op(1ms);
  for (auto& waiter : waiters) EXPECT_FALSE(waiter.done());
  process.in().close();
  for (auto& waiter : waiters) EXPECT_EQ((co_await waiter.join_op()).value(), 7);
  co_await scope.joined();
}

REAL(Process, T16_AMegabyteThroughCat) {
  const std::string text = pattern(1 << 20);
  Process cat = co_await Process::start_op(Command("cat").stdin_pipe().stdout_pipe());
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    co_await cat.in().write_op(as_bytes(text));
    cat.in().close();
  });
  EXPECT_EQ(co_await read_all(cat.out()), text);
  EXPECT_TRUE((co_await cat.wait_op()).ok());
  co_await scope.joined();
}

REAL(Process, T16_OneFeedsAnother) {
  Pipe between = weft::pipe();
  Command first = shell("echo hello");
  Command second = Command("tr").args("a-z", "A-Z");
  first.stdout_to(std::move(between.write));
  second.stdin_from(std::move(between.read)).stdout_pipe();
  Process a = co_await Process::start_op(first);
  Process b = co_await Process::start_op(second);
  EXPECT_EQ(co_await read_all(b.out()), "HELLO\n");
  EXPECT_TRUE((co_await a.wait_op()).ok());
  EXPECT_TRUE((co_await b.wait_op()).ok());
  EXPECT_EQ(co_await error_of_starting(first), EBADF);  // what was given is gone
}

REAL(Process, T16_WhatCannotBeStarted) {
  EXPECT_EQ(co_await error_of_starting(Command("weft-no-such-program")), ENOENT);
  EXPECT_EQ(co_await error_of_starting(Command("./weft-no-such-program")), ENOENT);
  EXPECT_EQ(co_await error_of_starting(Command("true").directory("/no/such/place")), ENOENT);
  EXPECT_EQ(co_await error_of_starting(Command("true").directory("/etc/passwd")), ENOTDIR);
  EXPECT_EQ(co_await error_of_starting(Command("/etc/passwd")), EACCES);
  EXPECT_EQ(co_await error_of_starting(Command("weft-none").stdin_pipe().stdout_pipe()), ENOENT);
  try {
    Process none = co_await Process::start_op(Command("weft-none").arg("-x").directory("/tmp"));
  } catch (const std::system_error& error) {
    EXPECT_EQ(std::string_view(error.what()).find("starting 'weft-none -x' in '/tmp': No such"),
              0U);
  }
  EXPECT_FALSE(has_children());
}

TEST(Process, T16_WhatIsNoCommand) {
  using namespace std::string_literals;
  EXPECT_THROW(Command("a\0b"s), std::invalid_argument);
  EXPECT_THROW(Command("a").arg("\0"s), std::invalid_argument);
  EXPECT_THROW(Command("a").env("A=B", "C"), std::invalid_argument);
  EXPECT_THROW(Command("a").env("", "C"), std::invalid_argument);
  EXPECT_THROW(Command("a").unset_env("="), std::invalid_argument);
  EXPECT_THROW(Command("a").directory("\0"s), std::invalid_argument);
  const Process empty;
  EXPECT_THROW(static_cast<void>(empty.pid()), std::system_error);
  EXPECT_THROW(empty.kill(), std::system_error);
  EXPECT_THROW(empty.wait(), std::system_error);
}

REAL(Process, T16_EnvironmentAndDirectory) {
  ::setenv("WEFT_TEST_OURS", "inherited", 1);
  Command print = shell("echo $WEFT_TEST_OURS,$WEFT_TEST_NEW; pwd").directory("/usr");
  EXPECT_EQ((co_await co_run(print)).out, "inherited,\n/usr\n");
  print.env("WEFT_TEST_NEW", "a=b c").env("WEFT_TEST_OURS", "first").env("WEFT_TEST_OURS", "2nd");
  EXPECT_EQ((co_await co_run(print)).out, "2nd,a=b c\n/usr\n");
  print.unset_env("WEFT_TEST_OURS");
  EXPECT_EQ((co_await co_run(print)).out, ",a=b c\n/usr\n");
  Command bare = Command("env").clear_env().env("ONLY", "this");
  EXPECT_EQ((co_await co_run(bare)).out, "ONLY=this\n");
  ::unsetenv("WEFT_TEST_OURS");
}

REAL(Process, T16_StreamsInheritedNullAndPiped) {
  const Command tell =
      shell("in=$(readlink /proc/$$/fd/0); out=$(readlink /proc/$$/fd/1); echo $in $out >&2")
          .stderr_pipe();
  std::array<char, 256> ours{};
  EXPECT_GT(::readlink("/proc/self/fd/1", ours.data(), ours.size() - 1), 0);
  Process child = co_await Process::start_op(Command(tell).stdin_null().stdout_inherit());
  EXPECT_EQ(co_await read_all(child.err()), "/dev/null " + std::string(ours.data()) + "\n");
  EXPECT_FALSE(child.in());
  EXPECT_FALSE(child.out());
  child = co_await Process::start_op(Command(tell).stdin_pipe().stdout_null());
  const std::string text = co_await read_all(child.err());
  EXPECT_EQ(text.find("pipe:"), 0U);
  EXPECT_NE(text.find(" /dev/null\n"), std::string::npos);
  EXPECT_TRUE((co_await child.wait_op()).ok());
}

REAL(Process, T16_NoOtherDescriptorReachesTheChild) {
  const UniqueFd careless(::open("/dev/null", O_RDONLY));  // not close-on-exec
  Process other = co_await Process::start_op(Command("cat").stdin_pipe().stdout_pipe());
  // 3 is the directory being listed.
  EXPECT_EQ((co_await co_run(Command("ls").arg("/proc/self/fd"))).out, "0\n1\n2\n3\n");
}

REAL(Process, T16_ChildrenGetNoIgnoredOrBlockedSignals) {
  auto* const before = ::signal(SIGPIPE, SIG_IGN);
  Command grep = Command("grep").args("-E", "SigBlk|SigIgn", "/proc/self/status");
  std::string masks = (co_await co_run(grep)).out;
  // 32 and 33 are the C library's own, which it ignores in children.
  std::ranges::replace(masks, '1', '0');
  std::ranges::replace(masks, '8', '0');
  EXPECT_EQ(masks, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
  Process yes = co_await Process::start_op(Command("yes").stdout_pipe());
  std::array<std::byte, 10> buffer;
  EXPECT_EQ(co_await yes.out().read_op(buffer), 10U);
  yes.out().close();
  EXPECT_EQ((co_await yes.wait_op()).signal, SIGPIPE);
  ::signal(SIGPIPE, before);
}

REAL(Process, T16_WritingToAChildThatHasEndedIsAnError) {
  Process child = co_await Process::start_op(Command("true").stdin_pipe());
  EXPECT_TRUE((co_await child.wait_op()).ok());
  int error = 0;
  try {
    co_await child.in().write_op(as_bytes("too late"));
  } catch (const std::system_error& e) {
    error = e.code().value();
  }
  EXPECT_EQ(error, EPIPE);
}

REAL(Process, T16_Terminate) {
  Process obedient = co_await Process::start_op(Command("sleep").arg("1000"));
  EXPECT_EQ((co_await obedient.co_terminate(1h)).signal, SIGTERM);
  EXPECT_EQ((co_await obedient.co_terminate(1h)).signal, SIGTERM);
  Process stubborn =
      co_await Process::start_op(shell("trap '' TERM; echo; exec sleep 1000").stdout_pipe());
  std::array<std::byte, 1> ready;
  EXPECT_EQ(co_await stubborn.out().read_op(ready), 1U);
  EXPECT_EQ((co_await stubborn.co_terminate(2ms)).signal, SIGKILL);
}

REAL(Process, T16_AGroupDiesWhole) {
  const Command command = shell("sleep 1000 & echo $!; wait").new_group().stdout_pipe();
  std::array<std::byte, 16> buffer;
  {
    Process leader = co_await Process::start_op(command);
    const std::size_t n = co_await leader.out().read_op(buffer);
    const int grandchild = std::stoi(std::string(as_text(Bytes(buffer).first(n))));
    EXPECT_EQ(::getpgid(grandchild), leader.pid());
    EXPECT_TRUE(leader.kill(SIGTERM));
    EXPECT_EQ((co_await leader.wait_op()).signal, SIGTERM);
    while (is_running(grandchild)) co_await sleep_op(100us);
  }
  int grandchild = 0;
  {
    Process leader = co_await Process::start_op(command);
    const std::size_t n = co_await leader.out().read_op(buffer);
    grandchild = std::stoi(std::string(as_text(Bytes(buffer).first(n))));
    EXPECT_TRUE(is_running(grandchild));
  }
  while (is_running(grandchild)) co_await sleep_op(100us);
  co_await no_children_left();
}

REAL(Process, T16_OthersChildrenAreLeftAlone) {
  const pid_t foreign = ::fork();
  if (foreign == 0) ::_exit(42);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE((co_await co_run(Command("true"))).status.ok());
  {
    const Process killed = co_await Process::start_op(Command("sleep").arg("1000"));
  }
  siginfo_t info{};
  EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(foreign), &info, WEXITED | WNOWAIT), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(foreign, &status, 0), foreign);
  EXPECT_EQ(WEXITSTATUS(status), 42);
}

REAL(Process, T16_AStolenStatusIsAnError) {
  Process child = co_await Process::start_op(Command("true"));
  int status = 0;
  EXPECT_EQ(::waitpid(child.pid(), &status, 0), child.pid());
  int error = 0;
  try {
    co_await child.wait_op();
  } catch (const std::system_error& e) {
    error = e.code().value();
  }
  EXPECT_EQ(error, ECHILD);
}

TEST(Process, S1_OnAPlainThread) {
  const auto fds_before = open_descriptors();
  {
    Process cat = Process::start(Command("cat").stdin_pipe().stdout_pipe());
    cat.in().write("hello");
    cat.in().close();
    std::array<std::byte, 16> buffer;
    EXPECT_EQ(cat.out().read(buffer), 5U);
    EXPECT_TRUE(cat.wait().ok());
    EXPECT_EQ(run(Command("cat"), "x").out, "x");
    Process killed = Process::start(Command("sleep").arg("1000"));
    EXPECT_EQ(killed.terminate(1h).signal, SIGTERM);
  }
  int pid = 0;
  {
    const Process child = Process::start(Command("sleep").arg("1000"));
    pid = child.pid();
  }
  EXPECT_FALSE(is_there(pid));  // at once
  {
    Process child = Process::start(Command("sleep").arg("1000"));
    pid = child.pid();
    child = Process::start(Command("sleep").arg("1000"));
    EXPECT_FALSE(is_there(pid));
    Process moved = std::move(child);
    EXPECT_TRUE(is_there(moved.pid()));
  }
  EXPECT_FALSE(has_children());
  EXPECT_EQ(open_descriptors(), fds_before);
}

// Our descriptors may have the very numbers that they shall have in the child, crosswise.
TEST(Process, T16_DescriptorsInTheWayOfEachOther) {
  Pipe to_child = weft::pipe();
  Pipe from_child = weft::pipe();
  const UniqueFd saved0(::dup(0));
  const UniqueFd saved1(::dup(1));
  std::fflush(nullptr);
  ::dup2(from_child.write.number(), 0);
  ::dup2(to_child.read.number(), 1);
  ChildSpec spec;
  spec.arguments = {"cat"};
  spec.fds[0] = 1;
  spec.fds[1] = 0;
  int handle = -1;
  const SysResult pid = machine()->spawn(spec, handle);
  saved0 ? ::dup2(saved0.get(), 0) : ::close(0);
  saved1 ? ::dup2(saved1.get(), 1) : ::close(1);
  ASSERT_GT(pid, 0);
  to_child.read.close();
  from_child.write.close();
  to_child.write.write("crosswise");
  to_child.write.close();
  std::array<std::byte, 16> buffer;
  EXPECT_EQ(from_child.read.read(buffer), 9U);
  EXPECT_EQ(from_child.read.read(buffer), 0U);
  int status = -1;
  EXPECT_EQ(machine()->reap(handle, status, World::Reap::wait), 0);
  EXPECT_EQ(status, 0);
  machine()->close(handle);
}

TEST(Process, T16_OutOfDescriptors) {
  const auto fds_before = open_descriptors();
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  int refused = 0;
  Loop loop;
  loop.run([&] {
    const UniqueFd probe(::dup(2));
    const auto next = static_cast<rlim_t>(probe.get());
    // From many to none: the sanitizer of virtual calls opens a pipe when it first meets a type,
    // and takes it for damaged if it cannot.
    for (rlim_t spare = 12; spare-- > 0;) {
      const rlimit tight{next + spare, before.rlim_max};
      ::setrlimit(RLIMIT_NOFILE, &tight);
      try {
        const Process child =
            Process::start(Command("sleep").arg("1000").stdin_pipe().stdout_pipe().stderr_pipe());
      } catch (const std::system_error& error) {
        EXPECT_EQ(error.code().value(), EMFILE);
        ++refused;
      }
      ::setrlimit(RLIMIT_NOFILE, &before);
      await(no_children_left());
    }
  });
  EXPECT_GE(refused, 6);
  EXPECT_LT(refused, 12);
  EXPECT_LE(open_descriptors(), fds_before + 3);  // the loop's
}

}  // namespace

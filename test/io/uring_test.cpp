// What is special about the kernel on io_uring: file calls that need no thread, and what becomes of
// them when their waiter, their thread or the kernel itself goes.
#include <weft/base/unique_fd.hpp>
#include <weft/io/fd.hpp>
#include <weft/io/slow_call.hpp>

#include "io/real_kernel.hpp"
#include "support/real.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace weft;
using namespace weft::test;

namespace {

using Code = SlowCall::Code;

/// A directory of its own for each test.
class Scratch {
 public:
  Scratch() {
    std::string name = std::filesystem::temp_directory_path() / "weft-uring.XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string operator/(const char* name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

JobRef<SlowCall> new_call(Code code) {
  return JobRef<SlowCall>(new SlowCall(code, machine()));
}
JobRef<SlowCall> call_on(Code code, std::string path) {
  auto call = new_call(code);
  call->path = std::move(path);
  return call;
}
JobRef<SlowCall> call_on(Code code, int fd) {
  auto call = new_call(code);
  call->fd = fd;
  return call;
}

/// Waits for the call, and keeps all of it: `job` stays with the caller.
auto wait_for(const JobRef<SlowCall>& call) {
  call->retain();
  return JobOp(JobRef<SlowCall>(&*call), [](SlowCall& done) { return done.result; });
}

JobRef<SlowCall> write_call(int fd, std::string_view text, std::int64_t offset) {
  auto call = call_on(Code::write, fd);
  const auto bytes = as_bytes(text);
  call->buffer.assign(bytes.begin(), bytes.end());
  call->offset = offset;
  return call;
}
JobRef<SlowCall> read_call(int fd, std::size_t size, std::int64_t offset) {
  auto call = call_on(Code::read, fd);
  call->buffer.resize(size);
  call->offset = offset;
  return call;
}

std::unique_ptr<Loop> uring_loop(KernelOptions options = {}) {
  options.backend = Backend::uring;
  return std::make_unique<Loop>(LoopOptions{.kernel = make_real_kernel(options)});
}

#define NEEDS_URING() \
  if (!why_no_uring().empty()) GTEST_SKIP() << "no io_uring: " << why_no_uring()

/// What is in the machine's memory is read without a thread, a ring or a wait for either.
REAL(FileCalls, T17_WhatIsInMemoryIsReadAtOnce) {
  const Scratch scratch;
  const std::string text = "what was just written is still there";
  {
    std::ofstream file(scratch / "file");
    file << text;
  }
  const UniqueFd fd(::open((scratch / "file").c_str(), O_RDONLY | O_CLOEXEC));
  char first = 0;
  const iovec one{&first, 1};
  if (::preadv2(fd.get(), &one, 1, 0, RWF_NOWAIT) != 1) {
    std::printf("note: this file system cannot say what is in memory\n");
    co_return;
  }
  const std::size_t threads = io::other_threads();
  auto whole = read_call(fd.get(), 100, 0);  // stops at the end
  EXPECT_EQ(co_await wait_for(whole), static_cast<SysResult>(text.size()));
  EXPECT_EQ(as_text(whole->buffer), text);
  auto part = read_call(fd.get(), 4, 5);
  EXPECT_EQ(co_await wait_for(part), 4);
  EXPECT_EQ(as_text(part->buffer), text.substr(5, 4));
  EXPECT_EQ(co_await wait_for(read_call(fd.get(), 10, 1000)), 0);
  EXPECT_EQ(co_await wait_for(read_call(fd.get(), 0, 0)), 0);
  EXPECT_EQ(io::other_threads(), threads) << "a thread was started for it";
}

/// And what is not, is read all the same, in one piece.
REAL(FileCalls, T17_WhatIsNotInMemoryIsReadToo) {
  const Scratch scratch;
  const std::string text(300'000, 'x');
  {
    std::ofstream file(scratch / "file");
    file << text;
  }
  const UniqueFd fd(::open((scratch / "file").c_str(), O_RDONLY | O_CLOEXEC));
  for (const std::size_t size : {std::size_t{100'000}, text.size()}) {
    ::fsync(fd.get());
    ::posix_fadvise(fd.get(), 8192, 0, POSIX_FADV_DONTNEED);  // all but the beginning
    auto read = read_call(fd.get(), size, 0);
    EXPECT_EQ(co_await wait_for(read), static_cast<SysResult>(size));
    EXPECT_EQ(as_text(read->buffer), text.substr(0, size));
  }
}

REAL(FileCalls, T17_OpenWriteReadTruncateSync) {
  const Scratch scratch;
  auto open = call_on(Code::open, scratch / "file");
  open->flags = O_RDWR | O_CREAT | O_EXCL;
  open->mode = 0640;
  const SysResult opened = co_await wait_for(open);
  open->taken = true;
  EXPECT_GE(opened, 0);
  const UniqueFd fd(static_cast<int>(opened));
  EXPECT_NE(::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);

  EXPECT_EQ(co_await wait_for(write_call(fd.get(), "hello, world", 0)), 12);
  EXPECT_EQ(co_await wait_for(write_call(fd.get(), "W", 7)), 1);
  auto read = read_call(fd.get(), 100, 7);
  EXPECT_EQ(co_await wait_for(read), 5);
  EXPECT_EQ(as_text(read->buffer), "World");
  auto end = read_call(fd.get(), 100, 100);
  EXPECT_EQ(co_await wait_for(end), 0);
  EXPECT_TRUE(end->buffer.empty());
  // At the file's own position.
  auto first = read_call(fd.get(), 5, -1);
  EXPECT_EQ(co_await wait_for(first), 5);
  EXPECT_EQ(as_text(first->buffer), "hello");
  EXPECT_EQ(co_await wait_for(write_call(fd.get(), "!", -1)), 1);

  auto sync = call_on(Code::sync, fd.get());
  EXPECT_EQ(co_await wait_for(sync), 0);
  auto data_sync = call_on(Code::sync, fd.get());
  data_sync->flags = 1;
  EXPECT_EQ(co_await wait_for(data_sync), 0);
  auto truncate = call_on(Code::truncate, fd.get());
  truncate->offset = 6;
  EXPECT_EQ(co_await wait_for(truncate), 0);
  auto all = read_call(fd.get(), 100, 0);
  EXPECT_EQ(co_await wait_for(all), 6);
  EXPECT_EQ(as_text(all->buffer), "hello!");
}

REAL(FileCalls, T17_NamesAndDirectories) {
  const Scratch scratch;
  auto make = call_on(Code::make_dir, scratch / "dir");
  make->mode = 0750;
  EXPECT_EQ(co_await wait_for(make), 0);
  EXPECT_EQ(co_await wait_for(call_on(Code::make_dir, scratch / "dir")), -EEXIST);

  auto stat = call_on(Code::stat, scratch / "dir");
  EXPECT_EQ(co_await wait_for(stat), 0);
  EXPECT_EQ(stat->status.kind, FileStatus::Kind::directory);
  EXPECT_EQ(stat->status.mode, 0750U);
  EXPECT_EQ(co_await wait_for(call_on(Code::stat, scratch / "nothing")), -ENOENT);

  const UniqueFd fd(::open((scratch / "one").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  EXPECT_EQ(::write(fd.get(), "12345", 5), 5);
  auto by_number = call_on(Code::stat, fd.get());
  EXPECT_EQ(co_await wait_for(by_number), 0);
  EXPECT_EQ(by_number->status.kind, FileStatus::Kind::file);
  EXPECT_EQ(by_number->status.size, 5U);
  struct stat known{};
  EXPECT_EQ(::fstat(fd.get(), &known), 0);
  EXPECT_EQ(by_number->status.inode, known.st_ino);

  EXPECT_EQ(::symlink((scratch / "one").c_str(), (scratch / "link").c_str()), 0);
  auto link = call_on(Code::stat, scratch / "link");
  link->flags = 1;
  EXPECT_EQ(co_await wait_for(link), 0);
  EXPECT_EQ(link->status.kind, FileStatus::Kind::link);

  auto rename = call_on(Code::rename, scratch / "one");
  rename->path2 = scratch / "dir/two";
  EXPECT_EQ(co_await wait_for(rename), 0);
  EXPECT_EQ(co_await wait_for(call_on(Code::remove_dir, scratch / "dir")), -ENOTEMPTY);
  auto list = call_on(Code::list_dir, scratch / "dir");
  EXPECT_EQ(co_await wait_for(list), 0);
  EXPECT_EQ(list->entries.size(), 1U);
  EXPECT_EQ(co_await wait_for(call_on(Code::unlink, scratch / "dir")), -EISDIR);
  EXPECT_EQ(co_await wait_for(call_on(Code::unlink, scratch / "dir/two")), 0);
  EXPECT_EQ(co_await wait_for(call_on(Code::unlink, scratch / "link")), 0);
  EXPECT_EQ(co_await wait_for(call_on(Code::remove_dir, scratch / "dir")), 0);
}

REAL(FileCalls, T17_ErrorsAreThoseOfTheCalls) {
  EXPECT_EQ(co_await wait_for(call_on(Code::open, "/no/such/file")), -ENOENT);
  EXPECT_EQ(co_await wait_for(read_call(-1, 10, 0)), -EBADF);
  EXPECT_EQ(co_await wait_for(write_call(-1, "x", 0)), -EBADF);
  EXPECT_EQ(co_await wait_for(call_on(Code::sync, -1)), -EBADF);
  const UniqueFd dir(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(co_await wait_for(read_call(dir.get(), 10, 0)), -EISDIR);
}

REAL(FileCalls, S8_LargeTransfers) {
  const Scratch scratch;
  const UniqueFd fd(::open((scratch / "big").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  std::string text(3 << 20, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  EXPECT_EQ(co_await wait_for(write_call(fd.get(), text, 0)), static_cast<long>(text.size()));
  auto read = read_call(fd.get(), text.size() + 10, 0);
  EXPECT_EQ(co_await wait_for(read), static_cast<long>(text.size()));
  EXPECT_EQ(as_text(read->buffer), text);
}

REAL(FileCalls, S8_ManyAtOnce) {
  const Scratch scratch;
  const UniqueFd fd(::open((scratch / "many").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  Scope scope;
  std::vector<JoinHandle<SysResult>> all;
  constexpr int count = 700;  // more than the submission queue holds
  for (int i = 0; i < count; ++i) {
    all.push_back(here.spawn(scope, [&fd, i]() -> Coro<SysResult> {
      co_return co_await wait_for(write_call(fd.get(), "0123456789", i * 10L));
    }));
  }
  for (auto& one : all) EXPECT_EQ((co_await one.join_op()).value(), 10);
  auto stat = call_on(Code::stat, fd.get());
  EXPECT_EQ(co_await wait_for(stat), 0);
  EXPECT_EQ(stat->status.size, count * 10U);
}

REAL(FileCalls, F9_CancelledCallsLeakNothing) {
  const Scratch scratch;
  const std::string path = scratch / "file";
  const UniqueFd fd(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  for (int round = 0; round < 50; ++round) {
    Scope scope;
    here.spawn(scope, [&]() -> Coro<> { co_await wait_for(call_on(Code::open, path)); });
    here.spawn(scope, [&]() -> Coro<> { co_await wait_for(read_call(fd.get(), 100'000, 0)); });
    here.spawn(scope, [&]() -> Coro<> { co_await wait_for(call_on(Code::stat, path)); });
    here.spawn(scope, [&]() -> Coro<> { co_await wait_for(call_on(Code::sync, fd.get())); });
    if (round % 3 != 0) co_await sleep_op(1ns);
    if (round % 3 == 2) co_await sleep_op(20us);
    scope.cancel();
    co_await scope.joined();
  }
  // The calls use `fd` until they are done.
  while (here.io().kernel().expects()) co_await sleep_op(100us);
}

REAL(FileCalls, S1_WriteToABrokenPipeRaisesNoSignal) {
  int fds[2];
  check_sys(machine()->pipe(fds), "pipe");
  const UniqueFd to(fds[1]);
  ::close(fds[0]);
  EXPECT_EQ(co_await wait_for(write_call(to.get(), "x", -1)), -EPIPE);
}

/// What probing finds in a process where io_uring_setup() fails with `error`, as a container's
/// filter makes it.
std::string probe_where_setup_fails(unsigned error) {
  int fds[2];
  check_sys(machine()->pipe(fds), "pipe");
  const UniqueFd from(fds[0]);
  UniqueFd to(fds[1]);
  const pid_t child = ::fork();
  if (child == 0) {
    std::array<sock_filter, 4> program{
        sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog filter{program.size(), program.data()};
    std::string found = "no filters here";
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0) {
      found = io::probe_uring();
    }
    const auto n = ::write(to.get(), found.data(), found.size());
    ::_exit(n < 0 ? 1 : 0);
  }
  to.reset();
  int status = 0;
  ::waitpid(child, &status, 0);
  std::array<char, 500> text{};
  const auto n = ::read(from.get(), text.data(), text.size());
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0))};
}

TEST(Uring, S3_ProbingSaysWhyNot) {
  NEEDS_URING();
  const std::string denied = probe_where_setup_fails(EPERM);
  if (denied == "no filters here") GTEST_SKIP() << denied;
  EXPECT_EQ(denied, "io_uring is not permitted here (a seccomp filter, as containers have?)");
  EXPECT_EQ(probe_where_setup_fails(ENOSYS), "this machine's kernel has no io_uring");
  EXPECT_NE(probe_where_setup_fails(ENOMEM).find("RLIMIT_MEMLOCK"), std::string::npos);
  EXPECT_NE(probe_where_setup_fails(EMFILE).find("ulimit -n"), std::string::npos);
  EXPECT_EQ(io::probe_uring(), "");
}

TEST(Uring, T17_FileCallsNeedNoThreadsOfOurs) {
  NEEDS_URING();
  const Scratch scratch;
  auto loop = uring_loop({.most_threads = 1, .most_queued = 100});
  loop->run([&] {
    const UniqueFd fd(::open((scratch / "file").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
    EXPECT_EQ(perform(wait_for(write_call(fd.get(), "hello", 0))), 5);
    EXPECT_EQ(perform(wait_for(call_on(Code::sync, fd.get()))), 0);
    EXPECT_EQ(perform(wait_for(call_on(Code::stat, scratch / "file"))), 0);
    std::size_t ours = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::string name;
      std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
      if (!name.starts_with("iou-")) ++ours;
    }
    EXPECT_LE(ours, 2U);  // this one, and a sanitizer's
  });
}

TEST(Uring, C24_TooManyCallsAreRefused) {
  NEEDS_URING();
  auto loop = uring_loop({.most_threads = 1, .most_queued = 9});
  loop->run([] {
    int fds[2];
    check_sys(machine()->pipe(fds), "pipe");
    const UniqueFd from(fds[0]);
    const UniqueFd to(fds[1]);
    // A pipe is not what file calls are for; but nothing comes of reading this one.
    ::fcntl(from.get(), F_SETFL, 0);
    Scope scope;
    int refused = 0;
    std::vector<JoinHandle<SysResult>> readers;
    for (int i = 0; i < 12; ++i) {
      readers.push_back(scope.spawn([&]() -> SysResult {
        try {
          return perform(wait_for(read_call(from.get(), 1, -1)));
        } catch (const Overloaded&) {
          ++refused;
          return 0;
        }
      }));
    }
    while (refused < 2) yield();
    EXPECT_EQ(::write(to.get(), "0123456789", 10), 10);
    SysResult got = 0;
    for (auto& reader : readers) got += reader.get();
    EXPECT_EQ(got, 10);
    EXPECT_EQ(refused, 2);
  });
}

TEST(Uring, S8_TheKernelGoesWhileCallsAreUnderWay) {
  NEEDS_URING();
  int fds[2];
  check_sys(machine()->pipe(fds), "pipe");
  const UniqueFd from(fds[0]);
  const UniqueFd to(fds[1]);
  ::fcntl(from.get(), F_SETFL, 0);
  const Scratch scratch;
  const UniqueFd file(::open((scratch / "f").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  const auto before = live_allocations();
  for (int round = 0; round < 50; ++round) {
    auto loop = uring_loop();
    loop->run([&] {
      Scope scope;
      for (int i = 0; i < 5; ++i) {
        scope.spawn([&] { perform(wait_for(read_call(from.get(), 1000, -1))); });
        scope.spawn([&] { perform(wait_for(call_on(Code::sync, file.get()))); });
      }
      if (round % 2 == 0) yield();
      if (round % 4 == 1) sleep(20us);
      scope.cancel();
    });
    loop.reset();  // would hang, or free what the machine still writes to
  }
  EXPECT_EQ(live_allocations(), before);
}

TEST(Uring, S8_ACallOutlivesTheThreadThatSubmittedIt) {
  NEEDS_URING();
  int fds[2];
  check_sys(machine()->pipe(fds), "pipe");
  const UniqueFd from(fds[0]);
  const UniqueFd to(fds[1]);
  ::fcntl(from.get(), F_SETFL, 0);
  auto loop = uring_loop();
  auto read = read_call(from.get(), 10, -1);
  auto reader = loop->spawn([&] { return perform(wait_for(read)); });
  std::thread([&] { loop->block_on([] { sleep(1ms); }); }).join();
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(::write(to.get(), "hello", 5), 5);
  loop->run();
  EXPECT_EQ(reader.get(), 5);
  EXPECT_EQ(as_text(read->buffer), "hello");
}

TEST(Uring, S9_FileCallsAreNoDeadlock) {
  NEEDS_URING();
  auto loop = uring_loop();
  loop->run([] {
    int fds[2];
    check_sys(machine()->pipe(fds), "pipe");
    const UniqueFd from(fds[0]);
    const UniqueFd to(fds[1]);
    ::fcntl(from.get(), F_SETFL, 0);
    Scope scope;
    auto reader = scope.spawn([&] { return perform(wait_for(read_call(from.get(), 1, -1))); });
    yield();
    EXPECT_TRUE(this_io().kernel().expects());
    EXPECT_TRUE(this_io().kernel().outside_may_wake());
    EXPECT_EQ(::write(to.get(), "x", 1), 1);
    EXPECT_EQ(reader.get(), 1);
    EXPECT_FALSE(this_io().kernel().expects());
  });
}

TEST(Uring, S9_ItsWorkersDoNotHideADeadlock) {
  NEEDS_URING();
  if (process_has_other_threads()) GTEST_SKIP() << "this process has other threads";
  const Scratch scratch;
  auto loop = uring_loop();
  const UniqueFd fd(::open((scratch / "f").c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  EXPECT_THROW(loop->run([&] {
    EXPECT_EQ(perform(wait_for(call_on(Code::sync, fd.get()))), 0);  // done by a worker of the ring
    perform(never());
  }),
               Deadlock);
}

}  // namespace

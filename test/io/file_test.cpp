#include <weft/io/file.hpp>

#include <weft/io/buffered.hpp>

#include "support/files.hpp"
#include "support/real.hpp"

#include <array>
#include <latch>
#include <system_error>

#include <sys/stat.h>

using namespace weft;
using namespace weft::test;

namespace {

REAL(File, F4_WrittenThenRead) {
  const TempDir dir;
  File file = co_await File::create_op(dir / "a");
  EXPECT_EQ(co_await file.write_op(as_bytes("hello ")), 6U);
  EXPECT_EQ(co_await file.write_op(as_bytes("world")), 5U);
  EXPECT_EQ(file.position(), 11U);
  EXPECT_EQ(co_await file.size_op(), 11U);
  file.close();
  EXPECT_FALSE(file);
  file = co_await File::open_op(dir / "a");
  std::string text(6, ' ');
  EXPECT_EQ(co_await file.read_op(writable(text)), 6U);
  EXPECT_EQ(text, "hello ");
  EXPECT_EQ(co_await file.read_op(writable(text)), 5U);
  EXPECT_EQ(text.substr(0, 5), "world");
  EXPECT_EQ(co_await file.read_op(writable(text)), 0U);
  file.seek(3);
  EXPECT_EQ(co_await file.read_op(writable(text)), 6U);
  EXPECT_EQ(text, "lo wor");
  EXPECT_EQ(file.path(), dir / "a");
}

REAL(File, F4_AtAnyPlace) {
  const TempDir dir;
  const File file = co_await File::open_op(dir / "a", OpenMode::read | OpenMode::create);
  co_await file.write_at_op(100, as_bytes("far"));
  co_await file.write_at_op(0, as_bytes("near"));
  EXPECT_EQ(file.position(), 0U);
  std::string text(200, 'x');
  EXPECT_EQ(co_await file.read_at_op(0, writable(text)), 103U);
  EXPECT_EQ(text.substr(0, 4), "near");
  EXPECT_EQ(text.substr(4, 96), std::string(96, '\0'));
  EXPECT_EQ(text.substr(100, 4), "farx");
  EXPECT_EQ(co_await file.read_at_op(103, writable(text)), 0U);
  EXPECT_EQ(co_await file.read_at_op(0, Bytes()), 0U);
  EXPECT_EQ(co_await file.write_at_op(0, ConstBytes()), 0U);
  EXPECT_EQ((co_await failure_of([&] { return file.read_at_op(~0ULL, writable(text)); })).code,
            EINVAL);
}

REAL(File, F4_AppendGoesToTheEnd) {
  const TempDir dir;
  const File one = co_await File::open_op(dir / "log", OpenMode::append | OpenMode::create);
  const File two =
      co_await File::open_op(dir / "log", OpenMode::append | OpenMode::create | OpenMode::read);
  co_await one.write_op(as_bytes("1"));
  co_await two.write_op(as_bytes("2"));
  co_await one.write_op(as_bytes("3"));
  std::string text(8, ' ');
  EXPECT_EQ(two.position(), 0U);
  EXPECT_EQ(co_await two.read_op(writable(text)), 3U);
  EXPECT_EQ(text.substr(0, 3), "123");
  EXPECT_EQ((co_await failure_of([&] { return one.write_at_op(0, as_bytes("x")); })).code, EINVAL);
}

REAL(File, F4_TruncateSyncStatus) {
  const TempDir dir;
  const File file = co_await File::open_op(dir / "a", OpenMode::read | OpenMode::create, 0640);
  co_await file.write_op(as_bytes("0123456789"));
  co_await file.sync_op();
  co_await file.truncate_op(4);
  co_await file.sync_op(true);
  const FileStatus status = co_await file.status_op();
  EXPECT_EQ(status.kind, FileStatus::Kind::file);
  EXPECT_EQ(status.size, 4U);
  EXPECT_EQ(status.mode, 0640U);
  EXPECT_GT(status.modified_ns, 0);
  const FileStatus by_name = co_await file_status_op(dir / "a");
  EXPECT_EQ(by_name.inode, status.inode);
  EXPECT_EQ(by_name.device, status.device);
  EXPECT_EQ(by_name.modified_ns, status.modified_ns);
  std::filesystem::create_symlink("a", dir / "link");
  const FileStatus followed = co_await file_status_op(dir / "link");
  EXPECT_EQ(followed.inode, status.inode);
  const FileStatus link = co_await link_status_op(dir / "link");
  EXPECT_EQ(link.kind, FileStatus::Kind::link);
}

REAL(File, F4_ErrorsSayWhatWasTriedOnWhat) {
  const TempDir dir;
  co_await co_write_file(dir / "file", "x");
  Failure f = co_await failure_of([&] { return File::open_op(dir / "none"); });
  EXPECT_EQ(f.code, ENOENT);
  EXPECT_EQ(f.text, "open '" + dir / "none" + "': No such file or directory");
  f = co_await failure_of([&] { return File::open_op(dir / "file/below"); });
  EXPECT_EQ(f.code, ENOTDIR);
  f = co_await failure_of([&] { return File::create_op(dir.path()); });
  EXPECT_EQ(f.code, EISDIR);
  f = co_await failure_of([&] { return co_read_file(dir.path()); });
  EXPECT_EQ(f.code, EISDIR);
  EXPECT_EQ(f.text, "read '" + dir.path() + "': Is a directory");
  f = co_await failure_of([&] { return File::open_op(dir / "file", OpenMode::create_new); });
  EXPECT_EQ(f.code, EEXIST);
  f = co_await failure_of([&] { return File::open_op(""); });
  EXPECT_EQ(f.code, ENOENT);
  f = co_await failure_of([&] { return File::open_op(std::string("/etc/passwd\0.txt", 16)); });
  EXPECT_EQ(f.code, EINVAL);
  f = co_await failure_of([&] { return file_status_op(""); });
  EXPECT_EQ(f.code, ENOENT);

  const File readable = co_await File::open_op(dir / "file");
  f = co_await failure_of([&] { return readable.write_op(as_bytes("y")); });
  EXPECT_EQ(f.code, EBADF);
  EXPECT_EQ(f.text, "write '" + dir / "file" + "': Bad file descriptor");
  f = co_await failure_of([&] { return readable.truncate_op(0); });
  EXPECT_EQ(f.code, EINVAL);
  std::array<std::byte, 8> buffer;
  f = co_await failure_of([&] { return File().read_op(buffer); });
  EXPECT_EQ(f.code, EBADF);
}

REAL(File, F4_Directories) {
  const TempDir dir;
  co_await make_dir_op(dir / "d");
  co_await make_dir_op(dir / "d/sub");
  co_await co_write_file(dir / "d/b", "bb");
  co_await co_write_file(dir / "d/a", "a");
  std::filesystem::create_symlink("b", dir / "d/c");
  EXPECT_EQ(::mkfifo((dir / "d/fifo").c_str(), 0600), 0);
  const std::vector<DirEntry> entries = co_await list_dir_op(dir / "d");
  std::string seen;
  for (const DirEntry& e : entries) seen += e.name + std::to_string(static_cast<int>(e.kind)) + " ";
  EXPECT_EQ(seen, "a0 b0 c2 fifo3 sub1 ");

  Failure f = co_await failure_of([&] { return make_dir_op(dir / "d"); });
  EXPECT_EQ(f.code, EEXIST);
  EXPECT_EQ(f.text, "make directory '" + dir / "d" + "': File exists");
  f = co_await failure_of([&] { return remove_dir_op(dir / "d"); });
  EXPECT_EQ(f.code, ENOTEMPTY);
  f = co_await failure_of([&] { return remove_file_op(dir / "d/sub"); });
  EXPECT_EQ(f.code, EISDIR);
  f = co_await failure_of([&] { return remove_file_op(dir / "none"); });
  EXPECT_EQ(f.code, ENOENT);
  f = co_await failure_of([&] { return list_dir_op(dir / "none"); });
  EXPECT_EQ(f.code, ENOENT);
  f = co_await failure_of([&] { return list_dir_op(dir / "d/a"); });
  EXPECT_EQ(f.code, ENOTDIR);
  f = co_await failure_of([&] { return rename_file_op(dir / "none", dir / "x"); });
  EXPECT_EQ(f.text,
            "rename '" + dir / "none" + "' to '" + dir / "x" + "': No such file or directory");

  co_await rename_file_op(dir / "d/b", dir / "d/a");  // replaces
  const std::string a = co_await co_read_file(dir / "d/a");
  EXPECT_EQ(a, "bb");
  EXPECT_FALSE(co_await file_exists_op(dir / "d/b"));
  EXPECT_TRUE(co_await file_exists_op(dir / "d/a"));
  EXPECT_FALSE(co_await file_exists_op(dir / "d/a/below"));
  const std::optional<FileStatus> found = co_await find_file_op(dir / "d/a");
  EXPECT_TRUE(found && found->size == 2U);
  const std::optional<FileStatus> missing = co_await find_file_op(dir / "d/b");
  EXPECT_FALSE(missing.has_value());
  co_await remove_file_op(dir / "d/a");
  co_await remove_dir_op(dir / "d/sub");
  EXPECT_EQ((co_await list_dir_op(dir / "d")).size(), 2U);
}

REAL(File, F4_BigFiles) {
  const TempDir dir;
  const std::string text = pattern(5 * most_file_bytes / 2 + 3);
  co_await co_write_file(dir / "big", text);
  std::string got = co_await co_read_file(dir / "big");
  EXPECT_TRUE(got == text);
  const File file = co_await File::open_op(dir / "big", OpenMode::read | OpenMode::write);
  EXPECT_EQ(co_await file.read_op(writable(got)), most_file_bytes);
  const std::string other = pattern(text.size(), 2);
  file.seek(10);
  EXPECT_EQ(co_await file.write_op(as_bytes(other)), other.size());
  EXPECT_EQ(file.position(), other.size() + 10);
  got = co_await co_read_file(dir / "big");
  EXPECT_TRUE(got == text.substr(0, 10) + other);
}

REAL_AND_INLINE(File, F4_BuffersInFrontOfAFile) {
  const TempDir dir;
  {
    const File file = co_await File::create_op(dir / "a");
    Writer out(file, {.buffer_size = 100});
    for (int i = 0; i < 1000; ++i) {
      const std::string line = std::to_string(i) + "\n";
      co_await out.write_op(line);
    }
    co_await out.flush_op();
  }
  const File file = co_await File::open_op(dir / "a");
  Reader in(file, {.buffer_size = 100});
  int count = 0;
  for (;;) {
    const auto line = co_await in.line_op();
    if (!line) break;
    EXPECT_EQ(*line, std::to_string(count++));
  }
  EXPECT_EQ(count, 1000);
}

REAL(File, F4_HundredAtOnce) {
  const TempDir dir;
  const File shared = co_await File::open_op(dir / "shared", OpenMode::read | OpenMode::create);
  constexpr std::size_t size = 1000;
  Scope scope;
  for (unsigned i = 0; i < 100; ++i) {
    here.spawn(scope, [&, i]() -> Coro<> {
      const std::string mine = pattern(size, i);
      const std::string name = dir / ("f" + std::to_string(i));
      co_await co_write_file(name, mine);
      co_await shared.write_at_op(i * size, as_bytes(mine));
      std::string got(size, ' ');
      EXPECT_EQ(co_await shared.read_at_op(i * size, writable(got)), size);
      EXPECT_EQ(got, mine);
      got = co_await co_read_file(name);
      EXPECT_EQ(got, mine);
      co_await remove_file_op(name);
    });
  }
  co_await scope.joined();
  EXPECT_EQ(co_await shared.size_op(), 100 * size);
  EXPECT_EQ((co_await list_dir_op(dir.path())).size(), 1U);
}

REAL_AND_INLINE(File, C16_FilesInSelect) {
  const TempDir dir;
  co_await co_write_file(dir / "a", "text");
  const File file = co_await File::open_op(dir / "a");
  std::array<std::byte, 16> buffer;
  const auto n = co_await timeout(file.read_op(buffer), 1h);
  EXPECT_EQ(n, std::optional<std::size_t>(4));
  auto won = co_await race(file.read_op(buffer), never());
  EXPECT_EQ(won.index(), 0U);
  EXPECT_EQ(std::get<0>(won), 0U);
  auto lost = co_await first_of(always(1), file.read_at_op(0, buffer));
  EXPECT_EQ(lost.index(), 0U);
  const auto opened = co_await timeout(File::open_op(dir / "a"), 1h);
  EXPECT_TRUE(opened && opened->path() == dir / "a");
}

/// Begins something with files that is going to be cancelled.
Coro<> something(const TempDir& dir, const File& file, std::uint32_t what) {
  std::array<std::byte, 3000> buffer{};
  switch (what) {
    case 0: {
      const File opened = co_await File::open_op(dir / "a");
      static_cast<void>(co_await opened.size_op());
      break;
    }
    case 1:
      static_cast<void>(co_await file.read_at_op(17, buffer));
      break;
    case 2:
      co_await file.write_at_op(17, buffer);
      break;
    case 3:
      static_cast<void>(co_await co_read_file(dir / "a"));
      break;
    case 4: {
      const File made = co_await File::create_op(dir / "b");
      co_await made.write_op(buffer);
      co_await made.sync_op();
      break;
    }
    case 5:
      static_cast<void>(co_await list_dir_op(dir.path()));
      break;
    default:
      static_cast<void>(co_await find_file_op(dir / "b"));
      break;
  }
}

REAL(File, F9_RandomCancellationsLeakNothing) {
  const TempDir dir;
  co_await co_write_file(dir / "a", pattern(300'000));
  const File file = co_await File::open_op(dir / "a", OpenMode::read | OpenMode::write);
  Rng rng(20);
  const std::size_t rounds = scaled(100, 1000, 20'000);
  for (std::size_t i = 0; i < rounds; ++i) {
    Scope scope;
    auto task = here.spawn(scope, [&, what = rng.below(7)] { return something(dir, file, what); });
    if (const auto pause = rng.below(150); pause > 50) {
      co_await sleep_op(std::chrono::microseconds(pause - 50));
    } else if (pause > 10) {
      co_await next_turn();
    }
    task.cancel();
    const Outcome<void> outcome = co_await task.join_op();
    EXPECT_FALSE(outcome.failed());
  }
  EXPECT_EQ(co_await file.size_op(), 300'000U);
}

/// The machine, but with file calls that wait for a sign.
class SlowWorld : public World {
 public:
  void call(SlowCall& call) noexcept override {
    begun.count_down();
    go.wait();
    if (call.code == SlowCall::Code::open) {
      call.result = 1000;
    } else {
      call.result = closed ? -EBADF : 0;
      if (closed) saw_it_closed = true;
    }
  }
  SysResult close(int fd) noexcept override {
    EXPECT_EQ(fd, 1000);
    closed = true;
    ++closes;
    return 0;
  }

  std::latch begun{1};
  std::latch go{1};
  std::atomic<bool> closed = false;
  std::atomic<bool> saw_it_closed = false;
  std::atomic<int> closes = 0;
};

REAL(File, F9_ACancelledCallKeepsTheFileOpenUntilItEnds) {
  auto world = std::make_shared<SlowWorld>();
  {
    File file(world, 1000, "slow", OpenMode::write);
    Scope scope;
    auto task = here.spawn(scope, [&]() -> Coro<> { co_await file.write_op(as_bytes("x")); });
    while (!world->begun.try_wait()) co_await sleep_op(50us);
    task.cancel();
    EXPECT_TRUE((co_await task.join_op()).cancelled());
    file.close();
  }
  EXPECT_FALSE(world->closed);  // or the call would write to whoever has the number next
  world->go.count_down();
  while (!world->closed) co_await sleep_op(50us);
  EXPECT_FALSE(world->saw_it_closed);
  EXPECT_EQ(world->closes, 1);
}

/// What is open in it accepts a few bytes at a time, then none.
class ShortWorld : public World {
 public:
  explicit ShortWorld(std::size_t space) : space_(space) {}
  void call(SlowCall& call) noexcept override {
    ++calls;
    if (space_ == 0) {
      call.result = full_is;
      return;
    }
    const std::size_t n = std::min({call.buffer.size(), space_, std::size_t{7}});
    space_ -= n;
    written += as_text(call.buffer).substr(0, n);
    last_offset = call.offset;
    call.result = static_cast<SysResult>(n);
  }
  SysResult close(int) noexcept override { return 0; }

  SysResult full_is = -ENOSPC;
  std::string written;
  std::int64_t last_offset = 0;
  int calls = 0;

 private:
  std::size_t space_;
};

REAL_AND_INLINE(File, F4_ShortWritesGoOn) {
  auto world = std::make_shared<ShortWorld>(30);
  const File file(world, 5, "short", OpenMode::write);
  EXPECT_EQ(co_await file.write_op(as_bytes("0123456789012345678")), 19U);
  EXPECT_EQ(world->written, "0123456789012345678");
  EXPECT_EQ(world->calls, 3);
  EXPECT_EQ(world->last_offset, 14);
  EXPECT_EQ(file.position(), 19U);
  Failure f = co_await failure_of([&] { return file.write_op(as_bytes("0123456789012345678")); });
  EXPECT_EQ(f.code, ENOSPC);
  EXPECT_EQ(file.position(), 30U);  // what was written was
  world->full_is = 0;
  f = co_await failure_of([&] { return file.write_op(as_bytes("x")); });
  EXPECT_EQ(f.code, EIO);
  // In a race with others that are woken for nothing.
  auto more = std::make_shared<ShortWorld>(1000);
  const File appended(more, 5, "short", OpenMode::append);
  const auto won = co_await timeout(race(appended.write_op(as_bytes(pattern(100))), never()), 1h);
  EXPECT_TRUE(won && std::get<0>(*won) == 100U);
  EXPECT_EQ(more->written, pattern(100));
  EXPECT_EQ(more->last_offset, -1);
}

TEST(File, S1_PlainThreads) {
  const auto fds_before = open_descriptors();
  {
    const TempDir dir;
    write_file(dir / "a", "some text");
    EXPECT_EQ(read_file(dir / "a"), "some text");
    write_file_atomically(dir / "a", "another text");
    File file = File::open(dir / "a", OpenMode::read | OpenMode::write);
    std::string text(7, ' ');
    EXPECT_EQ(file.read(writable(text)), 7U);
    EXPECT_EQ(text, "another");
    file.write("!");
    file.write_at(0, "A");
    file.sync();
    file.truncate(9);
    EXPECT_EQ(file.size(), 9U);
    EXPECT_EQ(file.read_at(0, writable(text)), 7U);
    EXPECT_EQ(perform(timeout(file.read_at_op(0, writable(text)), 1h)), 7U);
    EXPECT_EQ(read_file(dir / "a"), "Another!t");
    rename_file(dir / "a", dir / "b");
    EXPECT_FALSE(file_exists(dir / "a"));
    EXPECT_EQ(file_status(dir / "b").inode, file.status().inode);
    make_dir(dir / "d");
    EXPECT_EQ(list_dir(dir.path()).size(), 2U);
    remove_dir(dir / "d");
    remove_file(dir / "b");
    EXPECT_THROW(static_cast<void>(File::open(dir / "b")), std::system_error);
    EXPECT_THROW(static_cast<void>(read_file(dir / "b")), std::system_error);
  }
  EXPECT_EQ(open_descriptors(), fds_before);
}

TEST(File, F4_ADescriptorThatNobodyTakesIsClosed) {
  const TempDir dir;
  write_file(dir / "a", "x");
  const auto fds_before = open_descriptors();
  {
    Loop loop;
    loop.run([&] {
      for (int i = 0; i < 100; ++i) {
        static_cast<void>(perform(timeout(File::open_op(dir / "a"), Duration(1))));
      }
    });
  }
  EXPECT_EQ(open_descriptors(), fds_before);
}

TEST(File, S8_NoFilesWhereTheWorldIsEmpty) {
  Loop loop({.kernel = make_virtual_kernel()});
  loop.run([&] {
    try {
      static_cast<void>(read_file("/etc/passwd"));
      ADD_FAILURE() << "there is a world";
    } catch (const std::system_error& error) {
      EXPECT_EQ(error.code().value(), ENOSYS);
    }
  });
}

}  // namespace

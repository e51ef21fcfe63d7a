/// Files and directories. No call here blocks a worker.
///
///     std::string hosts = read_file("/etc/hosts");           // co_await co_read_file(...)
///     write_file_atomically("state.json", json);             // all of it, or what was there
///     before
///
///     File log = File::open("app.log", OpenMode::append | OpenMode::create);
///     log.write("started\n");                                // co_await log.write_op(...)
///     auto n = perform(timeout(file.read_at_op(4096, buffer), 1s));
///
///     for (const DirEntry& entry : list_dir("/etc")) ...
///
/// What is in the machine's memory is read at once; other work is done by io_uring or by a thread
/// that may block; a plain thread does it itself. Each call exists as an operation (read_op) and as
/// a plain call (read); what takes several steps exists as a coroutine (co_read_file) and as a
/// plain call (read_file). Errors are std::system_error, such as "open '/x/y': No such file or
/// directory". If too many calls wait at once: Overloaded.
///
/// Cancelling. A call that was begun cannot be stopped: who is cancelled, or loses a select, goes
/// on at once and the call ends by itself, unobserved. It works on buffers of its own, keeps the
/// file open as long as it needs it, and closes a file that nobody takes. So a read or an open
/// leaves no trace; anything that changes files has then happened or not, or will a little later.
/// Where that matters, do it under a Shield.
///
/// Positions. read() and write() go on where the last one ended, in a position that the File keeps
/// and that moves when the result is taken. They are for one task at a time. read_at() and
/// write_at() name the place and can be used by any number of tasks at once.
///
/// For regular files (and what behaves like them in /proc and /sys). Pipes, terminals and devices
/// that wait for input belong into an Fd (adopt_fd), where a wait holds no thread (and whether
/// opening one waits for its other end depends on who does it). For what is
/// missing here: blocking([path] { std::filesystem::remove_all(path); }).
///
/// Rejected: reading straight into the caller's buffer. Then cancelling would have to wait for the
/// disk. Rejected: the machine's own file position. Cancelled calls would move it.
#pragma once

#include <weft/io/fd.hpp>
#include <weft/io/slow_call.hpp>
#include <weft/task/coro.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// How to open a file; joined by |. All but `read` include `write`.
enum class OpenMode : unsigned {
  read = 1,
  write = 2,
  append = write | 4,        // writes go to the end, wherever that is by then
  create = write | 8,        // makes it if it is not there
  create_new = create | 16,  // and it must not be there
  truncate = write | 32,     // empties it
};
[[nodiscard]] constexpr OpenMode operator|(OpenMode a, OpenMode b) noexcept {
  return static_cast<OpenMode>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}

/// One call about files that gives an R.
template <class R>
using FileOp = JobOp<SlowCall, R (*)(SlowCall&)>;

namespace detail {
struct OpenFile;
using OpenFilePtr = std::shared_ptr<OpenFile>;
}  // namespace detail

/// The most that one call moves: a cancelled call holds no more than this.
inline constexpr std::size_t most_file_bytes = std::size_t{1} << 20;

/// Up to the size of the buffer, or less; 0 only at the end of the file.
class FileReadOp {
 public:
  using Result = std::size_t;
  static constexpr Reason reason{"file read"};
  static constexpr bool outside = true;

  /// Without an offset: at the file's position.
  FileReadOp(detail::OpenFilePtr file, Bytes into, std::optional<std::uint64_t> offset);

  ObjectId object() const noexcept;
  bool try_now() const noexcept { return false; }
  Armed arm(Arm& arm);
  void disarm(Arm& arm) noexcept { call_->disarm(arm); }
  Result take();
  void run_here();

 private:
  void prepare();

  detail::OpenFilePtr file_;
  Bytes into_;
  std::optional<std::uint64_t> offset_;
  JobRef<SlowCall> call_;
};

/// All of the bytes, or with `some` what one call takes.
class FileWriteOp {
 public:
  using Result = std::size_t;
  static constexpr Reason reason{"file write"};
  static constexpr bool outside = true;

  /// Without an offset: at the file's position.
  FileWriteOp(detail::OpenFilePtr file, ConstBytes bytes, std::optional<std::uint64_t> offset,
              bool some);

  ObjectId object() const noexcept;
  bool try_now() const noexcept { return false; }
  Armed arm(Arm& arm);
  void disarm(Arm& arm) noexcept { call_->disarm(arm); }
  bool confirm() noexcept;
  Result take();
  void run_here();

 private:
  void prepare();

  detail::OpenFilePtr file_;
  ConstBytes bytes_;
  std::optional<std::uint64_t> offset_;
  bool some_;
  std::size_t written_ = 0;
  SysResult error_ = 0;
  JobRef<SlowCall> call_;  // the present one
};

/// An open file. Destroying it, or close(), closes it once no call works on it any more.
class File {
 public:
  File() = default;
  /// Takes over a descriptor of `world`. `path` is for messages.
  File(std::shared_ptr<World> world, int fd, std::string path, OpenMode mode);

  /// `permissions` of a file that is made, less the process's umask.
  [[nodiscard]] static FileOp<File> open_op(std::string path, OpenMode mode = OpenMode::read,
                                            unsigned permissions = 0666);
  [[nodiscard]] static File open(std::string path, OpenMode mode = OpenMode::read,
                                 unsigned permissions = 0666) {
    return perform(open_op(std::move(path), mode, permissions));
  }
  /// To write a new file, or an old one from scratch.
  [[nodiscard]] static FileOp<File> create_op(std::string path, unsigned permissions = 0666) {
    return open_op(std::move(path), OpenMode::create | OpenMode::truncate, permissions);
  }
  [[nodiscard]] static File create(std::string path, unsigned permissions = 0666) {
    return perform(create_op(std::move(path), permissions));
  }

  /// False when empty or closed; then every operation throws EBADF.
  explicit operator bool() const noexcept { return file_ != nullptr; }
  void close() noexcept { file_.reset(); }
  [[nodiscard]] int number() const noexcept;
  [[nodiscard]] const std::string& path() const;

  // At a place

  [[nodiscard]] FileReadOp read_at_op(std::uint64_t offset, Bytes into) const;
  [[nodiscard]] FileWriteOp write_at_op(std::uint64_t offset, ConstBytes bytes) const;
  std::size_t read_at(std::uint64_t offset, Bytes into) const {
    return perform(read_at_op(offset, into));
  }
  void write_at(std::uint64_t offset, ConstBytes bytes) const {
    perform(write_at_op(offset, bytes));
  }
  void write_at(std::uint64_t offset, std::string_view text) const {
    write_at(offset, as_bytes(text));
  }

  // One after the other. So it is a stream, which a Reader or a Writer (io/buffered.hpp) may serve.

  [[nodiscard]] FileReadOp read_op(Bytes into) const;
  [[nodiscard]] FileWriteOp write_op(ConstBytes bytes) const;
  [[nodiscard]] FileWriteOp write_some_op(ConstBytes bytes) const;
  std::size_t read(Bytes into) const { return perform(read_op(into)); }
  void write(ConstBytes bytes) const { perform(write_op(bytes)); }
  void write(std::string_view text) const { write(as_bytes(text)); }
  /// Where the next read() or write() begins. A file opened with `append` always writes at its end,
  /// and its position is that of reading alone.
  [[nodiscard]] std::uint64_t position() const;
  void seek(std::uint64_t position) const;

  // The file itself

  /// Until this is done a crash may lose what was written. `data_only`: not the times.
  [[nodiscard]] FileOp<void> sync_op(bool data_only = false) const;
  [[nodiscard]] FileOp<void> truncate_op(std::uint64_t size) const;
  [[nodiscard]] FileOp<FileStatus> status_op() const;
  [[nodiscard]] FileOp<std::uint64_t> size_op() const;
  void sync(bool data_only = false) const { perform(sync_op(data_only)); }
  void truncate(std::uint64_t size) const { perform(truncate_op(size)); }
  [[nodiscard]] FileStatus status() const { return perform(status_op()); }
  [[nodiscard]] std::uint64_t size() const { return perform(size_op()); }

 private:
  [[nodiscard]] const detail::OpenFilePtr& checked() const;

  detail::OpenFilePtr file_;
};

// Whole files

[[nodiscard]] Coro<std::string> co_read_file(std::string path);
[[nodiscard]] std::string read_file(std::string path);

/// Makes the file, or replaces what is in it. The bytes must live until the end.
[[nodiscard]] Coro<void> co_write_file(std::string path, ConstBytes bytes,
                                       unsigned permissions = 0666);
[[nodiscard]] Coro<void> co_write_file(std::string path, std::string_view text,
                                       unsigned permissions = 0666);
void write_file(std::string path, ConstBytes bytes, unsigned permissions = 0666);
void write_file(std::string path, std::string_view text, unsigned permissions = 0666);

/// The same, but at any moment others see either all of the new content or all of the old, also
/// after a crash; and once it has returned, a crash does not bring back the old. Writes a temporary
/// file (".<chance>.tmp") next to it, which takes its place. A file that was there passes on its
/// permissions; a symbolic link is replaced, not followed. If it fails or is cancelled, the old
/// content stays (or, if cancelled at the very end, the new is there) and no temporary file.
[[nodiscard]] Coro<void> co_write_file_atomically(std::string path, ConstBytes bytes,
                                                  unsigned permissions = 0666);
[[nodiscard]] Coro<void> co_write_file_atomically(std::string path, std::string_view text,
                                                  unsigned permissions = 0666);
void write_file_atomically(std::string path, ConstBytes bytes, unsigned permissions = 0666);
void write_file_atomically(std::string path, std::string_view text, unsigned permissions = 0666);

// Names

[[nodiscard]] FileOp<FileStatus> file_status_op(std::string path);
/// Of a symbolic link itself.
[[nodiscard]] FileOp<FileStatus> link_status_op(std::string path);
/// Empty if there is no such file.
[[nodiscard]] FileOp<std::optional<FileStatus>> find_file_op(std::string path);
[[nodiscard]] FileOp<bool> file_exists_op(std::string path);
/// Replaces a file that has the new name already.
[[nodiscard]] FileOp<void> rename_file_op(std::string from, std::string to);
[[nodiscard]] FileOp<void> remove_file_op(std::string path);
[[nodiscard]] FileOp<void> make_dir_op(std::string path, unsigned permissions = 0777);
/// Which must be empty.
[[nodiscard]] FileOp<void> remove_dir_op(std::string path);
/// Sorted by name, without "." and "..".
[[nodiscard]] FileOp<std::vector<DirEntry>> list_dir_op(std::string path);

[[nodiscard]] inline FileStatus file_status(std::string path) {
  return perform(file_status_op(std::move(path)));
}
[[nodiscard]] inline FileStatus link_status(std::string path) {
  return perform(link_status_op(std::move(path)));
}
[[nodiscard]] inline std::optional<FileStatus> find_file(std::string path) {
  return perform(find_file_op(std::move(path)));
}
[[nodiscard]] inline bool file_exists(std::string path) {
  return perform(file_exists_op(std::move(path)));
}
inline void rename_file(std::string from, std::string to) {
  perform(rename_file_op(std::move(from), std::move(to)));
}
inline void remove_file(std::string path) {
  perform(remove_file_op(std::move(path)));
}
inline void make_dir(std::string path, unsigned permissions = 0777) {
  perform(make_dir_op(std::move(path), permissions));
}
inline void remove_dir(std::string path) {
  perform(remove_dir_op(std::move(path)));
}
[[nodiscard]] inline std::vector<DirEntry> list_dir(std::string path) {
  return perform(list_dir_op(std::move(path)));
}

}  // namespace weft

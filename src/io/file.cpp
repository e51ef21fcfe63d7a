#include <weft/io/file.hpp>

#include <weft/task/scope.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include <fcntl.h>

namespace weft {

namespace detail {

/// What a File and the calls in progress share; the last of them closes the descriptor.
struct OpenFile {
  OpenFile(std::shared_ptr<World> opened_in, std::string name, OpenMode mode)
      : world(std::move(opened_in)),
        path(std::move(name)),
        appends((static_cast<unsigned>(mode) & ~static_cast<unsigned>(OpenMode::write) &
                 static_cast<unsigned>(OpenMode::append)) != 0) {}
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (fd >= 0) world->close(fd);
  }

  const ObjectId id = new_object_id();
  const std::shared_ptr<World> world;
  const std::string path;
  const bool appends;
  int fd = -1;
  std::uint64_t position = 0;  // of the one task that reads and writes without an offset
};

}  // namespace detail

namespace {

using detail::OpenFile;
using detail::OpenFilePtr;
using Code = SlowCall::Code;

[[noreturn]] void fail(SysResult error, const char* what, const std::string& path) {
  throw_sys_error(error, std::string(what) + " '" + path + "'");
}

/// The path as the machine will read it; otherwise it would name another file than was said.
void check_path(const std::string& path, const char* what) {
  if (path.empty()) fail(-ENOENT, what, path);
  if (path.find('\0') != std::string::npos) fail(-EINVAL, what, path);
}

std::int64_t to_offset(std::uint64_t offset, const char* what, const OpenFile& file) {
  if (offset > std::numeric_limits<std::int64_t>::max()) fail(-EINVAL, what, file.path);
  return static_cast<std::int64_t>(offset);
}

JobRef<SlowCall> call_on_path(Code code, std::string path, const char* what) {
  check_path(path, what);
  JobRef<SlowCall> call(new SlowCall(code, this_world()));
  call->path = std::move(path);
  return call;
}

JobRef<SlowCall> call_on_file(Code code, const OpenFilePtr& file) {
  JobRef<SlowCall> call(new SlowCall(code, file->world));
  call->fd = file->fd;
  call->keeps = file;
  return call;
}

/// Throws if the call failed.
void check(const SlowCall& call, const char* what) {
  if (call.result >= 0) return;
  const auto* file = static_cast<const OpenFile*>(call.keeps.get());
  fail(call.result, what, file == nullptr ? call.path : file->path);
}

int to_flags(OpenMode mode) noexcept {
  const auto has = [bits = static_cast<unsigned>(mode)](OpenMode wanted) {
    return (bits & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  int flags = !has(OpenMode::write) ? O_RDONLY : has(OpenMode::read) ? O_RDWR : O_WRONLY;
  if (has(OpenMode::append)) flags |= O_APPEND;
  if (has(OpenMode::create)) flags |= O_CREAT;
  if (has(OpenMode::create_new)) flags |= O_EXCL;
  if (has(OpenMode::truncate)) flags |= O_TRUNC;
  return flags;
}

FileOp<void> simple_op(JobRef<SlowCall> call, void (*finish)(SlowCall&)) {
  return {std::move(call), finish};
}

}  // namespace

// Reading

FileReadOp::FileReadOp(OpenFilePtr file, Bytes into, std::optional<std::uint64_t> offset)
    : file_(std::move(file)), into_(into), offset_(offset) {}

ObjectId FileReadOp::object() const noexcept {
  return file_->id;
}

void FileReadOp::prepare() {
  if (call_) return;  // published again, because another case was woken for nothing
  JobRef<SlowCall> call = call_on_file(Code::read, file_);
  call->offset = to_offset(offset_.value_or(file_->position), "read", *file_);
  call->buffer.resize(std::min(into_.size(), most_file_bytes));
  call_ = std::move(call);
}

Armed FileReadOp::arm(Arm& arm) {
  prepare();
  return call_->arm(arm);
}

void FileReadOp::run_here() {
  prepare();
  call_->run();
}

std::size_t FileReadOp::take() {
  check(*call_, "read");
  const std::size_t n = call_->buffer.size();
  if (n > 0) std::memcpy(into_.data(), call_->buffer.data(), n);
  if (!offset_) file_->position += n;
  return n;
}

// Writing

FileWriteOp::FileWriteOp(OpenFilePtr file, ConstBytes bytes, std::optional<std::uint64_t> offset,
                         bool some)
    : file_(std::move(file)), bytes_(bytes), offset_(offset), some_(some) {}

ObjectId FileWriteOp::object() const noexcept {
  return file_->id;
}

void FileWriteOp::prepare() {
  if (call_) return;
  JobRef<SlowCall> call = call_on_file(Code::write, file_);
  if (!file_->appends) {
    const std::uint64_t at = offset_.value_or(file_->position) + written_;
    call->offset = to_offset(at, "write", *file_);
  }
  const ConstBytes next = bytes_.subspan(written_);
  const ConstBytes part = next.first(std::min(next.size(), most_file_bytes));
  call->buffer.assign(part.begin(), part.end());
  call_ = std::move(call);
}

Armed FileWriteOp::arm(Arm& arm) {
  prepare();
  return call_->arm(arm);
}

// One call has ended. If something is left, the next arm() makes the next call.
bool FileWriteOp::confirm() noexcept {
  const SysResult result = call_->result;
  if (result < 0) {
    error_ = result;
    return true;
  }
  written_ += static_cast<std::size_t>(result);
  if (written_ == bytes_.size() || (some_ && result > 0)) return true;
  if (result == 0) {  // it takes no more and does not say why
    error_ = -EIO;
    return true;
  }
  call_ = {};
  return false;
}

void FileWriteOp::run_here() {
  do {
    prepare();
    call_->run();
  } while (!confirm());
}

std::size_t FileWriteOp::take() {
  if (!offset_ && !file_->appends) file_->position += written_;
  if (error_ < 0) fail(error_, "write", file_->path);
  return written_;
}

// File

File::File(std::shared_ptr<World> world, int fd, std::string path, OpenMode mode) {
  World& closer = *world;
  try {
    file_ = std::make_shared<OpenFile>(std::move(world), std::move(path), mode);
  } catch (...) {
    closer.close(fd);
    throw;
  }
  file_->fd = fd;
}

FileOp<File> File::open_op(std::string path, OpenMode mode, unsigned permissions) {
  JobRef<SlowCall> call = call_on_path(Code::open, std::move(path), "open");
  call->flags = to_flags(mode);
  call->mode = permissions;
  return {std::move(call), [](SlowCall& done) {
            check(done, "open");
            const OpenMode opened =
                (done.flags & O_APPEND) != 0 ? OpenMode::append : OpenMode::write;
            done.taken = true;
            return File(done.world, static_cast<int>(done.result), std::move(done.path), opened);
          }};
}

const OpenFilePtr& File::checked() const {
  if (file_ == nullptr) throw_sys_error(-EBADF, "a File that is empty or closed");
  return file_;
}

int File::number() const noexcept {
  return file_ == nullptr ? -1 : file_->fd;
}

const std::string& File::path() const {
  return checked()->path;
}

FileReadOp File::read_at_op(std::uint64_t offset, Bytes into) const {
  return {checked(), into, offset};
}

FileWriteOp File::write_at_op(std::uint64_t offset, ConstBytes bytes) const {
  if (checked()->appends) fail(-EINVAL, "write at a place, not at the end, of", path());
  return {file_, bytes, offset, false};
}

FileReadOp File::read_op(Bytes into) const {
  return {checked(), into, std::nullopt};
}

FileWriteOp File::write_op(ConstBytes bytes) const {
  return {checked(), bytes, std::nullopt, false};
}

FileWriteOp File::write_some_op(ConstBytes bytes) const {
  return {checked(), bytes, std::nullopt, true};
}

std::uint64_t File::position() const {
  return checked()->position;
}

void File::seek(std::uint64_t position) const {
  checked()->position = position;
}

FileOp<void> File::sync_op(bool data_only) const {
  JobRef<SlowCall> call = call_on_file(Code::sync, checked());
  call->flags = data_only ? 1 : 0;
  return simple_op(std::move(call), [](SlowCall& done) { check(done, "sync"); });
}

FileOp<void> File::truncate_op(std::uint64_t size) const {
  JobRef<SlowCall> call = call_on_file(Code::truncate, checked());
  call->offset = to_offset(size, "truncate", *file_);
  return simple_op(std::move(call), [](SlowCall& done) { check(done, "truncate"); });
}

FileOp<FileStatus> File::status_op() const {
  return {call_on_file(Code::stat, checked()), [](SlowCall& done) {
            check(done, "status of");
            return done.status;
          }};
}

FileOp<std::uint64_t> File::size_op() const {
  return {call_on_file(Code::stat, checked()), [](SlowCall& done) {
            check(done, "size of");
            return done.status.size;
          }};
}

// Names

FileOp<FileStatus> file_status_op(std::string path) {
  return {call_on_path(Code::stat, std::move(path), "status of"), [](SlowCall& done) {
            check(done, "status of");
            return done.status;
          }};
}

FileOp<FileStatus> link_status_op(std::string path) {
  JobRef<SlowCall> call = call_on_path(Code::stat, std::move(path), "status of");
  call->flags = 1;
  return {std::move(call), [](SlowCall& done) {
            check(done, "status of");
            return done.status;
          }};
}

FileOp<std::optional<FileStatus>> find_file_op(std::string path) {
  return {call_on_path(Code::stat, std::move(path), "look for"),
          [](SlowCall& done) -> std::optional<FileStatus> {
            if (done.result == -ENOENT || done.result == -ENOTDIR) return std::nullopt;
            check(done, "look for");
            return done.status;
          }};
}

FileOp<bool> file_exists_op(std::string path) {
  return {call_on_path(Code::stat, std::move(path), "look for"), [](SlowCall& done) {
            if (done.result == -ENOENT || done.result == -ENOTDIR) return false;
            check(done, "look for");
            return true;
          }};
}

FileOp<void> rename_file_op(std::string from, std::string to) {
  check_path(to, "rename to");
  JobRef<SlowCall> call = call_on_path(Code::rename, std::move(from), "rename");
  call->path2 = std::move(to);
  return simple_op(std::move(call), [](SlowCall& done) {
    if (done.result >= 0) return;
    throw_sys_error(done.result, "rename '" + done.path + "' to '" + done.path2 + "'");
  });
}

FileOp<void> remove_file_op(std::string path) {
  return simple_op(call_on_path(Code::unlink, std::move(path), "remove"),
                   [](SlowCall& done) { check(done, "remove"); });
}

FileOp<void> make_dir_op(std::string path, unsigned permissions) {
  JobRef<SlowCall> call = call_on_path(Code::make_dir, std::move(path), "make directory");
  call->mode = permissions;
  return simple_op(std::move(call), [](SlowCall& done) { check(done, "make directory"); });
}

FileOp<void> remove_dir_op(std::string path) {
  return simple_op(call_on_path(Code::remove_dir, std::move(path), "remove directory"),
                   [](SlowCall& done) { check(done, "remove directory"); });
}

FileOp<std::vector<DirEntry>> list_dir_op(std::string path) {
  return {call_on_path(Code::list_dir, std::move(path), "list directory"), [](SlowCall& done) {
            check(done, "list directory");
            return std::move(done.entries);
          }};
}

}  // namespace weft

// The calls that may take long, as a thread makes them that may block.
#include "io/file_status.hpp"
#include "io/machine.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <new>

#include <dirent.h>
#include <netdb.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace weft::io {

namespace {

SysResult open_file(const SlowCall& call) {
  // A terminal that is opened does not become ours.
  const int flags = call.flags | O_CLOEXEC | O_NOCTTY;
  return uninterrupted([&] { return ::open(call.path.c_str(), flags, call.mode); });
}

SysResult read_file(SlowCall& call) {
  const SysResult result = uninterrupted([&] {
    return call.offset < 0 ? ::read(call.fd, call.buffer.data(), call.buffer.size())
                           : ::pread(call.fd, call.buffer.data(), call.buffer.size(), call.offset);
  });
  call.buffer.resize(static_cast<std::size_t>(std::max(result, SysResult{0})));
  return result;
}

SysResult write_file(Machine& machine, SlowCall& call) {
  if (call.offset < 0) {  // may be a pipe, and raise a signal
    const iovec all{call.buffer.data(), call.buffer.size()};
    return machine.write(call.fd, &all, 1);
  }
  return uninterrupted(
      [&] { return ::pwrite(call.fd, call.buffer.data(), call.buffer.size(), call.offset); });
}

SysResult sync_file(const SlowCall& call) {
  return uninterrupted(
      [&] { return (call.flags & 1) != 0 ? ::fdatasync(call.fd) : ::fsync(call.fd); });
}

SysResult stat_file(SlowCall& call) {
  struct statx answer{};
  const StatxArguments with = statx_arguments(call);
  const SysResult result =
      uninterrupted([&] { return ::statx(with.at, with.path, with.flags, with.mask, &answer); });
  if (result == 0) call.status = to_file_status(answer);
  return result;
}

FileStatus::Kind kind_of_entry(DIR* directory, const dirent& entry) {
  switch (entry.d_type) {
    case DT_REG:
      return FileStatus::Kind::file;
    case DT_DIR:
      return FileStatus::Kind::directory;
    case DT_LNK:
      return FileStatus::Kind::link;
    case DT_UNKNOWN: {  // not every file system says
      struct stat status{};
      const int at = ::dirfd(directory);
      if (::fstatat(at, entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0) {
        return kind_of_mode(status.st_mode);
      }
      return FileStatus::Kind::other;
    }
    default:
      return FileStatus::Kind::other;
  }
}

SysResult list_directory(SlowCall& call) {
  struct Close {
    void operator()(DIR* directory) const noexcept { ::closedir(directory); }
  };
  const int saved = errno;
  const std::unique_ptr<DIR, Close> directory(::opendir(call.path.c_str()));
  if (directory == nullptr) return -std::exchange(errno, saved);
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    call.entries.push_back({std::move(name), kind_of_entry(directory.get(), *entry)});
  }
  if (const int error = std::exchange(errno, saved); error != 0) {
    call.entries.clear();
    return -error;
  }
  std::ranges::sort(call.entries, {}, &DirEntry::name);
  return 0;
}

// An EAI_ code, or 0.
SysResult resolve_name(SlowCall& call) {
  struct Free {
    void operator()(addrinfo* all) const noexcept { ::freeaddrinfo(all); }
  };
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_ADDRCONFIG;
  const char* host = call.path.empty() ? nullptr : call.path.c_str();
  const char* port = call.path2.empty() ? "0" : call.path2.c_str();
  addrinfo* found = nullptr;
  const int saved = errno;
  const int result = ::getaddrinfo(host, port, &hints, &found);
  errno = saved;
  if (result != 0) return result;
  const std::unique_ptr<addrinfo, Free> all(found);
  for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
    const auto* bytes = reinterpret_cast<const std::byte*>(one->ai_addr);
    call.addresses.emplace_back(bytes, bytes + one->ai_addrlen);
  }
  return 0;
}

SysResult make_call(Machine& machine, SlowCall& call) {
  const char* path = call.path.c_str();
  switch (call.code) {
    case SlowCall::Code::open:
      return open_file(call);
    case SlowCall::Code::read:
      return read_file(call);
    case SlowCall::Code::write:
      return write_file(machine, call);
    case SlowCall::Code::sync:
      return sync_file(call);
    case SlowCall::Code::truncate:
      return uninterrupted([&] { return ::ftruncate(call.fd, call.offset); });
    case SlowCall::Code::stat:
      return stat_file(call);
    case SlowCall::Code::rename:
      return uninterrupted([&] { return ::rename(path, call.path2.c_str()); });
    case SlowCall::Code::unlink:
      return uninterrupted([&] { return ::unlink(path); });
    case SlowCall::Code::make_dir:
      return uninterrupted([&] { return ::mkdir(path, call.mode); });
    case SlowCall::Code::remove_dir:
      return uninterrupted([&] { return ::rmdir(path); });
    case SlowCall::Code::list_dir:
      return list_directory(call);
    case SlowCall::Code::resolve:
      return resolve_name(call);
  }
  return -ENOSYS;
}

}  // namespace

namespace {

// Linux 5.9 and 5.10 may say that a file is over when it is not (preadv2(2), BUGS).
bool nowait_can_be_trusted() noexcept {
  static const bool can = [] {
    utsname name{};
    int version = 0;
    int minor = 0;
    return ::uname(&name) == 0 && std::sscanf(name.release, "%d.%d", &version, &minor) == 2 &&
           (version > 5 || (version == 5 && minor > 10));
  }();
  return can;
}

}  // namespace

// RWF_NOWAIT: not a word from the disk (preadv2(2)). It may give a part; what is missing is asked
// for again, and then either it is the end of the file, or a thread must read. Errors are left to
// that thread as well: file systems that do not know the flag, pipes, whatever it is.
bool read_at_once(SlowCall& call) noexcept {
  const std::size_t size = call.buffer.size();
  if (call.code != SlowCall::Code::read || call.offset < 0 || size > most_at_once ||
      call.world != machine() || !nowait_can_be_trusted()) {
    return false;
  }
  const int saved = errno;
  std::size_t done = 0;
  ::ssize_t more = 0;
  do {
    done += static_cast<std::size_t>(more);
    const iovec rest{call.buffer.data() + done, size - done};
    more = ::preadv2(call.fd, &rest, 1, call.offset + static_cast<::off_t>(done), RWF_NOWAIT);
  } while (more > 0 && done + static_cast<std::size_t>(more) < size);
  if (more < 0) {
    errno = saved;
    return false;
  }
  done += static_cast<std::size_t>(more);
  call.buffer.resize(done);
  call.result = static_cast<SysResult>(done);
  return true;
}

void Machine::call(SlowCall& call) noexcept {
  try {
    call.result = make_call(*this, call);
  } catch (const std::bad_alloc&) {
    call.entries.clear();
    call.addresses.clear();
    call.result = call.code == SlowCall::Code::resolve ? EAI_MEMORY : -ENOMEM;
  }
}

}  // namespace weft::io

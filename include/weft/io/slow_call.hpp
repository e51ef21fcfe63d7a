/// SlowCall: a call of a World that may take long, as a value: files, directories, names.
///
/// One request type for all of them keeps the seam narrow: a Kernel passes a call to a thread, to
/// io_uring or to a simulated disk without knowing what it is for. Buffers belong to the call,
/// since it may outlive whoever asked (see io/job.hpp).
#pragma once

#include <weft/io/job.hpp>
#include <weft/io/world.hpp>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace weft {

struct FileStatus {
  enum class Kind : std::uint8_t { file, directory, link, other };
  Kind kind = Kind::other;
  unsigned mode = 0;  // permission bits
  std::uint64_t size = 0;
  std::uint64_t device = 0;  // with inode: which file it is
  std::uint64_t inode = 0;
  std::int64_t modified_ns = 0;  // since 1970
};

struct DirEntry {
  std::string name;
  FileStatus::Kind kind = FileStatus::Kind::other;
};

/// Fields that a code does not name are unused.
struct SlowCall final : Job {
  enum class Code : std::uint8_t {
    open,        // path, flags, mode -> descriptor; closed if nobody takes it
    read,        // fd, buffer (its size is the most to read), offset -> bytes; shrinks the buffer
    write,       // fd, buffer, offset (-1: append to what the file's own position says) -> bytes
    sync,        // fd; flags: 1 = data only
    truncate,    // fd, offset
    stat,        // path, or fd if the path is empty; flags: 1 = do not follow links -> status
    rename,      // path, path2
    unlink,      // path
    make_dir,    // path, mode
    remove_dir,  // path
    list_dir,    // path -> entries, sorted by name, without . and ..
    resolve,     // path: host, path2: port -> addresses; result is 0 or an EAI_ code
  };

  static constexpr Reason reason{"file"};

  SlowCall(Code what, std::shared_ptr<World> where) noexcept
      : code(what), world(std::move(where)) {}
  ~SlowCall() override;
  void run() noexcept override { world->call(*this); }

  const Code code;
  const std::shared_ptr<World> world;
  /// Lives as long as the call: whoever keeps `fd` open. A call that nobody waits for any more must
  /// not find its number closed, or worse, in use again for another file.
  std::shared_ptr<const void> keeps;
  int fd = -1;
  int flags = 0;
  unsigned mode = 0;
  std::int64_t offset = -1;
  std::string path;
  std::string path2;
  std::vector<std::byte> buffer;

  SysResult result = -ECANCELED;  // of a call nobody waited for
  bool taken = false;             // open: somebody owns the descriptor now
  FileStatus status;
  std::vector<DirEntry> entries;
  std::vector<std::vector<std::byte>> addresses;  // sockaddrs

 private:
  void begin(Kernel& kernel) override;
};

}  // namespace weft

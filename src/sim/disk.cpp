#include "sim/disk.hpp"

#include "sim/universe.hpp"

#include <algorithm>

#include <fcntl.h>

namespace weft::sim {

namespace {
constexpr std::int64_t largest_file = std::int64_t{1} << 30;
constexpr std::size_t sector = 512;
}  // namespace

Disk::Disk(Universe& universe) : universe_(universe) {
  const NodePtr root = make(true, 0755);
  names_["/"] = kept_names_["/"] = root;
}
Disk::~Disk() = default;

// Names

std::string Disk::normal(const std::string& path) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : path + "/") {
    if (c != '/') {
      part += c;
      continue;
    }
    if (part == ".." && !parts.empty()) parts.pop_back();
    if (!part.empty() && part != "." && part != "..") parts.push_back(part);
    part.clear();
  }
  std::string result;
  for (const std::string& p : parts) result += "/" + p;
  return result.empty() ? "/" : result;
}

Disk::Node* Disk::find(const std::string& path) {
  const auto it = names_.find(path);
  return it == names_.end() ? nullptr : it->second.get();
}

SysResult Disk::walk(const std::string& path) {
  for (std::size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const Node* const node = find(path.substr(0, slash));
    if (node == nullptr) return -ENOENT;
    if (!node->directory) return -ENOTDIR;
  }
  return 0;
}

Disk::NodePtr Disk::make(bool directory, unsigned mode) {
  auto node = std::make_shared<Node>();
  node->directory = directory;
  node->mode = mode;
  node->number = ++last_number_;
  return node;
}

void Disk::apply(Names& names, const Step& step) {
  for (const Change& c : step) {
    if (c.node == nullptr) {
      names.erase(c.name);
    } else {
      names[c.name] = c.node;
    }
  }
}

void Disk::change(Step step) {
  apply(names_, step);
  journal_.push_back(std::move(step));
}

bool Disk::empty(const std::string& directory) const {
  const std::string prefix = directory == "/" ? "/" : directory + "/";
  const auto it = names_.upper_bound(prefix);
  return it == names_.end() || !it->first.starts_with(prefix);
}

// Calls

void Disk::call(SlowCall& call, HostWorld& world) {
  using Code = SlowCall::Code;
  OpenedFile* file = nullptr;
  if (call.fd >= 0) {
    file = dynamic_cast<OpenedFile*>(world.find(call.fd));
    if (file == nullptr) {
      call.result = -EBADF;
      return;
    }
  }
  if (file != nullptr) {
    const int access = file->flags() & O_ACCMODE;
    const bool wrong = (call.code == Code::read && access == O_WRONLY) ||
                       (call.code == Code::write && access == O_RDONLY);
    if (wrong || (call.code == Code::truncate && access == O_RDONLY)) {
      call.result = wrong ? -EBADF : -EINVAL;
      return;
    }
  }
  switch (call.code) {
    case Code::open:
      call.result = open(call, world);
      break;
    case Code::read:
      call.result = read(call, *file->node());
      break;
    case Code::write:
      call.result = write(call, *file->node(), world.wall_clock());
      break;
    case Code::sync:
      call.result = sync(*file->node());
      break;
    case Code::truncate: {
      if (call.offset < 0 || call.offset > largest_file) {
        call.result = call.offset < 0 ? -EINVAL : -EFBIG;
        break;
      }
      const Write cut{
          .offset = static_cast<std::uint64_t>(call.offset), .bytes = {}, .truncates = true};
      apply(file->node()->cached, cut);
      file->node()->writes.push_back(cut);
      call.result = 0;
      break;
    }
    case Code::stat:
      call.result = status(call, file == nullptr ? nullptr : file->node().get());
      break;
    case Code::rename:
      call.result = rename(call);
      break;
    case Code::unlink:
      call.result = remove(call, false);
      break;
    case Code::make_dir:
      call.result = make_dir(call);
      break;
    case Code::remove_dir:
      call.result = remove(call, true);
      break;
    case Code::list_dir:
      call.result = list_dir(call);
      break;
    case Code::resolve:
      call.result = -ENOSYS;  // not the disk's
      break;
  }
}

SysResult Disk::open(SlowCall& call, HostWorld& world) {
  const std::string path = normal(call.path);
  if (const SysResult way = walk(path); way < 0) return way;
  Node* node = find(path);
  if (node != nullptr && (call.flags & O_CREAT) != 0 && (call.flags & O_EXCL) != 0) return -EEXIST;
  if (node == nullptr) {
    if ((call.flags & O_CREAT) == 0) return -ENOENT;
    if (universe_.network().strikes(&Faults::full_disk, 16)) return -ENOSPC;
    change({{path, make(false, call.mode & 0777)}});
    node = find(path);
  }
  if (node->directory && (call.flags & O_ACCMODE) != O_RDONLY) return -EISDIR;
  if ((call.flags & O_TRUNC) != 0 && !node->cached.empty()) {
    const Write cut{.offset = 0, .bytes = {}, .truncates = true};
    apply(node->cached, cut);
    node->writes.push_back(cut);
  }
  return world.add(std::make_shared<OpenedFile>(world, names_[path], call.flags));
}

SysResult Disk::read(SlowCall& call, Node& node) {
  if (node.directory) return -EISDIR;
  if (universe_.network().strikes(&Faults::failing_reads, 64)) return -EIO;
  const auto from = static_cast<std::uint64_t>(std::max<std::int64_t>(call.offset, 0));
  std::size_t n = from >= node.cached.size()
                      ? 0
                      : std::min<std::size_t>(call.buffer.size(), node.cached.size() - from);
  if (n > 1 && universe_.network().strikes(&Faults::short_transfers)) n = (n + 1) / 2;
  if (n > 0 && universe_.network().strikes(&Faults::bit_rot, 64)) rot(node, from, n);
  const auto* bytes = reinterpret_cast<const std::byte*>(node.cached.data()) + from;
  call.buffer.assign(bytes, bytes + n);
  return static_cast<SysResult>(n);
}

// Not of what the cache alone has.
void Disk::rot(Node& node, std::uint64_t from, std::size_t n) {
  Engine& engine = universe_.engine();
  const std::uint64_t at = from + engine.decide(Kind::fault, static_cast<std::uint32_t>(n));
  if (at >= node.kept.size() || node.kept[at] != node.cached[at]) return;
  node.kept[at] = node.cached[at] =
      static_cast<char>(node.kept[at] ^ (1 << engine.decide(Kind::fault, 8)));
}

void Disk::apply(std::string& content, const Write& write) {
  if (write.truncates) {
    content.resize(write.offset, '\0');
    return;
  }
  if (content.size() < write.offset + write.bytes.size()) {
    content.resize(write.offset + write.bytes.size(), '\0');
  }
  content.replace(write.offset, write.bytes.size(), write.bytes);
}

SysResult Disk::write(SlowCall& call, Node& node, std::int64_t wall_clock) {
  if (node.directory) return -EBADF;
  if (call.offset > largest_file) return -EFBIG;
  if (universe_.network().strikes(&Faults::full_disk, 32)) return -ENOSPC;
  std::size_t n = call.buffer.size();
  if (n > 1 && universe_.network().strikes(&Faults::short_transfers)) n = (n + 1) / 2;
  const std::uint64_t at =
      call.offset < 0 ? node.cached.size() : static_cast<std::uint64_t>(call.offset);
  Write write{.offset = at,
              .bytes = std::string(reinterpret_cast<const char*>(call.buffer.data()), n)};
  apply(node.cached, write);
  node.writes.push_back(std::move(write));
  node.modified_ns = wall_clock;
  return static_cast<SysResult>(n);
}

// Also what happened to names before.
SysResult Disk::sync(Node& node) {
  if (universe_.network().strikes(&Faults::failing_syncs)) {
    // As Linux has it: what could not be written counts as written from now on. It is in the cache,
    // and the next sync says that all is well.
    node.writes.clear();
    return -EIO;
  }
  for (const Step& step : std::exchange(journal_, {})) apply(kept_names_, step);
  for (Write& write : std::exchange(node.writes, {})) {
    const bool astray =
        !write.truncates && universe_.network().strikes(&Faults::misdirected_writes, 32);
    if (astray) misdirect(write, node.kept.size());
    apply(node.kept, write);
  }
  return 0;
}

// To another sector of what is there.
void Disk::misdirect(Write& write, std::size_t size) {
  const auto sectors = static_cast<std::uint32_t>(size / sector + 1);
  const std::uint64_t to = universe_.engine().decide(Kind::fault, sectors) * sector;
  write.offset = to + write.offset % sector;
}

void Disk::fill(FileStatus& status, const Node& node) const {
  status.kind = node.directory ? FileStatus::Kind::directory : FileStatus::Kind::file;
  status.mode = node.mode;
  status.size = node.cached.size();
  status.device = 1;
  status.inode = node.number;
  status.modified_ns = node.modified_ns;
}

SysResult Disk::status(SlowCall& call, const Node* opened) {
  const std::string path = normal(call.path);
  if (const SysResult way = walk(path); !call.path.empty() && way < 0) return way;
  const Node* const node = call.path.empty() ? opened : find(path);
  if (node == nullptr) return -ENOENT;
  fill(call.status, *node);
  return 0;
}

SysResult Disk::rename(SlowCall& call) {
  const std::string from = normal(call.path);
  const std::string to = normal(call.path2);
  for (const std::string& path : {from, to}) {
    if (const SysResult way = walk(path); way < 0) return way;
  }
  Node* const node = find(from);
  if (node == nullptr) return -ENOENT;
  if (from == to) return 0;
  if (to.starts_with(from + "/")) return -EINVAL;
  if (from.starts_with(to + "/")) return -ENOTEMPTY;
  if (const Node* there = find(to)) {
    if (there->directory && !node->directory) return -EISDIR;
    if (!there->directory && node->directory) return -ENOTDIR;
    if (there->directory && !empty(to)) return -ENOTEMPTY;
  }
  Step step{{from, nullptr}, {to, names_[from]}};
  const std::string prefix = from + "/";
  for (auto it = names_.upper_bound(prefix); it != names_.end() && it->first.starts_with(prefix);
       ++it) {
    step.push_back({it->first, nullptr});
    step.push_back({to + it->first.substr(from.size()), it->second});
  }
  change(std::move(step));
  return 0;
}

SysResult Disk::remove(SlowCall& call, bool directory) {
  const std::string path = normal(call.path);
  if (const SysResult way = walk(path); way < 0) return way;
  const Node* const node = find(path);
  if (node == nullptr) return -ENOENT;
  if (directory && !node->directory) return -ENOTDIR;
  if (!directory && node->directory) return -EISDIR;
  if (directory && (path == "/" || !empty(path))) return path == "/" ? -EBUSY : -ENOTEMPTY;
  change({{path, nullptr}});
  return 0;
}

SysResult Disk::make_dir(SlowCall& call) {
  const std::string path = normal(call.path);
  if (const SysResult way = walk(path); way < 0) return way;
  if (find(path) != nullptr) return -EEXIST;
  change({{path, make(true, call.mode & 0777)}});
  return 0;
}

SysResult Disk::list_dir(SlowCall& call) {
  const std::string path = normal(call.path);
  if (const SysResult way = walk(path); way < 0) return way;
  const Node* const node = find(path);
  if (node == nullptr) return -ENOENT;
  if (!node->directory) return -ENOTDIR;
  const std::string prefix = path == "/" ? "/" : path + "/";
  for (auto it = names_.upper_bound(prefix); it != names_.end() && it->first.starts_with(prefix);
       ++it) {
    const std::string name = it->first.substr(prefix.size());
    if (name.find('/') != std::string::npos) continue;
    call.entries.push_back(
        {name, it->second->directory ? FileStatus::Kind::directory : FileStatus::Kind::file});
  }
  return 0;
}

// Power off

void Disk::crash() {
  Engine& engine = universe_.engine();
  const auto steps = std::exchange(journal_, {});
  if (!steps.empty()) {
    const std::uint32_t survive =
        engine.decide(Kind::fault, static_cast<std::uint32_t>(steps.size()) + 1);
    for (std::uint32_t i = 0; i < survive; ++i) apply(kept_names_, steps[i]);
  }
  names_ = kept_names_;
  for (const auto& [name, node] : names_) lose_writes(*node);
}

void Disk::lose_writes(Node& node) {
  const auto writes = std::exchange(node.writes, {});
  if (!writes.empty()) {
    Engine& engine = universe_.engine();
    const auto count = static_cast<std::uint32_t>(writes.size());
    const std::uint32_t survive = engine.decide(Kind::fault, count + 1);
    for (std::uint32_t i = 0; i < survive; ++i) apply(node.kept, writes[i]);
    if (survive < count && !writes[survive].truncates &&
        universe_.network().strikes(&Faults::torn_writes, 2)) {
      Write torn = writes[survive];
      const auto sectors = static_cast<std::uint32_t>((torn.bytes.size() + sector - 1) / sector);
      torn.bytes.resize(
          std::min(torn.bytes.size(), sector * engine.decide(Kind::fault, sectors + 1)));
      if (!torn.bytes.empty()) apply(node.kept, torn);
    }
  }
  node.cached = node.kept;
}

}  // namespace weft::sim

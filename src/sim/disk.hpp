// A simulated disk: files and directories, what is in the page cache, and what would survive.
//
// Two views of everything: as programs see it, and as it is on the platters. Changes of names
// (create, rename, unlink, ...) are kept in order in a journal until something is synced: then all
// up to there are on the platters, as with an ordered journal. Writes are kept with each file until
// it is synced. A crash keeps a prefix of the journal and, of each file, a prefix of its writes,
// the last of them maybe torn; what these prefixes are is drawn.
#pragma once

#include <weft/io/slow_call.hpp>

#include "sim/host_world.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft::sim {

class Disk {
 public:
  explicit Disk(Universe& universe);
  ~Disk();

  /// By a process of the world it belongs to.
  void call(SlowCall& call, HostWorld& world);
  void crash();

 private:
  friend class OpenedFile;
  struct Write {
    std::uint64_t offset;  // of a truncation: the new size
    std::string bytes;
    bool truncates = false;
  };
  struct Node {
    bool directory = false;
    unsigned mode = 0;
    std::uint64_t number = 0;
    std::int64_t modified_ns = 0;
    std::string cached;         // as programs see it
    std::string kept;           // on the platters
    std::vector<Write> writes;  // in between
  };
  using NodePtr = std::shared_ptr<Node>;
  using Names = std::map<std::string, NodePtr>;
  /// A change of names: `to` is gone or stands for `node` now.
  struct Change {
    std::string name;
    NodePtr node;  // null: it is gone
  };
  /// Those that happen together, such as a rename.
  using Step = std::vector<Change>;

  [[nodiscard]] static std::string normal(const std::string& path);
  [[nodiscard]] Node* find(const std::string& path);
  /// Is all of it before the last name a directory that is there?
  [[nodiscard]] SysResult walk(const std::string& path);
  SysResult open(SlowCall& call, HostWorld& world);
  SysResult read(SlowCall& call, Node& node);
  SysResult write(SlowCall& call, Node& node, std::int64_t wall_clock);
  SysResult sync(Node& node);
  SysResult status(SlowCall& call, const Node* opened);
  SysResult rename(SlowCall& call);
  SysResult remove(SlowCall& call, bool directory);
  SysResult make_dir(SlowCall& call);
  SysResult list_dir(SlowCall& call);
  [[nodiscard]] bool empty(const std::string& directory) const;
  void change(Step step);
  static void apply(Names& names, const Step& step);
  static void apply(std::string& content, const Write& write);
  void rot(Node& node, std::uint64_t from, std::size_t n);
  void misdirect(Write& write, std::size_t size);
  void lose_writes(Node& node);
  [[nodiscard]] NodePtr make(bool directory, unsigned mode);
  void fill(FileStatus& status, const Node& node) const;

  Universe& universe_;
  Names names_;
  Names kept_names_;
  std::vector<Step> journal_;
  std::uint64_t last_number_ = 0;
};

/// A descriptor of a file. Reads and writes with it are slow calls, not these.
class OpenedFile final : public Descriptor {
 public:
  OpenedFile(HostWorld& world, std::shared_ptr<Disk::Node> node, int flags)
      : Descriptor(world), node_(std::move(node)), flags_(flags) {}
  void closed(bool) override {}
  std::uint32_t bits() const override { return Source::readable | Source::writable; }
  [[nodiscard]] const std::shared_ptr<Disk::Node>& node() const noexcept { return node_; }
  [[nodiscard]] int flags() const noexcept { return flags_; }

 private:
  const std::shared_ptr<Disk::Node> node_;
  const int flags_;
};

}  // namespace weft::sim

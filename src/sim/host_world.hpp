// A host's descriptors, and the calls on them. See sim/network.hpp.
#pragma once

#include <weft/io/slow_call.hpp>
#include <weft/io/source.hpp>
#include <weft/io/world.hpp>
#include <weft/sim/network.hpp>

#include <map>
#include <memory>
#include <optional>

namespace weft::sim {

class Disk;

/// An address that a socket has, or wants. IPv6 is there for what is written that way: "::" and
/// "::1" mean what 0.0.0.0 and 127.0.0.1 mean.
struct Endpoint {
  static constexpr std::uint32_t any = 0;
  static constexpr std::uint32_t loopback = 0x7f000001;
  int family = 0;
  std::uint32_t ip = any;
  std::uint16_t port = 0;

  /// Does a socket bound to this hear what is sent to `ip` of `here`, by `sender`?
  [[nodiscard]] bool takes(std::uint32_t to, const Host& here, const Host& sender) const noexcept {
    if (ip == any) return true;
    const bool by_loopback = &here == &sender && (to == loopback || to == any);
    return by_loopback ? ip == loopback : ip == here.ip();
  }
  [[nodiscard]] static std::optional<Endpoint> from(const sockaddr* address, socklen_t size);
  void write(sockaddr* address, socklen_t* size) const;
};

/// What a descriptor stands for. Calls that make no sense for it fail.
class Descriptor : public std::enable_shared_from_this<Descriptor> {
 public:
  explicit Descriptor(HostWorld& world);
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  virtual ~Descriptor();

  virtual SysResult bind(const Endpoint&) { return -EOPNOTSUPP; }
  virtual SysResult listen(int) { return -EOPNOTSUPP; }
  virtual SysResult accept(Endpoint&) { return -EOPNOTSUPP; }
  virtual SysResult connect(const Endpoint&) { return -EOPNOTSUPP; }
  virtual SysResult name(World::End, Endpoint&) { return -ENOTSOCK; }
  virtual SysResult error_option() { return 0; }
  [[nodiscard]] virtual int type() const { return 0; }
  virtual SysResult receive(msghdr&) { return -EINVAL; }
  virtual SysResult send(const msghdr&) { return -EINVAL; }
  virtual SysResult shutdown(int) { return -ENOTSOCK; }
  /// The descriptor is gone. `crashed`: and nobody shall hear of it.
  virtual void closed(bool crashed) = 0;
  /// Source::Bits.
  [[nodiscard]] virtual std::uint32_t bits() const = 0;

  // Readiness
  void watched_by(Source* source) noexcept;
  [[nodiscard]] Source* watcher() const noexcept { return source_; }
  /// Something about bits() may have changed: whoever watches is told, soon.
  void changed();

 protected:
  [[nodiscard]] HostWorld& world() const noexcept { return *world_; }

 private:
  const std::shared_ptr<HostWorld> world_;  // which lets go of us when it dies
  Source* source_ = nullptr;                // retained
  bool telling_ = false;
};

class HostWorld final : public World, public std::enable_shared_from_this<HostWorld> {
 public:
  HostWorld(Universe& universe, Host& host, Disk& disk) noexcept
      : universe_(universe), host_(host), disk_(disk) {}

  [[nodiscard]] Universe& universe() noexcept { return universe_; }
  [[nodiscard]] Host& host() noexcept { return host_; }
  /// The host is going down, and so are its descriptors. When it comes up it has another world:
  /// what is left of this one, somebody's call in progress, say, means nothing there.
  void die();
  [[nodiscard]] bool dead() const noexcept { return dead_; }
  /// A number for it; EMFILE if there are too many.
  SysResult add(std::shared_ptr<Descriptor> thing);
  [[nodiscard]] Descriptor* find(int fd) noexcept;
  /// Who listens at this port, or null.
  [[nodiscard]] Descriptor*& listener(std::uint16_t port) { return listeners_[port]; }
  [[nodiscard]] Descriptor*& datagrams(std::uint16_t port) { return datagrams_[port]; }
  void forget_listener(std::uint16_t port) { listeners_.erase(port); }
  void forget_datagrams(std::uint16_t port) { datagrams_.erase(port); }
  [[nodiscard]] std::uint16_t free_port(const std::map<std::uint16_t, Descriptor*>& used);
  [[nodiscard]] const std::map<std::uint16_t, Descriptor*>& listeners() const { return listeners_; }
  [[nodiscard]] const std::map<std::uint16_t, Descriptor*>& datagram_ports() const {
    return datagrams_;
  }
  [[nodiscard]] std::uint16_t ephemeral_port() noexcept;
  /// How long this call takes.
  [[nodiscard]] Duration time_of(const SlowCall& call);

  SysResult socket(int domain, int type, int protocol) override;
  SysResult bind(int fd, const sockaddr* address, socklen_t size) override;
  SysResult listen(int fd, int backlog) override;
  SysResult accept(int fd, sockaddr* address, socklen_t* size) override;
  SysResult connect(int fd, const sockaddr* address, socklen_t size) override;
  SysResult name(int fd, End end, sockaddr* address, socklen_t* size) override;
  SysResult set_option(int fd, int level, int option, const void* value, socklen_t size) override;
  SysResult get_option(int fd, int level, int option, void* value, socklen_t* size) override;
  SysResult receive(int fd, msghdr& message, int flags) override;
  SysResult send(int fd, const msghdr& message, int flags) override;
  SysResult shutdown(int fd, int how) override;
  SysResult socket_pair(int domain, int type, int (&fds)[2]) override;
  SysResult pipe(int (&fds)[2]) override;
  SysResult read(int fd, const iovec* parts, int count) override;
  SysResult write(int fd, const iovec* parts, int count) override;
  SysResult close(int fd) noexcept override;
  void random(std::span<std::byte> out) override;
  std::int64_t wall_clock() noexcept override;
  void call(SlowCall& call) noexcept override;

 private:
  SysResult pair_of(int (&fds)[2]);

  Universe& universe_;
  Host& host_;
  std::map<int, std::shared_ptr<Descriptor>> things_;
  std::map<std::uint16_t, Descriptor*> listeners_;
  std::map<std::uint16_t, Descriptor*> datagrams_;
  std::map<std::pair<int, int>, int> options_;  // by descriptor and option
  Disk& disk_;
  std::uint16_t last_port_ = 32'767;
  bool dead_ = false;
};

/// How many bytes a call is about, and moving them.
[[nodiscard]] std::size_t size_of(const msghdr& message) noexcept;
void scatter(std::string_view bytes, const msghdr& message) noexcept;
[[nodiscard]] std::string gather(const msghdr& message, std::size_t most);

}  // namespace weft::sim

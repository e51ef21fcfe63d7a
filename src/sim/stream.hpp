// Sockets of a simulated host: TCP (and pairs and pipes, which are TCP to oneself), UDP.
//
//     fresh ──listen──▶ listening
//       │ connect                    syn arrives: a new one, open, waits to be accepted
//       ▼
//     connecting ──────▶ open ──────▶ broken (error: refused, reset, timed out)
//
// What is written is queued; all of it flies together, and is tried again while the other side
// cannot be reached; then it has arrived, and waits to be read. So at most one load is on its way,
// and bytes stay in order by themselves.
#pragma once

#include "sim/host_world.hpp"

#include <deque>
#include <memory>
#include <string>

namespace weft::sim {

class Stream final : public Descriptor {
 public:
  Stream(HostWorld& world, int family);
  /// Two that are connected, on one host.
  static std::pair<std::shared_ptr<Stream>, std::shared_ptr<Stream>> pair(HostWorld& world);

  SysResult bind(const Endpoint& at) override;
  SysResult listen(int backlog) override;
  SysResult accept(Endpoint& peer) override;
  SysResult connect(const Endpoint& to) override;
  SysResult name(World::End end, Endpoint& endpoint) override;
  SysResult error_option() override { return -std::exchange(error_, 0); }
  int type() const override { return SOCK_STREAM; }
  SysResult receive(msghdr& message) override;
  SysResult send(const msghdr& message) override;
  SysResult shutdown(int how) override;
  void closed(bool crashed) override;
  std::uint32_t bits() const override;

 private:
  enum class State : std::uint8_t { fresh, listening, connecting, open, broken };
  static constexpr std::size_t window = 65'536;

  [[nodiscard]] std::shared_ptr<Stream> self() {
    return std::static_pointer_cast<Stream>(shared_from_this());
  }
  [[nodiscard]] Network& network() noexcept;
  [[nodiscard]] Engine& engine() noexcept;
  /// Calls f, a member, after so long.
  void later(Duration after, void (Stream::*f)());
  [[nodiscard]] std::size_t room() const noexcept;
  [[nodiscard]] bool over() const noexcept;
  [[nodiscard]] bool reachable(const Host& host) noexcept;
  /// True: it has been tried for too long. False: it will be tried again.
  [[nodiscard]] bool give_up_or_retry(Duration first, void (Stream::*again)());
  void knock();
  void answered();
  void refuse() { break_off(ECONNREFUSED); }
  void transmit();
  void arrive();
  void reset_by_peer() { break_off(ECONNRESET); }
  void break_off(int error);
  [[nodiscard]] bool is_pair() const noexcept { return family_ == AF_UNIX; }
  /// So that a transfer is shorter than it could be, sometimes.
  [[nodiscard]] std::size_t cut_short(std::size_t n);

  const int family_;
  State state_ = State::fresh;
  Endpoint local_;
  Endpoint remote_;
  std::weak_ptr<Stream> peer_;  // gone: closed for good, or lost in a crash
  Host* peer_host_ = nullptr;
  // Listening
  std::deque<std::shared_ptr<Stream>> waiting_;
  std::size_t backlog_ = 0;
  // Receiving
  std::string arrived_;
  bool end_arrived_ = false;
  bool deaf_ = false;  // shut down for reading, or closed
  // Sending
  std::string queued_;
  std::string flying_;
  bool end_queued_ = false;
  bool end_flying_ = false;
  bool mute_ = false;  // shut down for writing, or closed
  bool in_flight_ = false;
  int tries_ = 0;
  Instant stuck_since_{};
  int error_ = 0;
  bool gone_ = false;  // its descriptor is closed
};

class Datagrams final : public Descriptor {
 public:
  Datagrams(HostWorld& world, int family) : Descriptor(world), family_(family) {}
  SysResult bind(const Endpoint& at) override;
  SysResult connect(const Endpoint& to) override;
  SysResult name(World::End end, Endpoint& endpoint) override;
  int type() const override { return SOCK_DGRAM; }
  SysResult receive(msghdr& message) override;
  SysResult send(const msghdr& message) override;
  void closed(bool crashed) override;
  std::uint32_t bits() const override;

 private:
  struct Datagram {
    Endpoint from;
    std::string bytes;
  };
  static void deliver(HostWorld& from, Host& to, const Endpoint& at, Datagram datagram);

  const int family_;
  Endpoint local_;
  Endpoint remote_;
  std::deque<Datagram> arrived_;
};

}  // namespace weft::sim

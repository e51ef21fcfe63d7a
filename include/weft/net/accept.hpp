/// Accepting connections: what TcpListener and UnixListener share.
///
///     for (;;) scope.spawn(serve(co_await listener.accept_op()));
///
/// A connection is accepted only once the operation has won, so one that is cancelled or loses a
/// select leaves it in the kernel's queue for the next. Errors that concern one connection (the
/// peer gave up while it was queued) are skipped.
///
/// When there is no descriptor left for another connection (EMFILE), nothing is dropped and nothing
/// spins: the operation tries again every accept_pause, the queue waits in the kernel, and the
/// first time a line on stderr says which limit to raise. (Rejected: a spare descriptor that is
/// given up to accept and close connections one by one. It turns clients away that could be served
/// a moment later.)
#pragma once

#include <weft/net/paced.hpp>
#include <weft/net/socket.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

namespace weft {

struct ListenOptions {
  /// Connections that the kernel keeps for us until we accept them; it has a limit of its own
  /// (net.core.somaxconn).
  int backlog = 1024;
  /// Several listeners, maybe in several processes, share the address; the kernel spreads the
  /// connections.
  bool reuse_port = false;
  /// An IPv6 listener serves IPv4 clients too unless told otherwise.
  bool ipv6_only = false;
};

/// Between two attempts to accept when there are no descriptors.
inline constexpr Duration accept_pause = std::chrono::milliseconds(50);

namespace detail {

/// What a listener and its operations share; outlives whichever goes first.
struct Listening {
  explicit Listening(std::string listener_name) : name(std::move(listener_name)) {}

  const std::string name;
  std::atomic<std::uint64_t> starved{0};
};

/// An accept that gives a bare descriptor.
class AcceptCore : public PacedOp<AcceptCore, Direction::read> {
 public:
  AcceptCore(Source& source, std::shared_ptr<Listening> listening) noexcept
      : PacedOp(source), listening_(std::move(listening)) {}
  AcceptCore(AcceptCore&& other) noexcept
      : PacedOp(std::move(other)),
        listening_(std::move(other.listening_)),
        accepted_(std::exchange(other.accepted_, -1)) {}
  ~AcceptCore();

  SysResult call(Source& source) noexcept;
  Verdict judge(SysResult result) noexcept;
  [[nodiscard]] static Duration pause() noexcept { return accept_pause; }

 protected:
  [[nodiscard]] Fd take_fd(Source::Kind kind);

 private:
  void starve(SysResult error) noexcept;

  std::shared_ptr<Listening> listening_;
  int accepted_ = -1;
  int skipped_ = 0;
};

class Listener : public Socket {
 public:
  Listener() = default;
  /// Named by the address it got, which may be more than what it asked for (port 0).
  explicit Listener(Fd fd)
      : Socket(std::move(fd)), listening_(std::make_shared<Listening>(local().to_string())) {}

  /// How often a connection could not be accepted for want of descriptors or memory.
  [[nodiscard]] std::uint64_t starved() const noexcept {
    // relaxed: a report
    return listening_ == nullptr ? 0 : listening_->starved.load(std::memory_order_relaxed);
  }

 protected:
  std::shared_ptr<Listening> listening_;
};

/// Binds and listens; the address is in the error.
[[nodiscard]] Fd listen_at(const Address& address, Source::Kind kind, const ListenOptions& options);

}  // namespace detail

/// Gives an S: the next connection.
template <class S, Source::Kind kind>
class AcceptOp : public detail::AcceptCore {
 public:
  using Result = S;
  static constexpr Reason reason{"accept"};
  using AcceptCore::AcceptCore;
  S take() { return S(take_fd(kind)); }
};

}  // namespace weft

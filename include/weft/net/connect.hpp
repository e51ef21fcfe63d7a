/// Connecting: to one address, or to the first of several that answers ("happy eyeballs").
///
/// With several addresses (RFC 8305) the first is tried; when `stagger` has passed without an
/// answer, or at once if it fails, the next is tried beside it, and so on. The first connection
/// that stands wins and the others are closed. All of this is one operation, so it can be raced,
/// timed out and cancelled like any other, in a fiber, a coroutine or a plain thread; whatever was
/// half open is closed when it loses.
///
/// If all fail, the error names each address and why.
///
/// Rejected: one task per address. On a plain thread there is nobody to run them side by side.
#pragma once

#include <weft/net/paced.hpp>
#include <weft/net/socket.hpp>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft {

struct ConnectOptions {
  /// How long one address has to answer before the next is tried beside it.
  Duration stagger = std::chrono::milliseconds(250);
};

namespace detail {

/// The order in which to try addresses: families take turns, beginning with that of the first.
[[nodiscard]] std::vector<Address> take_turns(const std::vector<Address>& addresses);

/// A connect that gives a bare descriptor.
class ConnectCore {
 public:
  /// See wait/op.hpp.
  static constexpr bool outside = true;
  /// `target`: what the user asked for, for the error; empty: the address itself.
  ConnectCore(std::vector<Address> addresses, std::string target, Source::Kind kind,
              const ConnectOptions& options);

  [[nodiscard]] ObjectId object() const noexcept;
  bool try_now() noexcept;
  Armed arm(Arm& arm);
  void disarm(Arm& arm) noexcept;
  bool confirm() noexcept;

 protected:
  [[nodiscard]] Fd take_fd();

 private:
  struct Attempt {
    enum class State : std::uint8_t {
      untried,
      under_way,        // the descriptor becomes writable when it is decided
      refused_for_now,  // a Unix listener's queue is full, and nobody says when it is not
      connected,
      failed,
    };
    Address address;
    State state = State::untried;
    SysResult error = 0;
    Fd fd;
    Arm arm;  // a second one of the same wait
  };

  bool advance(bool time_is_up) noexcept;
  void begin(Attempt& attempt) noexcept;
  void dial(Attempt& attempt) noexcept;
  void look_at(Attempt& attempt) noexcept;
  void withdraw() noexcept;
  static void fail(Attempt& attempt, SysResult error) noexcept;
  [[nodiscard]] bool any(Attempt::State state) const noexcept;
  [[noreturn]] void throw_error() const;

  std::vector<Attempt> attempts_;  // in the order in which they begin
  std::size_t begun_ = 0;
  std::string target_;
  Source::Kind kind_;
  Duration stagger_;
  Duration retry_after_;
  std::shared_ptr<World> world_;
  std::optional<Instant> until_;  // of the timer: the next attempt, or the next try of this one
  Pause timer_;
};

}  // namespace detail

/// Gives an S: the connection.
template <class S, Source::Kind kind>
class ConnectOp : public detail::ConnectCore {
 public:
  using Result = S;
  static constexpr Reason reason{"connect"};

  explicit ConnectOp(std::vector<Address> addresses, const ConnectOptions& options = {},
                     std::string target = {})
      : ConnectCore(std::move(addresses), std::move(target), kind, options) {}
  S take() { return S(take_fd()); }
};

}  // namespace weft

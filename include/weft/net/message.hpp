/// Sending and receiving whole messages, with an address or with descriptors: what UdpSocket,
/// UnixDatagram and the descriptor passing of UnixStream are made of.
///
/// For authors of sockets. A message is received only by an operation that has won, so one that is
/// cancelled or loses a select has taken neither bytes nor descriptors. Descriptors that arrive are
/// close-on-exec and owned from the first moment: by the operation, then by the result. Those that
/// find no room are closed by the kernel, and the result says so.
#pragma once

#include <weft/net/address.hpp>
#include <weft/net/paced.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

/// The most descriptors that travel with one message.
inline constexpr std::size_t most_passed_fds = 16;

/// Sends a message, or for streams all of the bytes with descriptors on the first.
class SendMessageOp : public detail::PacedOp<SendMessageOp, Direction::write> {
 public:
  using Result = std::size_t;  // bytes
  static constexpr Reason reason{"send"};

  enum class Style : std::uint8_t {
    stream,    // in parts, if need be
    datagram,  // whole
    polled,    // whole, to somebody whose full queue is not announced to us when it empties
  };
  /// `to`: no address for connected sockets. Throws std::length_error for too many descriptors.
  SendMessageOp(Source& source, Style style, ConstBytes bytes, const Address& to,
                std::span<const int> fds = {});
  Result take() const;

  SysResult call(Source& source) noexcept;
  detail::Verdict judge(SysResult result) noexcept;
  [[nodiscard]] static Duration pause() noexcept { return std::chrono::milliseconds(2); }

 private:
  Style style_;
  ConstBytes left_;
  std::size_t sent_ = 0;
  Address to_;
  std::array<int, most_passed_fds> fds_{};
  std::size_t fd_count_;
};

namespace detail {

/// A receive without a result type.
class ReceiveCore : public SourceOp<ReceiveCore, Direction::read> {
 public:
  static constexpr Reason reason{"receive"};

  /// `most_fds`: 0 for sockets that carry none.
  ReceiveCore(Source& source, Bytes buffer, bool want_from, std::size_t most_fds) noexcept;
  ReceiveCore(ReceiveCore&& other) noexcept;
  ~ReceiveCore();

  SysResult call(Source& source) noexcept;
  bool absorb(SysResult result, std::uint32_t seen) noexcept;

 protected:
  [[nodiscard]] std::size_t size() const;  // or throws
  [[nodiscard]] const Address& from() const noexcept { return from_; }
  [[nodiscard]] bool truncated() const noexcept { return (flags_ & MSG_TRUNC) != 0; }
  [[nodiscard]] bool lost_fds() const noexcept { return (flags_ & MSG_CTRUNC) != 0; }
  [[nodiscard]] std::vector<Fd> take_fds();

 private:
  void keep_fds(msghdr& message) noexcept;
  void take_from(socklen_t size) noexcept;

  Bytes buffer_;
  bool want_from_;
  std::uint8_t most_fds_;
  std::uint8_t fd_count_ = 0;
  int flags_ = 0;
  std::array<int, most_passed_fds> fds_{};  // ours, until taken
  Address from_;
};

}  // namespace detail
}  // namespace weft

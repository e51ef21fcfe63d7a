/// Stream: a connected socket that carries bytes in order. TcpStream and UnixStream are Streams;
/// code that does not care takes a Stream&.
///
///     std::size_t n = stream.read(buffer);             // 0: the peer has ended its half
///     stream.write("hello\n");                         // all of it
///     stream.shutdown_write();                         // our end; reading goes on
///
///     auto n = co_await stream.read_op(buffer);        // in a coroutine
///     auto n = perform(timeout(stream.read_op(buffer), 1s));
///
///     std::uint64_t bytes = co_await co_copy(from, to);   // until `from` ends
///
/// What is said of Fd (io/fd.hpp) holds here: any number of tasks, cancelled reads have read
/// nothing, a peer that is slow holds nobody but those who wait for it.
#pragma once

#include <weft/net/socket.hpp>
#include <weft/task/coro.hpp>

#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

namespace weft {

/// From a file to a socket without passing through the program. Ends early at the end of the file.
class SendFileOp : public SourceOp<SendFileOp, Direction::write> {
 public:
  using Result = std::uint64_t;  // bytes sent
  static constexpr Reason reason{"sendfile"};

  SendFileOp(Source& to, int file, std::uint64_t offset, std::uint64_t count) noexcept
      : SourceOp(to), file_(file), offset_(static_cast<std::int64_t>(offset)), left_(count) {}
  Result take() const;

  SysResult call(Source& to) noexcept;
  bool absorb(SysResult result, std::uint32_t seen) noexcept;

 private:
  int file_;
  std::int64_t offset_;
  std::uint64_t left_;
  std::uint64_t sent_ = 0;
};

class Stream : public Socket {
 public:
  using Socket::Socket;

  /// Up to the size of the buffer; 0 at the end.
  [[nodiscard]] auto read_op(Bytes buffer) const { return fd().read_op(buffer); }
  /// Up to most_buffers of them, in order.
  [[nodiscard]] auto read_op(std::span<const Bytes> buffers) const { return fd().read_op(buffers); }
  /// All of the bytes. If it is cancelled, part of them may have been sent.
  [[nodiscard]] auto write_op(ConstBytes bytes) const { return fd().write_op(bytes); }
  [[nodiscard]] auto write_op(std::span<const ConstBytes> buffers) const {
    return fd().write_op(buffers);
  }
  /// At least one byte (of any), as many as go at once. If it is cancelled, none were sent.
  [[nodiscard]] auto write_some_op(ConstBytes bytes) const { return fd().write_some_op(bytes); }
  [[nodiscard]] auto readable_op() const { return fd().readable_op(); }
  [[nodiscard]] auto writable_op() const { return fd().writable_op(); }
  /// `file`: a descriptor of the same World, open until this ends. Reads the file in this thread,
  /// so a cold disk is waited for here. If it is cancelled, part may have been sent.
  [[nodiscard]] SendFileOp send_file_op(int file, std::uint64_t offset, std::uint64_t count) const {
    return {fd().source(), file, offset, count};
  }

  std::size_t read(Bytes buffer) const { return perform(read_op(buffer)); }
  void write(ConstBytes bytes) const { perform(write_op(bytes)); }
  void write(std::string_view text) const { perform(write_op(as_bytes(text))); }
  std::size_t write_some(ConstBytes bytes) const { return perform(write_some_op(bytes)); }
  std::uint64_t send_file(int file, std::uint64_t offset, std::uint64_t count) const {
    return perform(send_file_op(file, offset, count));
  }

  /// Half close: the peer reads to the end; we may still read.
  void shutdown_write() const { shutdown(Half::write); }
};

template <class T>
concept ByteSource = requires(T& from, Bytes buffer) {
  { from.read_op(buffer) } -> Op;
};
template <class T>
concept ByteSink = requires(T& to, ConstBytes bytes) {
  { to.write_op(bytes) } -> Op;
};

/// Carries bytes from one to the other until the end of `from`, and says how many. Ends neither:
/// who wants to pass the end on calls shutdown_write().
template <ByteSource From, ByteSink To>
Coro<std::uint64_t> co_copy(From& from, To& to, std::size_t buffer_size = std::size_t{32} * 1024) {
  std::vector<std::byte> buffer(buffer_size);
  std::uint64_t total = 0;
  while (const std::size_t n = co_await from.read_op(Bytes(buffer))) {
    co_await to.write_op(ConstBytes(buffer).first(n));
    total += n;
  }
  co_return total;
}

/// The same from a fiber or a plain thread.
template <ByteSource From, ByteSink To>
std::uint64_t copy(From& from, To& to, std::size_t buffer_size = std::size_t{32} * 1024) {
  return await(co_copy(from, to, buffer_size));
}

}  // namespace weft

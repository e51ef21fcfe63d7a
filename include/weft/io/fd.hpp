/// Fd: an owned descriptor on which tasks wait, and the operations every stream has.
///
///     Fd fd = ...;                                  // from TcpStream, pipe(), adopt_fd(...)
///     std::size_t n = fd.read(buffer);              // 0: the end
///     auto got = co_await fd.read_op(buffer);       // in a coroutine
///     fd.write(bytes);                              // all of them
///     perform(timeout(fd.read_op(buffer), 1s));
///
/// Reading and writing never block a worker: they try, and wait if there is nothing. An operation
/// that loses a select or is cancelled has read nothing. A `write_op` that does may have written a
/// part; where that matters use write_some_op, which gives a number or nothing.
///
/// Any number of tasks may read, write and wait at the same time (which bytes go to whom is their
/// affair). close() wakes all of them: they throw std::system_error(EBADF).
///
/// New operations on descriptors derive from SourceOp and provide the call; see ReadOp.
#pragma once

#include <weft/io/source.hpp>
#include <weft/wait/perform.hpp>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace weft {

/// Something to read into, or to write from. Text and byte containers convert.
using Bytes = std::span<std::byte>;
using ConstBytes = std::span<const std::byte>;
[[nodiscard]] inline ConstBytes as_bytes(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}
[[nodiscard]] inline std::string_view as_text(ConstBytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Base of the operations on a descriptor. `Self` provides
///
///     SysResult call(Source&) noexcept       the non-blocking call; -EAGAIN: not now
///     bool absorb(SysResult, seen) noexcept  takes its result; false: there is more to do
///     iovec* part() noexcept                 optional: all that the call does is to receive into
///                                            it, or to send from it: a Carrier may do that
template <class Self, Direction direction>
class SourceOp {
 public:
  /// See wait/op.hpp.
  static constexpr bool outside = true;
  explicit SourceOp(Source& source) noexcept : core_{.source = &source} {}
  SourceOp(SourceOp&& other) noexcept : core_(other.core_) { other.core_.held = false; }
  SourceOp& operator=(SourceOp&&) = delete;
  ~SourceOp() {
    if (core_.held) core_.source->release();
  }

  ObjectId object() const noexcept { return core_.source->id(); }
  bool try_now() noexcept { return !core_.alone && attempt(); }
  Armed arm(Arm& arm) {
    if (!core_.held) {  // from now on the owner may be gone before we are
      core_.source->retain();
      core_.held = true;
    }
    if constexpr (requires(Self& self) { self.part(); }) {
      core_.part = static_cast<Self&>(*this).part();
      core_.seen = core_.source->seen();
      if constexpr (direction == Direction::read) {
        return core_.source->arm(arm, direction, &core_);
      } else if (core_.alone && core_.source->send_later(arm, core_)) {
        return Armed::waiting;
      }
    }
    return core_.source->arm(arm, direction);
  }
  void disarm(Arm& arm) noexcept { core_.source->disarm(arm); }
  bool confirm() noexcept {
    const bool done = core_.delivered ? accept() : attempt();
    core_.source->pass_on(direction);
    return done;
  }

 protected:
  [[nodiscard]] Source& source() const noexcept { return *core_.source; }
  [[nodiscard]] SysResult result() const noexcept { return core_.result; }
  /// The result, or throws; `what` names the call.
  SysResult checked(const char* what) const { return check_sys(core_.result, what); }
  void set_result(SysResult result) noexcept { core_.result = result; }
  /// The waiter waits for nothing else: a send may go with those of others (Op::help()).
  void alone() noexcept { core_.alone = core_.source->carried(); }

 private:
  bool attempt() noexcept {
    auto& self = static_cast<Self&>(*this);
    Source& source = *core_.source;
    for (;;) {
      const std::uint32_t seen = source.seen();
      if (!Source::worth_trying(seen, direction)) return false;
      if (!source.enter()) {
        core_.result = -EBADF;
        return true;
      }
      const SysResult result = self.call(source);
      source.leave();
      if (result == -EAGAIN) {
        source.would_block(seen, direction);
        return false;
      }
      core_.result = result;
      if (self.absorb(result, seen)) return true;
    }
  }

  /// A Carrier has done it, or as much as there was room for: the rest waits for more, as usual.
  bool accept() noexcept {
    core_.delivered = false;
    core_.alone = false;
    if constexpr (direction == Direction::write) {
      if (core_.result == -EAGAIN) {
        core_.source->would_block(core_.seen, direction);
        return false;
      }
      return static_cast<Self&>(*this).absorb(core_.result, core_.seen);
    }
    return true;
  }

  Transfer core_;
};

/// Waits until a call in this direction may succeed: for descriptors of libraries that do their own
/// reading. Says only what was last known; the call itself may still find nothing.
template <Direction direction>
class ReadyOp {
 public:
  using Result = void;
  static constexpr Reason reason{direction == Direction::read ? "readable" : "writable"};
  static constexpr bool outside = true;

  explicit ReadyOp(Source& source) noexcept : source_(&source) {}
  ReadyOp(ReadyOp&& other) noexcept
      : source_(other.source_), held_(std::exchange(other.held_, false)) {}
  ReadyOp& operator=(ReadyOp&&) = delete;
  ~ReadyOp() {
    if (held_) source_->release();
  }
  ObjectId object() const noexcept { return source_->id(); }
  bool try_now() const noexcept {
    const std::uint32_t seen = source_->seen();
    return (seen & Source::assumed) == 0 && Source::worth_trying(seen, direction);
  }
  Armed arm(Arm& arm) {
    if (!held_) {
      source_->retain();
      held_ = true;
    }
    // A guess is not enough here: without it, the kernel is asked.
    if (const std::uint32_t seen = source_->seen(); (seen & Source::assumed) != 0) {
      source_->would_block(seen, direction);
    }
    return source_->arm(arm, direction);
  }
  void disarm(Arm& arm) noexcept { source_->disarm(arm); }
  bool confirm() noexcept {
    source_->pass_on(direction);
    return true;
  }
  void take() const {
    if (source_->closed()) throw_sys_error(-EBADF, "waiting for a descriptor");
  }

 private:
  Source* source_;
  bool held_ = false;
};

/// Up to the size of the buffers; 0 at the end of the stream. `Count`: the most buffers.
template <std::size_t Count>
class ReadOp : public SourceOp<ReadOp<Count>, Direction::read> {
  using Base = SourceOp<ReadOp<Count>, Direction::read>;

 public:
  using Result = std::size_t;
  static constexpr Reason reason{"read"};

  ReadOp(Source& source, std::span<const Bytes> buffers) noexcept;
  Result take() { return static_cast<std::size_t>(this->checked("read")); }

  SysResult call(Source& source) noexcept;
  iovec* part() noexcept
    requires(Count == 1)
  {
    return parts_.data();
  }
  bool absorb(SysResult result, std::uint32_t seen) noexcept {
    if (result > 0 && static_cast<std::size_t>(result) < wanted() &&
        this->source().short_read_means_empty()) {
      this->source().used_up(seen, Direction::read);
    }
    return true;
  }

 private:
  [[nodiscard]] std::size_t wanted() const noexcept {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < count_; ++i) sum += parts_[i].iov_len;
    return sum;
  }

  std::array<iovec, Count> parts_;
  std::uint8_t count_;
};

/// All of the buffers, or with `some` what one call can.
template <std::size_t Count>
class WriteOp : public SourceOp<WriteOp<Count>, Direction::write> {
  using Base = SourceOp<WriteOp<Count>, Direction::write>;

 public:
  using Result = std::size_t;
  static constexpr Reason reason{"write"};

  WriteOp(Source& source, std::span<const ConstBytes> buffers, bool some) noexcept;
  Result take() {
    this->checked("write");
    return written_;
  }

  SysResult call(Source& source) noexcept;
  bool absorb(SysResult result, std::uint32_t seen) noexcept;
  void help() noexcept
    requires(Count == 1)
  {
    this->alone();
  }
  iovec* part() noexcept
    requires(Count == 1)
  {
    return parts_.data() + first_;
  }

 private:
  std::array<iovec, Count> parts_;  // what is left
  std::size_t written_ = 0;
  std::uint8_t first_ = 0;
  std::uint8_t count_;
  bool some_;
};

/// The most buffers of one vectored read or write.
inline constexpr std::size_t most_buffers = 16;
extern template class ReadOp<1>;
extern template class ReadOp<most_buffers>;
extern template class WriteOp<1>;
extern template class WriteOp<most_buffers>;

class Fd {
 public:
  Fd() = default;
  /// Takes `fd` over: a descriptor of `world`, non-blocking.
  Fd(std::shared_ptr<World> world, int fd, Source::Kind kind)
      : source_(Source::open(std::move(world), fd, kind)) {}
  Fd(Fd&& other) noexcept : source_(std::exchange(other.source_, nullptr)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      source_ = std::exchange(other.source_, nullptr);
    }
    return *this;
  }
  ~Fd() { reset(); }

  /// False when empty or closed.
  explicit operator bool() const noexcept { return source_ != nullptr && !source_->closed(); }
  /// The descriptor's number; -1 if empty.
  [[nodiscard]] int number() const noexcept { return source_ == nullptr ? -1 : source_->fd(); }
  [[nodiscard]] Source& source() const {
    if (source_ == nullptr) throw_sys_error(-EBADF, "an empty Fd");
    return *source_;
  }
  [[nodiscard]] World& world() const { return source().world(); }

  /// Waiters wake with an error. Idempotent.
  void close() noexcept {
    if (source_ != nullptr) source_->close();
  }
  /// On a loop with io_uring, bytes of a TCP stream may be received before anybody asks for them
  /// (docs/decisions/0012). This ends that until the next read: for streams that change hands, or
  /// whose number somebody else is to read from. On the thread of the loop that has read from it
  /// last. False: some have come already, and have to be read first.
  bool settle() const noexcept { return source_ == nullptr || source_->settle(); }
  /// Gives the number away, open and still non-blocking; -1 if empty, closed, in use by a call, or
  /// not to be settled.
  [[nodiscard]] int release() noexcept { return source_ == nullptr ? -1 : source_->take_number(); }

  [[nodiscard]] auto readable_op() const { return ReadyOp<Direction::read>(source()); }
  [[nodiscard]] auto writable_op() const { return ReadyOp<Direction::write>(source()); }

  [[nodiscard]] auto read_op(Bytes buffer) const {
    return ReadOp<1>(source(), std::span<const Bytes>(&buffer, 1));
  }
  [[nodiscard]] auto write_op(ConstBytes bytes) const {
    return WriteOp<1>(source(), std::span<const ConstBytes>(&bytes, 1), false);
  }
  [[nodiscard]] auto write_some_op(ConstBytes bytes) const {
    return WriteOp<1>(source(), std::span<const ConstBytes>(&bytes, 1), true);
  }
  /// Up to most_buffers at once; more are an error (std::length_error).
  [[nodiscard]] ReadOp<most_buffers> read_op(std::span<const Bytes> buffers) const;
  [[nodiscard]] WriteOp<most_buffers> write_op(std::span<const ConstBytes> buffers) const;

  std::size_t read(Bytes buffer) const { return perform(read_op(buffer)); }
  void write(ConstBytes bytes) const { perform(write_op(bytes)); }
  void write(std::string_view text) const { perform(write_op(as_bytes(text))); }
  std::size_t write_some(ConstBytes bytes) const { return perform(write_some_op(bytes)); }

 private:
  void reset() noexcept {
    if (source_ == nullptr) return;
    source_->close();
    std::exchange(source_, nullptr)->release();
  }

  Source* source_ = nullptr;
};

/// Where descriptors made now come from: the World of the calling task's Io; on a plain thread, the
/// machine.
[[nodiscard]] std::shared_ptr<World> this_world();

/// Takes over a descriptor of the machine from elsewhere (a library, an inherited socket) and makes
/// it non-blocking.
[[nodiscard]] Fd adopt_fd(int fd);

}  // namespace weft

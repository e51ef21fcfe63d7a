/// Reader and Writer: buffers in front of a stream, for protocols made of lines and records.
///
///     Reader in(socket);                            // borrows: the stream outlives both
///     Writer out(socket);
///     for (std::string_view line : in.lines()) {    // a fiber, or a plain thread
///       out.write(answer(line));
///       if (in.buffered() == 0) out.flush();        // one system call for a burst of requests
///     }
///     out.flush();                                  // the destructor does not
///
///     while (auto line = co_await in.line_op())     // a coroutine
///       co_await out.write_op(*line);
///
///     auto line = perform(timeout(in.line_op(), 1s));   // no value: time ran out. *line empty:
///     end
///
/// The stream is anything with `read_op(Bytes)` (for a Reader) or `write_some_op(ConstBytes)` (for
/// a Writer) whose result is a number of bytes: an Fd, a TcpStream, something that encrypts.
///
/// Reader. Text and bytes are given as views into the buffer, valid until the next operation on the
/// Reader begins, whatever comes of that; who keeps them copies them. Each operation is one Op, and
/// all or nothing: while it waits, what has come lies in the buffer, so one that loses a select,
/// times out, is cancelled or fails has taken no byte, and an equal one goes on where it stopped.
/// The end of the stream is not remembered: the next operation asks the stream again.
///
/// The buffer has `buffer_size` bytes, made on first use. It grows when one operation needs more at
/// once, and goes back when it has been emptied. What a peer can make it grow to is `most`.
///
/// Writer. A write is all or nothing too: it takes all bytes, waiting only while the buffer is
/// full, or none. Bytes arrive in the order of the writes. A flush that loses, is cancelled or
/// fails keeps exactly the bytes that the stream has not taken. More than fits is accepted by an
/// empty buffer: the stream gets what it takes at once, the rest is copied. So a Writer holds at
/// most max(buffer_size, one write).
///
/// A Writer that is destroyed does not flush. It cannot: that waits, and may fail, and most often
/// it happens because something has failed or was cancelled already. Bytes it still has are lost,
/// and are counted (unflushed_bytes_lost(), 0 in a program that does it right). Not a check:
/// whether a peer that reads slowly or goes away leaves unsent bytes is not up to the program. Who
/// gives bytes up on purpose says drop().
///
/// One task at a time uses a Reader, and one a Writer (on the same stream, they may be two); a
/// second operation on a Reader in which one is waiting is a failed check.
///
/// Rejected: reading a large record straight into the caller's memory (read_exactly_op(Bytes)). A
/// wait that is cancelled would have to give bytes back. For bulk use read_some_op: it goes past
/// the buffer.
#pragma once

#include <weft/io/buffer_goals.hpp>
#include <weft/io/steps.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace weft {

template <class S>
concept ReadableStream = requires(S& stream, Bytes into) {
  requires Op<decltype(stream.read_op(into))>;
  requires std::same_as<ResultOf<decltype(stream.read_op(into))>, std::size_t>;  // 0: the end
};
template <class S>
concept WritableStream = requires(S& stream, ConstBytes from) {
  requires Op<decltype(stream.write_some_op(from))>;  // all it can at once, or nothing if it loses
  requires std::same_as<ResultOf<decltype(stream.write_some_op(from))>, std::size_t>;
};

struct ReaderOptions {
  std::size_t buffer_size = 8192;
  /// The most bytes of one line, record or peek, delimiter aside.
  std::size_t most = std::size_t{1} << 20;
};
struct WriterOptions {
  std::size_t buffer_size = 8192;
};

/// More than the Reader may hold. The bytes are still there: read_some_op and skip_op get past
/// them.
class TooLong : public std::system_error {
 public:
  TooLong(const std::string& what, std::size_t limit);
  [[nodiscard]] std::size_t limit() const noexcept { return limit_; }

 private:
  std::size_t limit_;
};

/// The stream ended in the middle. What came is still in the Reader.
class EndOfStream : public std::system_error {
 public:
  EndOfStream(std::size_t got, std::size_t wanted);
  /// 0: it ended before the first byte, which between two records may be fine.
  [[nodiscard]] std::size_t got() const noexcept { return got_; }
  [[nodiscard]] std::size_t wanted() const noexcept { return wanted_; }

 private:
  std::size_t got_;
  std::size_t wanted_;
};

/// Bytes that Writers of this process had accepted and not sent when they were destroyed.
[[nodiscard]] std::uint64_t unflushed_bytes_lost() noexcept;

namespace detail {

template <class S, class Goal>
class ReadSteps : public Goal {
 public:
  template <class... Args>
  explicit ReadSteps(S& stream, Args&&... args)
      : Goal(std::forward<Args>(args)...), stream_(&stream) {}
  auto next() { return stream_->read_op(this->space()); }

 private:
  S* stream_;
};

template <class S>
class FlushSteps {
 public:
  using Result = void;
  FlushSteps(S& stream, WriteBuffer& buffer) noexcept : stream_(&stream), buffer_(&buffer) {}
  [[nodiscard]] OneAtATime& turn() const noexcept { return buffer_->turn; }
  [[nodiscard]] bool done() const noexcept { return buffer_->size() == 0; }
  auto next() { return stream_->write_some_op(buffer_->bytes()); }
  void absorb(std::size_t count) { buffer_->sent(count); }
  void take() const noexcept {}

 protected:
  S* stream_;
  WriteBuffer* buffer_;
};

template <class S>
class WriteSteps : public FlushSteps<S> {
 public:
  WriteSteps(S& stream, WriteBuffer& buffer, ConstBytes bytes) noexcept
      : FlushSteps<S>(stream, buffer), bytes_(bytes) {}
  [[nodiscard]] bool done() const noexcept { return this->buffer_->takes(bytes_.size()); }
  void take() {
    WriteBuffer& buffer = *this->buffer_;
    if (!buffer.large(bytes_.size())) return buffer.append(bytes_);
    // Memory for all of it first: once a part is sent, keeping the rest must not fail.
    buffer.reserve(bytes_.size());
    auto direct = this->stream_->write_some_op(bytes_);
    const auto k = branch::poll(direct);
    buffer.append(bytes_.subspan(k ? branch::take(direct, *k) : 0));
  }

 private:
  ConstBytes bytes_;
};

}  // namespace detail

template <ReadableStream S>
class Reader {
 public:
  explicit Reader(S& stream, const ReaderOptions& options = {})
      : stream_(stream), buffer_(options.buffer_size, options.most) {}
  Reader(const S&& stream, const ReaderOptions& options = {}) = delete;  // it is only borrowed
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  [[nodiscard]] S& stream() const noexcept { return stream_; }
  /// Bytes that can be read without asking the stream.
  [[nodiscard]] std::size_t buffered() const noexcept { return buffer_.size(); }

  /// Up to the delimiter, and with it. Without it only if the stream ended first; nothing if there
  /// was nothing before the end. Throws TooLong. A string's characters are borrowed.
  [[nodiscard]] auto read_until_op(char delimiter) { return steps<detail::UntilGoal>(delimiter); }
  [[nodiscard]] auto read_until_op(std::string_view delimiter) {
    return steps<detail::UntilGoal>(delimiter);
  }
  /// The next line without its "\n" or "\r\n"; the last one may have none. Nothing at the end.
  [[nodiscard]] auto line_op() {
    return map(read_until_op('\n'), [](std::optional<std::string_view> line) {
      if (line && line->ends_with('\n')) {
        line->remove_suffix(line->ends_with("\r\n") ? 2 : 1);
      }
      return line;
    });
  }
  /// Exactly `count` bytes. Throws EndOfStream, and TooLong if that is more than `most`.
  [[nodiscard]] auto read_exactly_op(std::size_t count) {
    return map(steps<detail::FillGoal>(count, true), [this, count](ConstBytes got) {
      consume_exactly(got, count);
      return got;
    });
  }
  /// Fills `out`, however large it is. Throws EndOfStream; then `out` is as it was.
  [[nodiscard]] auto read_exactly_op(Bytes out) {
    return map(steps<detail::FillGoal>(out.size(), false), [this, out](ConstBytes got) {
      consume_exactly(got, out.size());
      std::ranges::copy(got, out.begin());
    });
  }
  /// What is there, at least one byte; 0 at the end. Past the buffer if `out` is no smaller.
  [[nodiscard]] auto read_some_op(Bytes out) { return steps<detail::SomeGoal>(out); }
  /// The same: a Reader is itself a stream, for who reads the rest.
  [[nodiscard]] auto read_op(Bytes out) { return read_some_op(out); }
  /// The next `count` bytes, which stay; fewer if the stream ends before. Throws TooLong if that is
  /// more than `most`.
  [[nodiscard]] auto peek_op(std::size_t count) { return steps<detail::FillGoal>(count, true); }
  /// Drops what is there, at least one byte and at most `count`; says how many. 0 at the end. After
  /// a peek: just those, without waiting.
  [[nodiscard]] auto skip_op(std::size_t count) {
    const std::size_t least = std::min<std::size_t>(count, 1);
    return map(steps<detail::FillGoal>(least, false), [this, count](ConstBytes) {
      const std::size_t skipped = std::min(count, buffered());
      buffer_.consume(skipped);
      return skipped;
    });
  }
  /// All there is until the end. Throws TooLong if that is more than `limit`.
  [[nodiscard]] auto read_all_op(std::size_t limit) { return steps<detail::AllGoal>(limit); }
  [[nodiscard]] auto read_all_op() { return read_all_op(buffer_.most()); }

  std::optional<std::string_view> read_until(char delimiter) {
    return perform(read_until_op(delimiter));
  }
  std::optional<std::string_view> read_until(std::string_view delimiter) {
    return perform(read_until_op(delimiter));
  }
  std::optional<std::string_view> line() { return perform(line_op()); }
  ConstBytes read_exactly(std::size_t count) { return perform(read_exactly_op(count)); }
  void read_exactly(Bytes out) { perform(read_exactly_op(out)); }
  std::size_t read_some(Bytes out) { return perform(read_some_op(out)); }
  ConstBytes peek(std::size_t count) { return perform(peek_op(count)); }
  std::size_t skip(std::size_t count) { return perform(skip_op(count)); }
  std::string read_all(std::size_t limit) { return perform(read_all_op(limit)); }
  std::string read_all() { return perform(read_all_op()); }

  /// For fibers and plain threads: the lines that are left, each read when the loop comes to it.
  class Lines {
   public:
    class Iterator {
     public:
      using value_type = std::string_view;
      using difference_type = std::ptrdiff_t;
      explicit Iterator(Reader& reader) : reader_(&reader), line_(reader.line()) {}
      std::string_view operator*() const noexcept { return *line_; }
      Iterator& operator++() {
        line_ = reader_->line();
        return *this;
      }
      void operator++(int) { ++*this; }
      bool operator==(std::default_sentinel_t) const noexcept { return !line_; }

     private:
      Reader* reader_;
      std::optional<std::string_view> line_;
    };

    explicit Lines(Reader& reader) noexcept : reader_(&reader) {}
    [[nodiscard]] Iterator begin() const { return Iterator(*reader_); }
    [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

   private:
    Reader* reader_;
  };
  [[nodiscard]] Lines lines() noexcept { return Lines(*this); }

 private:
  template <class Goal, class... Args>
  auto steps(Args... args) {
    return StepsOp(detail::ReadSteps<S, Goal>(stream_, buffer_, args...));
  }
  void consume_exactly(ConstBytes got, std::size_t count) {
    if (got.size() < count) throw EndOfStream(got.size(), count);
    buffer_.consume(count);
  }

  S& stream_;
  detail::ReadBuffer buffer_;
};

template <WritableStream S>
class Writer {
 public:
  explicit Writer(S& stream, const WriterOptions& options = {})
      : stream_(stream), buffer_(options.buffer_size) {}
  Writer(const S&& stream, const WriterOptions& options = {}) = delete;  // it is only borrowed
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;
  ~Writer() = default;  // does not flush: see above

  [[nodiscard]] S& stream() const noexcept { return stream_; }
  /// Bytes accepted that the stream has not taken.
  [[nodiscard]] std::size_t unsent() const noexcept { return buffer_.size(); }
  /// Gives those up; says how many there were.
  std::size_t drop() noexcept { return buffer_.drop(); }

  /// Accepts all the bytes once there is room. They are borrowed until then.
  [[nodiscard]] auto write_op(ConstBytes bytes) {
    return StepsOp(detail::WriteSteps<S>(stream_, buffer_, bytes));
  }
  [[nodiscard]] auto write_op(std::string_view text) { return write_op(as_bytes(text)); }
  /// Until the stream has taken everything.
  [[nodiscard]] auto flush_op() { return StepsOp(detail::FlushSteps<S>(stream_, buffer_)); }

  void write(ConstBytes bytes) { perform(write_op(bytes)); }
  void write(std::string_view text) { perform(write_op(text)); }
  void flush() { perform(flush_op()); }

 private:
  S& stream_;
  detail::WriteBuffer buffer_;
};

}  // namespace weft

/// What Reader and Writer (io/buffered.hpp) are without their stream: the bytes they hold, and the
/// goals their operations have with them (io/steps.hpp).
#pragma once

#include <weft/io/fd.hpp>
#include <weft/io/steps.hpp>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace weft::detail {

/// Memory of which [begin, end) is in use.
class ByteQueue {
 public:
  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] bool empty() const noexcept { return begin_ == end_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] ConstBytes bytes() const noexcept { return {memory_.get() + begin_, size()}; }
  [[nodiscard]] std::string_view text() const noexcept { return as_text(bytes()); }
  [[nodiscard]] Bytes free() noexcept { return {memory_.get() + end_, capacity_ - end_}; }
  void added(std::size_t count) noexcept { end_ += count; }
  void removed(std::size_t count) noexcept { begin_ += count; }

  /// Afterwards `total` bytes, of which the first are there already, fit.
  void make_room(std::size_t total, std::size_t new_capacity);
  /// Gives the memory back; all bytes are gone.
  void release() noexcept;

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// What a Reader is without its stream.
class ReadBuffer {
 public:
  ReadBuffer(std::size_t buffer_size, std::size_t most) noexcept;

  [[nodiscard]] std::size_t buffer_size() const noexcept { return buffer_size_; }
  [[nodiscard]] std::size_t most() const noexcept { return most_; }
  [[nodiscard]] std::size_t size() const noexcept { return queue_.size(); }
  [[nodiscard]] ConstBytes bytes() const noexcept { return queue_.bytes(); }
  [[nodiscard]] std::string_view text() const noexcept { return queue_.text(); }
  /// The bytes stay where they are until room() is called.
  void consume(std::size_t count) noexcept { queue_.removed(count); }
  std::size_t move_to(Bytes out) noexcept;
  /// Memory to read into: enough that `total` bytes will fit, perhaps more, up to `most`.
  [[nodiscard]] Bytes room(std::size_t total, std::size_t most);
  void came(std::size_t count) noexcept { queue_.added(count); }

  OneAtATime turn;

 private:
  std::size_t buffer_size_;
  std::size_t most_;
  ByteQueue queue_;
};

/// What a Writer is without its stream.
class WriteBuffer {
 public:
  explicit WriteBuffer(std::size_t buffer_size) noexcept;
  WriteBuffer(const WriteBuffer&) = delete;
  WriteBuffer& operator=(const WriteBuffer&) = delete;
  ~WriteBuffer();

  [[nodiscard]] std::size_t size() const noexcept { return queue_.size(); }
  [[nodiscard]] ConstBytes bytes() const noexcept { return queue_.bytes(); }
  /// May a write of `count` bytes be accepted now?
  [[nodiscard]] bool takes(std::size_t count) const noexcept {
    return queue_.empty() || count <= buffer_size_ - std::min(size(), buffer_size_);
  }
  /// Is it too large to be copied without need?
  [[nodiscard]] bool large(std::size_t count) const noexcept {
    return queue_.empty() && count >= buffer_size_;
  }
  void reserve(std::size_t count);
  void append(ConstBytes bytes);
  void sent(std::size_t count);
  std::size_t drop() noexcept;

  OneAtATime turn;

 private:
  std::size_t buffer_size_;
  ByteQueue queue_;
};

// What is wanted of a ReadBuffer. Each says whether it has that, and where to read to if not.

class ReadGoal {
 public:
  explicit ReadGoal(ReadBuffer& buffer) noexcept : buffer_(&buffer) {}
  [[nodiscard]] OneAtATime& turn() const noexcept { return buffer_->turn; }
  void absorb(std::size_t count) noexcept {
    if (count == 0) ended_ = true;
    buffer_->came(count);
  }

 protected:
  ReadBuffer* buffer_;
  bool ended_ = false;
};

class UntilGoal : public ReadGoal {
 public:
  using Result = std::optional<std::string_view>;
  UntilGoal(ReadBuffer& buffer, char delimiter) noexcept : ReadGoal(buffer), one_(delimiter) {}
  UntilGoal(ReadBuffer& buffer, std::string_view delimiter) noexcept;
  [[nodiscard]] bool done();
  [[nodiscard]] Bytes space();
  Result take() noexcept;

 private:
  [[nodiscard]] std::string_view delimiter() const noexcept {
    return many_.empty() ? std::string_view(&one_, 1) : many_;
  }
  [[nodiscard]] std::size_t longest() const noexcept;

  char one_ = '\0';
  std::string_view many_;
  std::size_t searched_ = 0;
  std::size_t length_ = 0;
};

/// `count` bytes in the buffer, or all there are before the end. Consumes nothing.
class FillGoal : public ReadGoal {
 public:
  using Result = ConstBytes;
  FillGoal(ReadBuffer& buffer, std::size_t count, bool limited) noexcept
      : ReadGoal(buffer), count_(count), limited_(limited) {}
  [[nodiscard]] bool done() const;
  [[nodiscard]] Bytes space() { return buffer_->room(count_, count_); }
  [[nodiscard]] Result take() const noexcept {
    return buffer_->bytes().first(std::min(count_, buffer_->size()));
  }

 private:
  std::size_t count_;
  bool limited_;
};

class SomeGoal : public ReadGoal {
 public:
  using Result = std::size_t;
  SomeGoal(ReadBuffer& buffer, Bytes out) noexcept
      : ReadGoal(buffer), out_(out), direct_(out.size() >= buffer.buffer_size()) {}
  [[nodiscard]] bool done() const noexcept {
    return came_ > 0 || buffer_->size() > 0 || ended_ || out_.empty();
  }
  [[nodiscard]] Bytes space() { return direct_ ? out_ : buffer_->room(1, 1); }
  void absorb(std::size_t count) noexcept {
    if (!direct_ || count == 0) return ReadGoal::absorb(count);
    came_ = count;
  }
  [[nodiscard]] Result take() const noexcept { return came_ > 0 ? came_ : buffer_->move_to(out_); }

 private:
  Bytes out_;
  bool direct_;
  std::size_t came_ = 0;  // past the buffer
};

class AllGoal : public ReadGoal {
 public:
  using Result = std::string;
  AllGoal(ReadBuffer& buffer, std::size_t limit) noexcept : ReadGoal(buffer), limit_(limit) {}
  [[nodiscard]] bool done() const;
  [[nodiscard]] Bytes space();
  Result take();

 private:
  std::size_t limit_;
};

}  // namespace weft::detail

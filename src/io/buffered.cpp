#include <weft/io/buffered.hpp>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>

namespace weft {

namespace {

std::atomic<std::uint64_t> lost_bytes{0};

std::size_t saturated_sum(std::size_t a, std::size_t b) noexcept {
  return a > std::numeric_limits<std::size_t>::max() - b ? std::numeric_limits<std::size_t>::max()
                                                         : a + b;
}

}  // namespace

TooLong::TooLong(const std::string& what, std::size_t limit)
    : std::system_error(std::make_error_code(std::errc::message_size), what), limit_(limit) {}

EndOfStream::EndOfStream(std::size_t got, std::size_t wanted)
    : std::system_error(std::error_code(ENODATA, std::generic_category()),
                        "the stream ended after " + std::to_string(got) + " of " +
                            std::to_string(wanted) + " bytes"),
      got_(got),
      wanted_(wanted) {}

std::uint64_t unflushed_bytes_lost() noexcept {
  return lost_bytes.load(std::memory_order_relaxed);  // relaxed: a count, nothing depends on it
}

namespace detail {

// Moving costs at most as much as has been removed since the last move, or what a goal that does
// not fit otherwise asks for.
void ByteQueue::make_room(std::size_t total, std::size_t new_capacity) {
  const bool grow = total > capacity_;
  const bool move =
      total > capacity_ - begin_ || (begin_ >= size() && capacity_ - end_ < capacity_ / 2);
  if (!grow && !move) return;
  const std::size_t kept = size();
  std::unique_ptr<std::byte[]> grown;
  if (grow) grown = std::make_unique_for_overwrite<std::byte[]>(new_capacity);
  std::byte* to = grow ? grown.get() : memory_.get();
  if (kept > 0) std::memmove(to, memory_.get() + begin_, kept);
  if (grow) {
    memory_ = std::move(grown);
    capacity_ = new_capacity;
  }
  begin_ = 0;
  end_ = kept;
}

void ByteQueue::release() noexcept {
  memory_.reset();
  capacity_ = begin_ = end_ = 0;
}

ReadBuffer::ReadBuffer(std::size_t buffer_size, std::size_t most) noexcept
    : buffer_size_(buffer_size), most_(most) {
  WEFT_CHECK(buffer_size > 0, "a Reader needs a buffer");
}

std::size_t ReadBuffer::move_to(Bytes out) noexcept {
  const std::size_t count = std::min(out.size(), size());
  if (count > 0) std::memcpy(out.data(), bytes().data(), count);
  consume(count);
  return count;
}

Bytes ReadBuffer::room(std::size_t total, std::size_t most) {
  if (queue_.empty() && queue_.capacity() > buffer_size_ && total <= buffer_size_) queue_.release();
  queue_.make_room(total, std::max({total, std::min(queue_.capacity() * 2, most), buffer_size_}));
  return queue_.free();
}

WriteBuffer::WriteBuffer(std::size_t buffer_size) noexcept : buffer_size_(buffer_size) {
  WEFT_CHECK(buffer_size > 0, "a Writer needs a buffer");
}

WriteBuffer::~WriteBuffer() {
  // relaxed: as in unflushed_bytes_lost()
  if (size() > 0) lost_bytes.fetch_add(size(), std::memory_order_relaxed);
}

void WriteBuffer::reserve(std::size_t count) {
  queue_.make_room(size() + count, std::max(size() + count, buffer_size_));
}

void WriteBuffer::append(ConstBytes bytes) {
  if (!bytes.empty()) {
    reserve(bytes.size());
    std::memcpy(queue_.free().data(), bytes.data(), bytes.size());
    queue_.added(bytes.size());
  }
  if (queue_.empty() && queue_.capacity() > buffer_size_) queue_.release();
}

void WriteBuffer::sent(std::size_t count) {
  if (count == 0) {
    throw std::system_error(std::make_error_code(std::errc::io_error),
                            "write: the stream took nothing, and did not say why");
  }
  queue_.removed(count);
  if (queue_.empty() && queue_.capacity() > buffer_size_) queue_.release();
}

std::size_t WriteBuffer::drop() noexcept {
  turn.check(nullptr);
  const std::size_t dropped = size();
  queue_.release();
  return dropped;
}

UntilGoal::UntilGoal(ReadBuffer& buffer, std::string_view delimiter) noexcept
    : ReadGoal(buffer), many_(delimiter) {
  WEFT_CHECK(!delimiter.empty(), "read_until: the delimiter is empty");
}

std::size_t UntilGoal::longest() const noexcept {
  return saturated_sum(buffer_->most(), delimiter().size());
}

bool UntilGoal::done() {
  const std::string_view wanted = delimiter();
  const std::string_view text = buffer_->text().substr(0, longest());
  const std::size_t at = many_.empty() ? text.find(one_, searched_) : text.find(many_, searched_);
  if (at != std::string_view::npos) {
    length_ = at + wanted.size();
    return true;
  }
  if (text.size() == longest()) {
    const std::size_t most = buffer_->most();
    throw TooLong("no delimiter within the " + std::to_string(most) + " bytes a Reader may hold",
                  most);
  }
  searched_ = text.size() - std::min(text.size(), wanted.size() - 1);
  length_ = text.size();
  return ended_;
}

Bytes UntilGoal::space() {
  return buffer_->room(buffer_->size() + 1, longest());
}

UntilGoal::Result UntilGoal::take() noexcept {
  if (length_ == 0) return std::nullopt;
  const std::string_view found = buffer_->text().substr(0, length_);
  buffer_->consume(length_);
  return found;
}

bool FillGoal::done() const {
  const std::size_t most = buffer_->most();
  if (limited_ && count_ > most) {
    throw TooLong(std::to_string(count_) + " bytes at once, but a Reader may hold " +
                      std::to_string(most) + "; raise its `most`, or give memory to read into",
                  most);
  }
  return buffer_->size() >= count_ || ended_;
}

bool AllGoal::done() const {
  if (buffer_->size() > limit_) {
    throw TooLong("the stream has more than " + std::to_string(limit_) + " bytes", limit_);
  }
  return ended_;
}

Bytes AllGoal::space() {
  return buffer_->room(buffer_->size() + 1, saturated_sum(limit_, 1));
}

AllGoal::Result AllGoal::take() {
  std::string all(buffer_->text());
  buffer_->consume(all.size());
  return all;
}

}  // namespace detail
}  // namespace weft

#include <weft/io/fd.hpp>

#include <weft/task/io.hpp>

#include <algorithm>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>

namespace weft {

namespace {

iovec to_iovec(ConstBytes bytes) noexcept {
  // The machine's own type has no const; it does not write to what is being sent.
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

msghdr message_of(iovec* parts, int count) noexcept {
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = static_cast<std::size_t>(count);
  return message;
}

void check_count(std::size_t count) {
  if (count <= most_buffers) return;
  throw std::length_error("one vectored operation takes at most " + std::to_string(most_buffers) +
                          " buffers, not " + std::to_string(count) + "; make several");
}

}  // namespace

template <std::size_t Count>
ReadOp<Count>::ReadOp(Source& source, std::span<const Bytes> buffers) noexcept
    : Base(source), count_(static_cast<std::uint8_t>(buffers.size())) {
  for (std::size_t i = 0; i < buffers.size(); ++i) parts_[i] = to_iovec(buffers[i]);
}

template <std::size_t Count>
SysResult ReadOp<Count>::call(Source& source) noexcept {
  if (!source.is_socket()) return source.world().read(source.fd(), parts_.data(), count_);
  if (source.keeps()) [[unlikely]] {
    if (const auto kept = source.read_kept(parts_.data(), count_)) return *kept;
  }
  msghdr message = message_of(parts_.data(), count_);
  return source.world().receive(source.fd(), message, 0);
}

template <std::size_t Count>
WriteOp<Count>::WriteOp(Source& source, std::span<const ConstBytes> buffers, bool some) noexcept
    : Base(source), count_(static_cast<std::uint8_t>(buffers.size())), some_(some) {
  for (std::size_t i = 0; i < buffers.size(); ++i) parts_[i] = to_iovec(buffers[i]);
}

template <std::size_t Count>
SysResult WriteOp<Count>::call(Source& source) noexcept {
  iovec* from = parts_.data() + first_;
  const int count = count_ - first_;
  if (!source.is_socket()) return source.world().write(source.fd(), from, count);
  return source.world().send(source.fd(), message_of(from, count), 0);
}

template <std::size_t Count>
bool WriteOp<Count>::absorb(SysResult result, std::uint32_t seen) noexcept {
  if (result < 0) return true;
  auto done = static_cast<std::size_t>(result);
  written_ += done;
  for (; first_ < count_; ++first_) {
    iovec& part = parts_[first_];
    const std::size_t step = std::min(done, part.iov_len);
    part.iov_base = static_cast<std::byte*>(part.iov_base) + step;
    part.iov_len -= step;
    done -= step;
    if (part.iov_len > 0) break;
  }
  if (first_ == count_) return true;
  this->source().used_up(seen, Direction::write);
  return some_;
}

template class ReadOp<1>;
template class ReadOp<most_buffers>;
template class WriteOp<1>;
template class WriteOp<most_buffers>;

ReadOp<most_buffers> Fd::read_op(std::span<const Bytes> buffers) const {
  check_count(buffers.size());
  return ReadOp<most_buffers>(source(), buffers);
}

WriteOp<most_buffers> Fd::write_op(std::span<const ConstBytes> buffers) const {
  check_count(buffers.size());
  return WriteOp<most_buffers>(source(), buffers, false);
}

std::shared_ptr<World> this_world() {
  const Task* task = this_task();
  return task == nullptr ? machine() : task->io().kernel().world();
}

Fd adopt_fd(int fd) {
  struct stat status{};
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fstat(fd, &status) != 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    throw_sys_error(-errno, "taking over descriptor " + std::to_string(fd));
  }
  // Not Kind::pipe for a pipe: it may be one that keeps its writes apart, so that a short read says
  // nothing; that cannot be seen from the reading end.
  const auto kind = S_ISSOCK(status.st_mode) ? Source::Kind::socket : Source::Kind::other;
  return Fd(machine(), fd, kind);
}

}  // namespace weft

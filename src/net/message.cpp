#include <weft/net/message.hpp>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include <sys/socket.h>

namespace weft {

namespace {

/// Room for the descriptors of one message, aligned as the kernel wants it.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int) * most_passed_fds)];
};

void put_fds(msghdr& message, Control& control, std::span<const int> fds) noexcept {
  std::memset(&control, 0, sizeof control);
  message.msg_control = &control;
  message.msg_controllen = CMSG_SPACE(fds.size_bytes());
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size_bytes());
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
}

/// Takes over a descriptor that came from `world`.
Fd adopt(const std::shared_ptr<World>& world, int number) {
  if (world == machine()) {
    try {
      return adopt_fd(number);
    } catch (...) {
      world->close(number);
      throw;
    }
  }
  int type = 0;
  socklen_t size = sizeof type;
  const bool is_socket = world->get_option(number, SOL_SOCKET, SO_TYPE, &type, &size) >= 0;
  return Fd(world, number, is_socket ? Source::Kind::socket : Source::Kind::other);
}

}  // namespace

// Sending

SendMessageOp::SendMessageOp(Source& source, Style style, ConstBytes bytes, const Address& to,
                             std::span<const int> fds)
    : PacedOp(source), style_(style), left_(bytes), to_(to), fd_count_(fds.size()) {
  if (fds.size() > most_passed_fds) {
    throw std::length_error("one message carries at most " + std::to_string(most_passed_fds) +
                            " descriptors, not " + std::to_string(fds.size()));
  }
  if (style == Style::stream && bytes.empty() && !fds.empty()) {
    throw std::invalid_argument("in a stream, descriptors travel with a byte: send at least one");
  }
  std::ranges::copy(fds, fds_.begin());
}

SysResult SendMessageOp::call(Source& source) noexcept {
  iovec part{const_cast<std::byte*>(left_.data()), left_.size()};  // it is not written to
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (to_) {
    message.msg_name = const_cast<sockaddr*>(to_.native());  // nor is this
    message.msg_namelen = to_.native_size();
  }
  Control control;
  if (fd_count_ > 0) put_fds(message, control, std::span(fds_).first(fd_count_));
  return source.world().send(source.fd(), message, 0);
}

detail::Verdict SendMessageOp::judge(SysResult result) noexcept {
  using detail::Verdict;
  if (result == -EAGAIN) return style_ == Style::polled ? Verdict::pause : Verdict::wait;
  if (result < 0) return Verdict::done;
  const auto n = static_cast<std::size_t>(result);
  sent_ += n;
  fd_count_ = 0;
  left_ = left_.subspan(std::min(n, left_.size()));
  return style_ == Style::stream && !left_.empty() ? Verdict::again : Verdict::done;
}

std::size_t SendMessageOp::take() const {
  if (result() < 0) {
    throw_sys_error(result(), "sending " + std::to_string(left_.size()) + " bytes" +
                                  (to_ ? " to " + to_.to_string() : ""));
  }
  return sent_;
}

// Receiving

namespace detail {

ReceiveCore::ReceiveCore(Source& source, Bytes buffer, bool want_from,
                         std::size_t most_fds) noexcept
    : SourceOp(source),
      buffer_(buffer),
      want_from_(want_from),
      most_fds_(static_cast<std::uint8_t>(std::min(most_fds, most_passed_fds))) {}

ReceiveCore::ReceiveCore(ReceiveCore&& other) noexcept
    : SourceOp(std::move(other)),
      buffer_(other.buffer_),
      want_from_(other.want_from_),
      most_fds_(other.most_fds_),
      fd_count_(std::exchange(other.fd_count_, std::uint8_t{0})),
      flags_(other.flags_),
      fds_(other.fds_),
      from_(other.from_) {}

ReceiveCore::~ReceiveCore() {
  for (std::size_t i = 0; i < fd_count_; ++i) source().world().close(fds_[i]);
}

SysResult ReceiveCore::call(Source& source) noexcept {
  iovec part{buffer_.data(), buffer_.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (want_from_) {
    message.msg_name = from_.native_buffer();
    message.msg_namelen = Address::native_capacity;
  }
  Control control;
  // Not the rounded CMSG_SPACE: into the rounding the kernel would put one descriptor more.
  message.msg_control = &control;
  message.msg_controllen = most_fds_ == 0 ? 0 : CMSG_LEN(sizeof(int) * most_fds_);
  const SysResult result = source.world().receive(source.fd(), message, 0);
  if (result < 0) {
    from_ = Address();
    return result;
  }
  flags_ = message.msg_flags;
  keep_fds(message);
  if (want_from_) take_from(message.msg_namelen);
  return result;
}

void ReceiveCore::keep_fds(msghdr& message) noexcept {
  if (message.msg_controllen == 0) return;
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count && fd_count_ < fds_.size(); ++i) {
      std::memcpy(&fds_[fd_count_++], CMSG_DATA(h) + i * sizeof(int), sizeof(int));
    }
  }
}

void ReceiveCore::take_from(socklen_t size) noexcept {
  try {
    from_.set_native_size(size);
  } catch (const std::invalid_argument&) {  // a family we do not know
    from_ = Address();
  }
}

bool ReceiveCore::absorb(SysResult, std::uint32_t) noexcept {
  return true;
}

std::size_t ReceiveCore::size() const {
  return static_cast<std::size_t>(checked("receiving"));
}

std::vector<Fd> ReceiveCore::take_fds() {
  std::vector<Fd> taken;
  taken.reserve(fd_count_);
  while (taken.size() < fd_count_) {
    const std::size_t i = taken.size();
    // Whatever adopt() does with it, it is not ours any more.
    const int number = fds_[i];
    try {
      taken.push_back(adopt(source().shared_world(), number));
    } catch (...) {
      for (std::size_t k = i + 1; k < fd_count_; ++k) source().world().close(fds_[k]);
      fd_count_ = 0;
      throw;
    }
  }
  fd_count_ = 0;
  return taken;
}

}  // namespace detail
}  // namespace weft

#include "io/machine.hpp"

#include <weft/base/check.hpp>

#include "io/clock.hpp"

#include <csignal>
#include <ctime>

#include <fcntl.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <unistd.h>

namespace weft::io {

namespace {

bool is_plain(const msghdr& message) noexcept {
  return message.msg_iovlen == 1 && message.msg_control == nullptr && message.msg_name == nullptr;
}

/// Keeps the calling thread from being killed by a write to a pipe that nobody reads. (Sockets have
/// a flag for it. The disposition of the signal belongs to the program, so it is left alone.)
class NoPipeSignal {
 public:
  NoPipeSignal() noexcept {
    ::sigemptyset(&pipe_);
    ::sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    ::sigpending(&pending);
    was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  ~NoPipeSignal() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  void swallow() const noexcept {
    const timespec at_once{};
    if (!was_pending_) ::sigtimedwait(&pipe_, nullptr, &at_once);
  }

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_;
};

}  // namespace

SysResult Machine::socket(int domain, int type, int protocol) {
  return uninterrupted(
      [&] { return ::socket(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol); });
}

SysResult Machine::bind(int fd, const sockaddr* address, socklen_t size) {
  return uninterrupted([&] { return ::bind(fd, address, size); });
}

SysResult Machine::listen(int fd, int backlog) {
  return uninterrupted([&] { return ::listen(fd, backlog); });
}

SysResult Machine::accept(int fd, sockaddr* address, socklen_t* size) {
  return uninterrupted([&] { return ::accept4(fd, address, size, SOCK_NONBLOCK | SOCK_CLOEXEC); });
}

SysResult Machine::connect(int fd, const sockaddr* address, socklen_t size) {
  const int saved = errno;
  // Not repeated when interrupted: it goes on by itself, as if in progress.
  if (::connect(fd, address, size) == 0) return 0;
  const SysResult error = errno == EINTR ? -EINPROGRESS : -errno;
  errno = saved;
  return error;
}

SysResult Machine::name(int fd, End end, sockaddr* address, socklen_t* size) {
  return uninterrupted([&] {
    return end == End::local ? ::getsockname(fd, address, size) : ::getpeername(fd, address, size);
  });
}

SysResult Machine::set_option(int fd, int level, int option, const void* value, socklen_t size) {
  return uninterrupted([&] { return ::setsockopt(fd, level, option, value, size); });
}

SysResult Machine::get_option(int fd, int level, int option, void* value, socklen_t* size) {
  return uninterrupted([&] { return ::getsockopt(fd, level, option, value, size); });
}

SysResult Machine::receive(int fd, msghdr& message, int flags) {
  if (is_plain(message)) {
    const iovec& part = *message.msg_iov;
    return uninterrupted([&] { return ::recv(fd, part.iov_base, part.iov_len, flags); });
  }
  return uninterrupted([&] { return ::recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC); });
}

SysResult Machine::send(int fd, const msghdr& message, int flags) {
  if (is_plain(message)) {
    const iovec& part = *message.msg_iov;
    return uninterrupted(
        [&] { return ::send(fd, part.iov_base, part.iov_len, flags | MSG_NOSIGNAL); });
  }
  return uninterrupted([&] { return ::sendmsg(fd, &message, flags | MSG_NOSIGNAL); });
}

SysResult Machine::shutdown(int fd, int how) {
  return uninterrupted([&] { return ::shutdown(fd, how); });
}

SysResult Machine::socket_pair(int domain, int type, int (&fds)[2]) {
  return uninterrupted(
      [&] { return ::socketpair(domain, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds); });
}

SysResult Machine::pipe(int (&fds)[2]) {
  return uninterrupted([&] { return ::pipe2(fds, O_NONBLOCK | O_CLOEXEC); });
}

SysResult Machine::read(int fd, const iovec* parts, int count) {
  if (count == 1) {
    return uninterrupted([&] { return ::read(fd, parts->iov_base, parts->iov_len); });
  }
  return uninterrupted([&] { return ::readv(fd, parts, count); });
}

SysResult Machine::write(int fd, const iovec* parts, int count) {
  const NoPipeSignal protection;
  const SysResult result = uninterrupted([&] { return ::writev(fd, parts, count); });
  if (result == -EPIPE) protection.swallow();
  return result;
}

SysResult Machine::send_file(int to, int from, std::int64_t& offset, std::size_t count) {
  const NoPipeSignal protection;
  off_t at = offset;
  const SysResult result = uninterrupted([&] { return ::sendfile(to, from, &at, count); });
  offset = at;
  if (result == -EPIPE) protection.swallow();
  return result;
}

SysResult Machine::close(int fd) noexcept {
  end_signals(fd);
  // Never repeated: on Linux the number is free even if it was interrupted.
  const int saved = errno;
  const SysResult result = ::close(fd) == 0 ? 0 : -errno;
  errno = saved;
  return result;
}

void Machine::random(std::span<std::byte> out) {
  while (!out.empty()) {
    const SysResult n = uninterrupted([&] { return ::getrandom(out.data(), out.size(), 0); });
    out = out.subspan(static_cast<std::size_t>(check_sys(n, "getrandom")));
  }
}

std::int64_t Machine::wall_clock() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * std::int64_t{1'000'000'000} + t.tv_nsec;
}

}  // namespace weft::io

namespace weft {

std::shared_ptr<World> machine() {
  static io::Machine real;
  return {std::shared_ptr<void>(), &real};  // owns nothing, counts nothing
}

}  // namespace weft

#include "sim/host_world.hpp"

#include <weft/stack/sanitizer.hpp>

#include "sim/disk.hpp"
#include "sim/stream.hpp"
#include "sim/universe.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <netdb.h>
#include <netinet/in.h>

namespace weft::sim {

// Endpoints

std::optional<Endpoint> Endpoint::from(const sockaddr* address, socklen_t size) {
  Endpoint e;
  if (address->sa_family == AF_INET && size >= sizeof(sockaddr_in)) {
    sockaddr_in in;
    std::memcpy(&in, address, sizeof in);
    e = {.family = AF_INET, .ip = ntohl(in.sin_addr.s_addr), .port = ntohs(in.sin_port)};
    return e;
  }
  if (address->sa_family != AF_INET6 || size < sizeof(sockaddr_in6)) return std::nullopt;
  sockaddr_in6 in;
  std::memcpy(&in, address, sizeof in);
  e = {.family = AF_INET6, .ip = any, .port = ntohs(in.sin6_port)};
  const auto* bytes = in.sin6_addr.s6_addr;
  if (IN6_IS_ADDR_LOOPBACK(&in.sin6_addr)) {
    e.ip = loopback;
  } else if (IN6_IS_ADDR_V4MAPPED(&in.sin6_addr)) {
    std::uint32_t ip = 0;
    std::memcpy(&ip, bytes + 12, sizeof ip);
    e.ip = ntohl(ip);
  } else if (!IN6_IS_ADDR_UNSPECIFIED(&in.sin6_addr)) {
    return std::nullopt;
  }
  return e;
}

void Endpoint::write(sockaddr* address, socklen_t* size) const {
  if (address == nullptr || size == nullptr) return;
  sockaddr_storage storage{};
  socklen_t full = 0;
  if (family == AF_INET6) {
    sockaddr_in6 in{};
    in.sin6_family = AF_INET6;
    in.sin6_port = htons(port);
    if (ip == loopback) {
      in.sin6_addr = in6addr_loopback;
    } else if (ip != any) {
      in.sin6_addr.s6_addr[10] = in.sin6_addr.s6_addr[11] = 0xff;
      const std::uint32_t net = htonl(ip);
      std::memcpy(in.sin6_addr.s6_addr + 12, &net, sizeof net);
    }
    full = sizeof in;
    std::memcpy(&storage, &in, sizeof in);
  } else {
    sockaddr_in in{};
    in.sin_family = AF_INET;
    in.sin_port = htons(port);
    in.sin_addr.s_addr = htonl(ip);
    full = sizeof in;
    std::memcpy(&storage, &in, sizeof in);
  }
  std::memcpy(address, &storage, std::min(*size, full));
  *size = full;
}

std::size_t size_of(const msghdr& message) noexcept {
  std::size_t size = 0;
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) size += message.msg_iov[i].iov_len;
  return size;
}

void scatter(std::string_view bytes, const msghdr& message) noexcept {
  for (std::size_t i = 0; i < message.msg_iovlen && !bytes.empty(); ++i) {
    const std::size_t n = std::min(bytes.size(), message.msg_iov[i].iov_len);
    std::memcpy(message.msg_iov[i].iov_base, bytes.data(), n);
    bytes.remove_prefix(n);
  }
}

std::string gather(const msghdr& message, std::size_t most) {
  std::string bytes;
  for (std::size_t i = 0; i < message.msg_iovlen && bytes.size() < most; ++i) {
    const iovec& part = message.msg_iov[i];
    bytes.append(static_cast<const char*>(part.iov_base),
                 std::min(part.iov_len, most - bytes.size()));
  }
  return bytes;
}

// Things

Descriptor::Descriptor(HostWorld& world) : world_(world.shared_from_this()) {}

Descriptor::~Descriptor() {
  if (source_ != nullptr) source_->release();
}

void Descriptor::watched_by(Source* source) noexcept {
  if (source != nullptr) source->retain();
  if (source_ != nullptr) source_->release();
  source_ = source;
  if (source_ != nullptr) changed();  // the present state counts as a change
}

// Later, but at this very instant: whoever calls may hold the source's lock.
void Descriptor::changed() {
  if (source_ == nullptr || telling_) return;
  telling_ = true;
  Engine& engine = world_->universe().engine();
  engine.at(engine.true_now(), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->telling_ = false;
    Source* const source = self->source_;
    if (source == nullptr) return;
    source->retain();
    {
      WakeList wakes;
      source->ready(self->bits(), wakes);
    }
    source->release();
  });
}

// The table

void HostWorld::die() {
  dead_ = true;
  const auto things = std::exchange(things_, {});
  for (const auto& [fd, thing] : things) {
    thing->watched_by(nullptr);
    thing->closed(true);
  }
  listeners_.clear();
  datagrams_.clear();
  options_.clear();
}

SysResult HostWorld::add(std::shared_ptr<Descriptor> thing) {
  constexpr int first = 3;
  constexpr std::size_t most = 20'000;
  if (dead_) return -ENETDOWN;
  if (things_.size() >= most || universe_.network().strikes(&Faults::no_descriptors, 32)) {
    return -EMFILE;
  }
  int fd = first;
  for (const auto& [used, ignored] : things_) {
    if (used != fd) break;
    ++fd;
  }
  things_.emplace(fd, std::move(thing));
  return fd;
}

Descriptor* HostWorld::find(int fd) noexcept {
  const auto it = things_.find(fd);
  return it == things_.end() ? nullptr : it->second.get();
}

std::uint16_t HostWorld::free_port(const std::map<std::uint16_t, Descriptor*>& used) {
  for (;;) {
    const std::uint16_t port = ephemeral_port();
    if (!used.contains(port)) return port;
  }
}

std::uint16_t HostWorld::ephemeral_port() noexcept {
  constexpr std::uint16_t first = 32'768;
  last_port_ = last_port_ == 65'535 ? first : static_cast<std::uint16_t>(last_port_ + 1);
  return last_port_;
}

// Who hears something, be it an end, a connection or an error, may rely on what was done before it
// was said; whoever that was, to be on the safe side.

SysResult HostWorld::socket(int domain, int type, int /*protocol*/) {
  const stack::Aside aside;
  if (domain != AF_INET && domain != AF_INET6) return -EAFNOSUPPORT;
  const int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (kind == SOCK_STREAM) return add(std::make_shared<Stream>(*this, domain));
  if (kind == SOCK_DGRAM) return add(std::make_shared<Datagrams>(*this, domain));
  return -ESOCKTNOSUPPORT;
}

SysResult HostWorld::bind(int fd, const sockaddr* address, socklen_t size) {
  stack::published(&universe_);
  const stack::Aside aside;
  Descriptor* thing = find(fd);
  if (thing == nullptr) return -EBADF;
  const auto endpoint = Endpoint::from(address, size);
  if (!endpoint) return -EADDRNOTAVAIL;
  const bool mine = endpoint->ip == Endpoint::any || endpoint->ip == Endpoint::loopback ||
                    endpoint->ip == host_.ip();
  return mine ? thing->bind(*endpoint) : -EADDRNOTAVAIL;
}

SysResult HostWorld::listen(int fd, int backlog) {
  stack::published(&universe_);
  const stack::Aside aside;
  Descriptor* thing = find(fd);
  return thing == nullptr ? -EBADF : thing->listen(backlog);
}

SysResult HostWorld::accept(int fd, sockaddr* address, socklen_t* size) {
  stack::received(&universe_);
  const stack::Aside aside;
  Descriptor* thing = find(fd);
  if (thing == nullptr) return -EBADF;
  Endpoint peer;
  const SysResult result = thing->accept(peer);
  if (result >= 0) peer.write(address, size);
  return result;
}

SysResult HostWorld::connect(int fd, const sockaddr* address, socklen_t size) {
  stack::published(&universe_);
  const stack::Aside aside;
  Descriptor* thing = find(fd);
  if (thing == nullptr) return -EBADF;
  const auto endpoint = Endpoint::from(address, size);
  return endpoint ? thing->connect(*endpoint) : -ENETUNREACH;
}

SysResult HostWorld::name(int fd, End end, sockaddr* address, socklen_t* size) {
  stack::received(&universe_);
  const stack::Aside aside;
  Descriptor* thing = find(fd);
  if (thing == nullptr) return -EBADF;
  Endpoint endpoint;
  const SysResult result = thing->name(end, endpoint);
  if (result >= 0) endpoint.write(address, size);
  return result;
}

SysResult HostWorld::set_option(int fd, int level, int option, const void* value, socklen_t size) {
  const stack::Aside aside;
  if (find(fd) == nullptr) return -EBADF;
  int number = 0;
  if (size >= sizeof number) std::memcpy(&number, value, sizeof number);
  options_[{fd, level << 16 | option}] = number;
  return 0;
}

SysResult HostWorld::get_option(int fd, int level, int option, void* value, socklen_t* size) {
  stack::received(&universe_);
  const stack::Aside aside;
  Descriptor* thing = find(fd);
  if (thing == nullptr) return -EBADF;
  int number = 0;
  if (level == SOL_SOCKET && option == SO_ERROR) {
    number = static_cast<int>(-thing->error_option());
  } else if (level == SOL_SOCKET && option == SO_TYPE) {
    number = thing->type();
    if (number == 0) return -ENOTSOCK;
  } else if (const auto it = options_.find({fd, level << 16 | option}); it != options_.end()) {
    number = it->second;
  }
  if (*size < sizeof number) return -EINVAL;
  std::memcpy(value, &number, sizeof number);
  *size = sizeof number;
  return 0;
}

SysResult HostWorld::receive(int fd, msghdr& message, int /*flags*/) {
  SysResult result = -EBADF;
  {
    const stack::Aside aside;
    if (Descriptor* thing = find(fd)) result = thing->receive(message);
  }
  if (result != -EAGAIN) stack::received(&universe_);
  return result;
}

SysResult HostWorld::send(int fd, const msghdr& message, int /*flags*/) {
  stack::published(&universe_);
  const stack::Aside aside;
  Descriptor* thing = find(fd);
  return thing == nullptr ? -EBADF : thing->send(message);
}

SysResult HostWorld::shutdown(int fd, int how) {
  stack::published(&universe_);
  const stack::Aside aside;
  Descriptor* thing = find(fd);
  return thing == nullptr ? -EBADF : thing->shutdown(how);
}

SysResult HostWorld::pair_of(int (&fds)[2]) {
  const auto [one, other] = Stream::pair(*this);
  const SysResult first = add(one);
  if (first < 0) return first;
  const SysResult second = add(other);
  if (second < 0) {
    close(static_cast<int>(first));
    return second;
  }
  fds[0] = static_cast<int>(first);
  fds[1] = static_cast<int>(second);
  return 0;
}

SysResult HostWorld::socket_pair(int domain, int type, int (&fds)[2]) {
  const stack::Aside aside;
  if (domain != AF_UNIX) return -EOPNOTSUPP;
  if ((type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC)) != SOCK_STREAM) return -ESOCKTNOSUPPORT;
  return pair_of(fds);
}

SysResult HostWorld::pipe(int (&fds)[2]) {
  const stack::Aside aside;
  return pair_of(fds);
}

SysResult HostWorld::read(int fd, const iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);  // it is not written to
  message.msg_iovlen = static_cast<std::size_t>(count);
  return receive(fd, message, 0);
}

SysResult HostWorld::write(int fd, const iovec* parts, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);  // it is not written to
  message.msg_iovlen = static_cast<std::size_t>(count);
  return send(fd, message, 0);
}

SysResult HostWorld::close(int fd) noexcept {
  stack::published(&universe_);
  const stack::Aside aside;
  const auto it = things_.find(fd);
  if (it == things_.end()) return -EBADF;
  const auto thing = std::move(it->second);
  things_.erase(it);
  std::erase_if(options_, [&](const auto& o) { return o.first.first == fd; });
  thing->watched_by(nullptr);
  thing->closed(false);
  return 0;
}

void HostWorld::random(std::span<std::byte> out) {
  const stack::Aside aside;
  Engine& engine = universe_.engine();
  for (std::byte& b : out) b = static_cast<std::byte>(engine.decide(Kind::user, 256));
}

std::int64_t HostWorld::wall_clock() noexcept {
  const stack::Aside aside;
  constexpr std::int64_t first_of_2026 = 1'767'225'600'000'000'000;
  if (universe_.network().strikes(&Faults::clock_jumps, 16)) {
    using std::chrono::hours, std::chrono::seconds;
    constexpr std::array<Duration, 4> jumps{hours(-1), seconds(-1), seconds(1), hours(1)};
    host_.jump(jumps[universe_.engine().decide(Kind::fault, jumps.size())]);
  }
  return first_of_2026 + universe_.engine().true_now().ns() + host_.ahead().count();
}

Duration HostWorld::time_of(const SlowCall& call) {
  constexpr std::uint32_t steps = 8;
  constexpr int slow = 1'000;
  Engine& engine = universe_.engine();
  const auto usual = call.code == SlowCall::Code::sync ? std::chrono::microseconds(500)
                                                       : std::chrono::microseconds(20);
  const Duration time = usual * (1 + engine.decide(Kind::delay, steps));
  return universe_.network().strikes(&Faults::slow_disk, 16) ? time * slow : time;
}

void HostWorld::call(SlowCall& call) noexcept {
  const stack::Aside aside;
  if (dead_) {
    call.result = -EIO;
    return;
  }
  if (call.code != SlowCall::Code::resolve) {
    disk_.call(call, *this);
    return;
  }
  const bool here = call.path.empty() || call.path == "localhost";
  Host* const host = here ? &host_ : universe_.find(call.path);
  std::uint16_t port = 0;
  for (const char c : call.path2) {
    if (c < '0' || c > '9') {
      call.result = EAI_SERVICE;
      return;
    }
    port = static_cast<std::uint16_t>(port * 10 + (c - '0'));
  }
  if (host == nullptr) {
    call.result = EAI_NONAME;
    return;
  }
  sockaddr_in address{};
  socklen_t size = sizeof address;
  Endpoint{.family = AF_INET, .ip = here ? Endpoint::loopback : host->ip(), .port = port}.write(
      reinterpret_cast<sockaddr*>(&address), &size);
  const auto* bytes = reinterpret_cast<const std::byte*>(&address);
  call.addresses.emplace_back(bytes, bytes + size);
  call.result = 0;
}

}  // namespace weft::sim

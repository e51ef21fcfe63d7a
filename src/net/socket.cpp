#include <weft/net/socket.hpp>

#include <stdexcept>
#include <string>

namespace weft {

namespace {

// What a message calls the socket. It may be closed, or unconnected, so this must not fail.
std::string describe(const Fd& fd) {
  return fd.number() < 0 ? "an empty socket" : "socket " + std::to_string(fd.number());
}

}  // namespace

Address Socket::name(World::End end) const {
  Address address;
  socklen_t size = Address::native_capacity;
  const SysResult result = with_number([&](World& world, int number) {
    return world.name(number, end, address.native_buffer(), &size);
  });
  if (result < 0) {
    throw_sys_error(result, std::string("asking for the ") +
                                (end == World::End::local ? "local" : "peer's") + " address of " +
                                describe(fd_));
  }
  address.set_native_size(size);
  return address;
}

Address Socket::local() const {
  return name(World::End::local);
}

Address Socket::peer() const {
  return name(World::End::peer);
}

void Socket::set_option_bytes(int level, int name, const void* value, std::size_t size) const {
  const SysResult result = with_number([&](World& world, int number) {
    return world.set_option(number, level, name, value, static_cast<socklen_t>(size));
  });
  if (result < 0) {
    throw_sys_error(result, "setting option " + std::to_string(name) + " of level " +
                                std::to_string(level) + " on " + describe(fd_));
  }
}

void Socket::get_option_bytes(int level, int name, void* value, std::size_t size) const {
  auto length = static_cast<socklen_t>(size);
  const SysResult result = with_number([&](World& world, int number) {
    return world.get_option(number, level, name, value, &length);
  });
  if (result < 0) {
    throw_sys_error(result, "asking for option " + std::to_string(name) + " of level " +
                                std::to_string(level) + " on " + describe(fd_));
  }
}

void Socket::shutdown(Half half) const {
  detail::point({.what = "shutdown", .outside = true});
  const int how = half == Half::read ? SHUT_RD : half == Half::write ? SHUT_WR : SHUT_RDWR;
  const SysResult result =
      with_number([&](World& world, int number) { return world.shutdown(number, how); });
  if (result < 0) throw_sys_error(result, "shutting down " + describe(fd_));
}

namespace detail {

Fd open_socket(int family, int type, Source::Kind kind, const std::string& what) {
  auto world = this_world();
  const SysResult number = world->socket(family, type, 0);
  if (number < 0) throw_sys_error(number, what);
  return Fd(std::move(world), static_cast<int>(number), kind);
}

std::pair<Fd, Fd> open_socket_pair(int type) {
  auto world = this_world();
  int numbers[2];
  check_sys(world->socket_pair(AF_UNIX, type, numbers), "making a pair of sockets");
  try {
    Fd first(world, numbers[0], Source::Kind::socket);
    const int second = std::exchange(numbers[1], -1);
    return {std::move(first), Fd(world, second, Source::Kind::socket)};
  } catch (...) {  // an Fd closes what it was given, even if it cannot be made
    if (numbers[1] >= 0) world->close(numbers[1]);
    throw;
  }
}

void require_family(const Address& address, bool ip, const char* what) {
  if (ip ? address.is_v4() || address.is_v6() : address.is_unix()) return;
  throw std::invalid_argument(std::string(what) + " needs an address like " +
                              (ip ? "127.0.0.1:80 or [::1]:80" : "unix:/path or unix:@name") +
                              ", not " + (address ? address.to_string() : "none"));
}

}  // namespace detail
}  // namespace weft

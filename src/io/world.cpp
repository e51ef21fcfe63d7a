#include <weft/io/world.hpp>

#include <weft/io/slow_call.hpp>

#include <system_error>

#include <netdb.h>

namespace weft {

namespace {
constexpr SysResult unsupported = -ENOSYS;
}

SysResult World::socket(int, int, int) {
  return unsupported;
}
SysResult World::bind(int, const sockaddr*, socklen_t) {
  return unsupported;
}
SysResult World::listen(int, int) {
  return unsupported;
}
SysResult World::accept(int, sockaddr*, socklen_t*) {
  return unsupported;
}
SysResult World::connect(int, const sockaddr*, socklen_t) {
  return unsupported;
}
SysResult World::name(int, End, sockaddr*, socklen_t*) {
  return unsupported;
}
SysResult World::set_option(int, int, int, const void*, socklen_t) {
  return unsupported;
}
SysResult World::get_option(int, int, int, void*, socklen_t*) {
  return unsupported;
}
SysResult World::receive(int, msghdr&, int) {
  return unsupported;
}
SysResult World::send(int, const msghdr&, int) {
  return unsupported;
}
SysResult World::shutdown(int, int) {
  return unsupported;
}
SysResult World::socket_pair(int, int, int (&)[2]) {
  return unsupported;
}
SysResult World::pipe(int (&)[2]) {
  return unsupported;
}
SysResult World::read(int, const iovec*, int) {
  return unsupported;
}
SysResult World::write(int, const iovec*, int) {
  return unsupported;
}
SysResult World::send_file(int, int, std::int64_t&, std::size_t) {
  return unsupported;
}
SysResult World::close(int) noexcept {
  return unsupported;
}
SysResult World::spawn(const ChildSpec&, int&) {
  return unsupported;
}
SysResult World::reap(int, int&, Reap) {
  return unsupported;
}
SysResult World::signal(int, int) {
  return unsupported;
}
SysResult World::signal_group(int, int) {
  return unsupported;
}
SysResult World::open_signals(std::span<const int>) {
  return unsupported;
}
void World::random(std::span<std::byte>) {
  throw_sys_error(unsupported, "random");
}
std::int64_t World::wall_clock() noexcept {
  return 0;
}
void World::call(SlowCall& call) noexcept {
  call.result = call.code == SlowCall::Code::resolve ? EAI_SYSTEM : unsupported;
}

std::shared_ptr<World> empty_world() {
  static World nothing;
  return {std::shared_ptr<void>(), &nothing};  // owns nothing, counts nothing
}

void throw_sys_error(SysResult result, const std::string& what) {
  throw std::system_error(static_cast<int>(-result), std::generic_category(), what);
}

}  // namespace weft

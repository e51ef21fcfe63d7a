#include <weft/net/connect.hpp>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <system_error>

#include <netinet/tcp.h>

namespace weft::detail {

namespace {

using namespace std::chrono_literals;

constexpr Duration first_retry = 1ms;
constexpr Duration longest_retry = 50ms;

/// Linux lets a socket connect to itself, when the port it was given is the one it calls (nobody
/// listens there). That is no peer.
bool is_self(World& world, int fd, const Address& peer) noexcept {
  try {
    Address local;
    socklen_t size = Address::native_capacity;
    if (world.name(fd, World::End::local, local.native_buffer(), &size) < 0) return false;
    local.set_native_size(size);
    return local == peer;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

std::string message_of(SysResult error) {
  return std::generic_category().message(static_cast<int>(-error));
}

}  // namespace

std::vector<Address> take_turns(const std::vector<Address>& addresses) {
  std::vector<Address> first;
  std::vector<Address> other;
  for (const Address& address : addresses) {
    (address.family() == addresses.front().family() ? first : other).push_back(address);
  }
  std::vector<Address> mixed;
  mixed.reserve(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (i < first.size()) mixed.push_back(first[i]);
    if (i < other.size()) mixed.push_back(other[i]);
  }
  return mixed;
}

ConnectCore::ConnectCore(std::vector<Address> addresses, std::string target, Source::Kind kind,
                         const ConnectOptions& options)
    : attempts_(addresses.size()),
      target_(std::move(target)),
      kind_(kind),
      stagger_(options.stagger),
      retry_after_(first_retry) {
  if (addresses.empty()) throw std::invalid_argument("connecting needs at least one address");
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    if (kind == Source::Kind::tcp) require_family(addresses[i], true, "TcpStream");
    attempts_[i].address = addresses[i];
  }
}

ObjectId ConnectCore::object() const noexcept {
  const Fd& fd = attempts_.front().fd;
  return fd.number() < 0 ? ObjectId::none : fd.source().id();
}

bool ConnectCore::try_now() noexcept {
  return advance(begun_ == 0);
}

Armed ConnectCore::arm(Arm& arm) {
  for (Attempt& attempt : attempts_) {
    if (attempt.state != Attempt::State::under_way) continue;
    attempt.arm.wait = arm.wait;
    attempt.arm.index = arm.index;
    Armed armed = Armed::waiting;
    try {
      armed = attempt.fd.source().arm(attempt.arm, Direction::write);
    } catch (...) {
      withdraw();
      throw;
    }
    if (armed != Armed::waiting) {
      withdraw();
      return armed;
    }
  }
  const bool retry = any(Attempt::State::refused_for_now);
  if (retry || begun_ < attempts_.size()) {
    // Fixed at the first arming: a race that is published again does not start it over.
    if (!until_) until_ = now_for(arm) + (retry ? retry_after_ : stagger_);
    timer_.start(arm, *until_);
  }
  return Armed::waiting;
}

void ConnectCore::disarm(Arm&) noexcept {
  withdraw();
}

void ConnectCore::withdraw() noexcept {
  timer_.stop();
  for (Attempt& attempt : attempts_) {
    if (attempt.arm.wait != nullptr && attempt.fd.number() >= 0) {
      attempt.fd.source().disarm(attempt.arm);
    }
  }
}

bool ConnectCore::confirm() noexcept {
  withdraw();  // one of our arms has won; the others are still out
  return advance(timer_.take_ran_out());
}

// True: connected, or all have failed.
bool ConnectCore::advance(bool time_is_up) noexcept {
  bool begin_another = time_is_up;
  if (time_is_up) until_.reset();
  for (Attempt& attempt : attempts_) {
    if (attempt.state == Attempt::State::refused_for_now && time_is_up) {
      retry_after_ = std::min(2 * retry_after_, longest_retry);
      dial(attempt);
    } else if (attempt.state == Attempt::State::under_way) {
      look_at(attempt);
      if (attempt.state == Attempt::State::failed) begin_another = true;
    }
    if (attempt.state == Attempt::State::connected) return true;
  }
  while (begin_another && begun_ < attempts_.size()) {
    Attempt& attempt = attempts_[begun_++];
    begin(attempt);
    if (attempt.state == Attempt::State::connected) return true;
    begin_another = attempt.state == Attempt::State::failed;
    until_.reset();
  }
  return begun_ == attempts_.size() && !any(Attempt::State::under_way) &&
         !any(Attempt::State::refused_for_now);
}

void ConnectCore::begin(Attempt& attempt) noexcept {
  if (world_ == nullptr) world_ = this_world();
  const SysResult number = world_->socket(attempt.address.family(), SOCK_STREAM, 0);
  if (number < 0) return fail(attempt, number);
  try {
    attempt.fd = Fd(world_, static_cast<int>(number), kind_);
  } catch (const std::bad_alloc&) {
    return fail(attempt, -ENOMEM);
  }
  if (kind_ == Source::Kind::tcp) {
    const int on = 1;
    world_->set_option(attempt.fd.number(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  dial(attempt);
}

void ConnectCore::dial(Attempt& attempt) noexcept {
  Source& source = attempt.fd.source();
  const std::uint32_t seen = source.seen();
  const SysResult result =
      world_->connect(attempt.fd.number(), attempt.address.native(), attempt.address.native_size());
  if (result == -EINPROGRESS) {
    source.would_block(seen, Direction::write);
    attempt.state = Attempt::State::under_way;
  } else if (result == -EAGAIN && attempt.address.is_unix()) {
    attempt.state = Attempt::State::refused_for_now;
  } else if (result < 0) {
    fail(attempt, result);
  } else {
    attempt.state = Attempt::State::connected;
  }
}

void ConnectCore::look_at(Attempt& attempt) noexcept {
  Source& source = attempt.fd.source();
  const std::uint32_t seen = source.seen();
  if (!Source::worth_trying(seen, Direction::write)) return;
  int error = 0;
  socklen_t size = sizeof error;
  const SysResult asked = world_->get_option(source.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (asked < 0) return fail(attempt, asked);
  if (error != 0) return fail(attempt, -error);
  Address peer;
  size = Address::native_capacity;
  if (world_->name(source.fd(), World::End::peer, peer.native_buffer(), &size) < 0) {
    // Neither connected nor failed: a false alarm, unless it is over for good.
    if ((seen & Source::write_end) != 0) return fail(attempt, -ECONNRESET);
    source.would_block(seen, Direction::write);
    return;
  }
  if (is_self(*world_, source.fd(), attempt.address)) return fail(attempt, -ECONNREFUSED);
  attempt.state = Attempt::State::connected;
}

void ConnectCore::fail(Attempt& attempt, SysResult error) noexcept {
  attempt.state = Attempt::State::failed;
  attempt.error = error;
  attempt.fd = Fd();
}

bool ConnectCore::any(Attempt::State state) const noexcept {
  return std::ranges::any_of(attempts_, [&](const Attempt& a) { return a.state == state; });
}

Fd ConnectCore::take_fd() {
  for (Attempt& attempt : attempts_) {
    if (attempt.state == Attempt::State::connected) {
      Fd fd = std::move(attempt.fd);
      attempts_.clear();  // what else was on its way is closed now
      fd.source().begin_conversation();
      return fd;
    }
  }
  throw_error();
}

void ConnectCore::throw_error() const {
  const Attempt& last = attempts_.back();
  if (attempts_.size() == 1) {
    std::string what = "connecting to " + last.address.to_string();
    if (!target_.empty() && target_ != last.address.to_string()) what += " (" + target_ + ")";
    throw_sys_error(last.error, what);
  }
  std::string what = "connecting to " + (target_.empty() ? "any of several addresses" : target_);
  const char* separator = " (";
  for (const Attempt& attempt : attempts_) {
    what += separator + attempt.address.to_string() + ": " + message_of(attempt.error);
    separator = ", ";
  }
  throw_sys_error(last.error, what + ")");
}

}  // namespace weft::detail

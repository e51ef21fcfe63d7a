#include "sim/stream.hpp"

#include "sim/universe.hpp"

#include <algorithm>

namespace weft::sim {

namespace {

constexpr Duration longest_pause = std::chrono::seconds(10);
constexpr Duration first_resend = std::chrono::milliseconds(200);
constexpr Duration first_knock_again = std::chrono::seconds(1);

/// Whom an address means, seen from a host.
Host* host_at(HostWorld& from, std::uint32_t ip) noexcept {
  if (ip == Endpoint::loopback || ip == Endpoint::any) return &from.host();
  return from.universe().find(ip);
}

}  // namespace

Stream::Stream(HostWorld& world, int family) : Descriptor(world), family_(family) {
  local_.family = remote_.family = family;
}

Network& Stream::network() noexcept {
  return world().universe().network();
}
Engine& Stream::engine() noexcept {
  return world().universe().engine();
}

// It lives until then, also if its descriptor is closed: what it has sent is still to arrive.
void Stream::later(Duration after, void (Stream::*f)()) {
  engine().at(engine().true_now() + after, [stream = self(), f] { (*stream.*f)(); });
}

std::pair<std::shared_ptr<Stream>, std::shared_ptr<Stream>> Stream::pair(HostWorld& world) {
  auto one = std::make_shared<Stream>(world, AF_UNIX);
  auto other = std::make_shared<Stream>(world, AF_UNIX);
  one->peer_ = other;
  other->peer_ = one;
  one->peer_host_ = other->peer_host_ = &world.host();
  one->state_ = other->state_ = State::open;
  return {one, other};
}

// Names and connections

SysResult Stream::bind(const Endpoint& at) {
  if (state_ != State::fresh || local_.port != 0) return -EINVAL;
  if (at.port != 0 && world().listeners().contains(at.port)) return -EADDRINUSE;
  local_ = at;
  local_.family = family_;
  if (local_.port == 0) local_.port = world().free_port(world().listeners());
  return 0;
}

SysResult Stream::listen(int backlog) {
  if (state_ == State::listening) return 0;
  if (state_ != State::fresh) return -EINVAL;
  if (local_.port == 0) local_.port = world().free_port(world().listeners());
  if (world().listeners().contains(local_.port)) return -EADDRINUSE;
  world().listener(local_.port) = this;
  backlog_ = static_cast<std::size_t>(std::clamp(backlog, 1, 4096));
  state_ = State::listening;
  return 0;
}

SysResult Stream::accept(Endpoint& peer) {
  if (state_ != State::listening) return -EINVAL;
  if (waiting_.empty()) return -EAGAIN;
  const auto accepted = waiting_.front();
  const SysResult fd = world().add(accepted);
  if (fd < 0) return fd;  // it stays in the queue
  waiting_.pop_front();
  peer = accepted->remote_;
  return fd;
}

SysResult Stream::connect(const Endpoint& to) {
  if (state_ == State::connecting) return -EALREADY;
  if (state_ == State::open) return -EISCONN;
  if (state_ != State::fresh) return -EINVAL;
  remote_ = to;
  remote_.family = family_;
  peer_host_ = host_at(world(), to.ip);
  if (peer_host_ == nullptr) return -EHOSTUNREACH;
  if (local_.port == 0) local_.port = world().ephemeral_port();
  local_.ip = peer_host_ == &world().host() ? to.ip : world().host().ip();
  state_ = State::connecting;
  later(network().draw_latency(world().host(), *peer_host_), &Stream::knock);
  return -EINPROGRESS;
}

bool Stream::reachable(const Host& host) noexcept {
  return host.up() && network().connected(world().host(), host) &&
         network().connected(host, world().host());
}

bool Stream::give_up_or_retry(Duration first, void (Stream::*again)()) {
  if (tries_ == 0) stuck_since_ = engine().true_now();
  if (engine().true_now() - stuck_since_ >= network().tcp_patience) return true;
  const Duration pause = first * (1 << std::min(tries_, 10));
  ++tries_;
  later(std::min(pause, longest_pause), again);
  return false;
}

// At the other side.
void Stream::knock() {
  if (gone_ || state_ != State::connecting) return;
  HostWorld& there = *peer_host_->world();
  auto* listener = static_cast<Stream*>(
      there.listeners().contains(remote_.port) ? there.listener(remote_.port) : nullptr);
  const bool wrong_address =
      listener != nullptr && !listener->local_.takes(remote_.ip, *peer_host_, world().host());
  if (wrong_address) listener = nullptr;
  const bool full = listener != nullptr && listener->waiting_.size() >= listener->backlog_;
  if (!reachable(*peer_host_) || full) {
    if (give_up_or_retry(first_knock_again, &Stream::knock)) break_off(ETIMEDOUT);
    return;
  }
  tries_ = 0;
  const Duration back = network().draw_latency(*peer_host_, world().host());
  if (listener == nullptr) {
    later(back, &Stream::refuse);
    return;
  }
  auto accepted = std::make_shared<Stream>(there, family_);
  accepted->state_ = State::open;
  accepted->local_ = remote_;
  accepted->remote_ = local_;
  accepted->peer_ = self();
  accepted->peer_host_ = &world().host();
  peer_ = accepted;
  listener->waiting_.push_back(std::move(accepted));
  listener->changed();
  later(back, &Stream::answered);
}

void Stream::answered() {
  if (gone_ || state_ != State::connecting) return;
  state_ = State::open;
  changed();
}

SysResult Stream::name(World::End end, Endpoint& endpoint) {
  if (end == World::End::peer && (state_ != State::open || over())) return -ENOTCONN;
  endpoint = end == World::End::local ? local_ : remote_;
  return 0;
}

// Bytes

std::size_t Stream::cut_short(std::size_t n) {
  return n > 1 && network().strikes(&Faults::short_transfers, 4) ? (n + 1) / 2 : n;
}

std::size_t Stream::room() const noexcept {
  const auto peer = peer_.lock();
  const std::size_t used =
      queued_.size() + flying_.size() + (peer == nullptr ? 0 : peer->arrived_.size());
  return used < window ? window - used : 0;
}

SysResult Stream::send(const msghdr& message) {
  if (state_ == State::connecting) return -EAGAIN;
  if (state_ == State::broken) return error_ != 0 ? -std::exchange(error_, 0) : -EPIPE;
  if (state_ != State::open || mute_) return -EPIPE;
  if (is_pair() && (peer_.expired() || peer_.lock()->gone_)) return -EPIPE;
  const std::size_t size = size_of(message);
  if (size == 0) return 0;
  if (room() == 0) return -EAGAIN;
  const std::size_t n = cut_short(std::min(size, room()));
  queued_ += gather(message, n);
  transmit();
  return static_cast<SysResult>(n);
}

SysResult Stream::receive(msghdr& message) {
  message.msg_flags = 0;
  message.msg_controllen = 0;
  message.msg_namelen = 0;
  if (!arrived_.empty()) {
    const std::size_t n = cut_short(std::min(size_of(message), arrived_.size()));
    scatter(std::string_view(arrived_).substr(0, n), message);
    arrived_.erase(0, n);
    if (const auto peer = peer_.lock()) peer->changed();  // there is room again
    if (!arrived_.empty()) changed();
    return static_cast<SysResult>(n);
  }
  if (end_arrived_ || deaf_) return 0;
  if (error_ != 0) return -std::exchange(error_, 0);
  if (state_ == State::broken) return 0;
  return state_ == State::open || state_ == State::connecting ? -EAGAIN : -ENOTCONN;
}

void Stream::transmit() {
  if (in_flight_ || (queued_.empty() && !end_queued_)) return;
  flying_ = std::exchange(queued_, {});
  end_flying_ = std::exchange(end_queued_, false);
  in_flight_ = true;
  later(network().draw_latency(world().host(), *peer_host_, flying_.size()), &Stream::arrive);
}

// At the other side.
void Stream::arrive() {
  if (state_ != State::open) return;
  if (world().dead()) return;  // nobody is left to try again
  if (!reachable(*peer_host_)) {
    if (give_up_or_retry(first_resend, &Stream::arrive)) break_off(ETIMEDOUT);
    return;
  }
  tries_ = 0;
  if (network().strikes(&Faults::resets, 64)) {
    const auto peer = peer_.lock();
    break_off(ECONNRESET);
    if (peer != nullptr) peer->break_off(ECONNRESET);
    return;
  }
  const std::string load = std::exchange(flying_, {});
  const bool end = std::exchange(end_flying_, false);
  in_flight_ = false;
  const auto peer = peer_.lock();
  if (peer == nullptr || peer->state_ == State::broken || (peer->gone_ && !load.empty())) {
    if (!load.empty()) {  // nobody is there to take it
      later(network().draw_latency(*peer_host_, world().host()), &Stream::reset_by_peer);
    }
    return;
  }
  if (!peer->deaf_) peer->arrived_ += load;
  peer->end_arrived_ |= end;
  peer->changed();
  transmit();
}

void Stream::break_off(int error) {
  if (state_ == State::broken) return;
  state_ = State::broken;
  // As Linux has it: who has read the end is told by his writes alone.
  error_ = error == ECONNRESET && end_arrived_ ? EPIPE : error;
  peer_.reset();
  queued_.clear();
  flying_.clear();
  changed();
}

// Both ends have arrived: then it is not a connection any more.
bool Stream::over() const noexcept {
  return end_arrived_ && mute_ && !end_queued_ && !in_flight_;
}

SysResult Stream::shutdown(int how) {
  if (state_ != State::open || over()) return -ENOTCONN;
  if (how == SHUT_RD || how == SHUT_RDWR) deaf_ = true;
  if ((how == SHUT_WR || how == SHUT_RDWR) && !mute_) {
    mute_ = end_queued_ = true;
    transmit();
  }
  changed();
  return 0;
}

void Stream::closed(bool crashed) {
  gone_ = true;
  if (state_ == State::listening) {
    world().forget_listener(local_.port);
    for (const auto& stream : std::exchange(waiting_, {})) {
      const auto client = stream->peer_.lock();
      stream->closed(true);
      if (crashed || client == nullptr) continue;
      client->later(network().draw_latency(world().host(), client->world().host()),
                    &Stream::reset_by_peer);
    }
    return;
  }
  const auto peer = peer_.lock();
  const bool unread = state_ == State::open && !arrived_.empty();
  // It has been let in, and does not know it yet.
  const bool too_early = state_ == State::connecting && peer != nullptr;
  if (crashed) {
    // The other side does not know, until it says something and the host is up again.
    if (peer != nullptr) peer->peer_.reset();
    state_ = State::broken;
  } else if (unread || too_early) {  // a reset
    if (peer != nullptr) {
      peer->peer_.reset();
      peer->later(network().draw_latency(world().host(), *peer_host_), &Stream::reset_by_peer);
    }
    state_ = State::broken;
  } else if (state_ == State::open) {
    deaf_ = true;
    if (!mute_) {
      mute_ = end_queued_ = true;
      transmit();
    }
  } else {
    state_ = State::broken;
  }
}

std::uint32_t Stream::bits() const {
  switch (state_) {
    case State::fresh:
    case State::connecting:
      return 0;
    case State::listening:
      return waiting_.empty() ? 0U : Source::readable;
    case State::broken:
      return Source::readable | Source::writable | Source::read_end | Source::write_end;
    case State::open:
      break;
  }
  std::uint32_t bits = 0;
  if (!arrived_.empty() || end_arrived_ || deaf_) bits |= Source::readable;
  if (end_arrived_ || deaf_) bits |= Source::read_end;
  if (room() > 0 || mute_) bits |= Source::writable;
  return bits;
}

// Datagrams

SysResult Datagrams::bind(const Endpoint& at) {
  if (local_.port != 0) return -EINVAL;
  if (at.port != 0 && world().datagram_ports().contains(at.port)) return -EADDRINUSE;
  local_ = at;
  local_.family = family_;
  if (local_.port == 0) local_.port = world().free_port(world().datagram_ports());
  world().datagrams(local_.port) = this;
  return 0;
}

SysResult Datagrams::connect(const Endpoint& to) {
  remote_ = to;
  remote_.family = family_;
  return local_.port == 0 ? bind({.family = family_}) : 0;
}

SysResult Datagrams::name(World::End end, Endpoint& endpoint) {
  if (end == World::End::peer && remote_.port == 0) return -ENOTCONN;
  endpoint = end == World::End::local ? local_ : remote_;
  endpoint.family = family_;
  return 0;
}

SysResult Datagrams::send(const msghdr& message) {
  constexpr std::size_t largest = 65'507;
  Endpoint to = remote_;
  if (message.msg_name != nullptr) {
    const auto given =
        Endpoint::from(static_cast<const sockaddr*>(message.msg_name), message.msg_namelen);
    if (!given) return -ENETUNREACH;
    to = *given;
  }
  if (to.port == 0) return -EDESTADDRREQ;
  const std::size_t size = size_of(message);
  if (size > largest) return -EMSGSIZE;
  if (local_.port == 0) bind({.family = family_});
  Host* const host = host_at(world(), to.ip);
  if (host == nullptr) return static_cast<SysResult>(size);  // into nowhere
  Network& network = world().universe().network();
  Endpoint from = local_;
  from.ip = host == &world().host() ? Endpoint::loopback : world().host().ip();
  const int copies = network.strikes(&Faults::lost_datagrams)      ? 0
                     : network.strikes(&Faults::doubled_datagrams) ? 2
                                                                   : 1;
  for (int i = 0; i < copies; ++i) {
    deliver(world(), *host, to, {from, gather(message, size)});
  }
  return static_cast<SysResult>(size);
}

void Datagrams::deliver(HostWorld& from, Host& to, const Endpoint& at, Datagram datagram) {
  Universe& universe = from.universe();
  Host& sender = from.host();
  const Duration latency = universe.network().draw_latency(sender, to, datagram.bytes.size());
  universe.engine().at(
      universe.engine().true_now() + latency,
      [&universe, &sender, &to, port = at.port, address = at.ip, datagram = std::move(datagram)] {
        constexpr std::size_t longest_queue = 256;
        if (!to.up() || !universe.network().connected(sender, to)) return;
        HostWorld& there = *to.world();
        if (!there.datagram_ports().contains(port)) return;
        auto* const socket = static_cast<Datagrams*>(there.datagrams(port));
        if (socket == nullptr || socket->arrived_.size() >= longest_queue) return;
        if (!socket->local_.takes(address, to, sender)) return;
        if (socket->remote_.port != 0 && socket->remote_.port != datagram.from.port) return;
        socket->arrived_.push_back(datagram);
        socket->changed();
      });
}

SysResult Datagrams::receive(msghdr& message) {
  if (arrived_.empty()) return -EAGAIN;
  const Datagram datagram = std::move(arrived_.front());
  arrived_.pop_front();
  const std::size_t n = std::min(size_of(message), datagram.bytes.size());
  scatter(std::string_view(datagram.bytes).substr(0, n), message);
  message.msg_flags = n < datagram.bytes.size() ? MSG_TRUNC : 0;
  message.msg_controllen = 0;
  Endpoint from = datagram.from;
  from.family = family_;
  from.write(static_cast<sockaddr*>(message.msg_name), &message.msg_namelen);
  if (!arrived_.empty()) changed();
  return static_cast<SysResult>(n);
}

void Datagrams::closed(bool /*crashed*/) {
  if (local_.port != 0) world().forget_datagrams(local_.port);
}

std::uint32_t Datagrams::bits() const {
  return Source::writable | (arrived_.empty() ? 0U : Source::readable);
}

}  // namespace weft::sim

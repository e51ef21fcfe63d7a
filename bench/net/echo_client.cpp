#include "net/echo_client.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace weft::bench {

namespace {

constexpr std::uint64_t patience_ns = 5'000'000'000;
constexpr std::uint32_t pings_at_once = 64;

std::uint64_t clock_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch() /
                                    std::chrono::nanoseconds(1));
}

void set_timeout(int fd, int option) {
  const timeval limit{.tv_sec = patience_ns / 1'000'000'000, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, option, &limit, sizeof limit);
}

// A different one for every request of every connection, so that a server which mixes up
// connections, or sends an old buffer again, is found out.
void write_message(char* to, std::uint64_t index, std::uint64_t sequence) {
  std::array<std::uint64_t, EchoClient::message_size / sizeof(std::uint64_t)> words;
  std::uint64_t x = (index << 40) ^ sequence;
  for (auto& word : words) {
    x = x * 6364136223846793005U + 1442695040888963407U;
    word = x;
  }
  std::memcpy(to, words.data(), EchoClient::message_size);
}

std::unique_ptr<Transport> make_transport(const Load& load, Receiver& receiver) {
  if (!load.uring) return make_epoll_transport(load.conns, receiver);
#if defined(WEFT_BENCH_URING)
  if (load.mode != Mode::churn) return make_uring_transport(load.conns, receiver);
#endif
  throw std::runtime_error(
      "the io_uring client knows no mode churn, or was not built: no liburing");
}

}  // namespace

EchoClient::EchoClient(std::uint16_t port, const Load& load) : load_(load), port_(port) {
  if (load_.mode != Mode::pipelined) load_.depth = 1;
  if (load_.conns == 0 || load_.depth == 0) {
    throw std::runtime_error("echo client: the number of connections and the depth must not be 0");
  }
  connections_.resize(load_.conns);
  for (auto& connection : connections_) connection.began.resize(load_.depth);
  requests_.resize(load_.depth * message_size);
  transport_ = make_transport(load_, *this);
}

EchoClient::~EchoClient() {
  close();
}

void EchoClient::close() {
  transport_.reset();
  for (auto& connection : connections_) {
    if (connection.fd >= 0) ::close(connection.fd);
    connection.fd = -1;
  }
}

void EchoClient::fail(std::uint32_t index, const std::string& what, int error) const {
  std::string text = "connection " + std::to_string(index) + " of " +
                     std::to_string(connections_.size()) + ": " + what;
  if (error != 0) text += ": " + std::generic_category().message(error);
  throw std::runtime_error(text);
}

void EchoClient::connect(std::uint32_t index) {
  Connection& connection = connections_[index];
  connection.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connection.fd < 0) fail(index, "socket", errno);
  connection.sent = connection.answered = 0;
  const int on = 1;
  ::setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A close sends a reset: no TIME_WAIT, so that churn does not run out of ports.
  const linger reset{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(connection.fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  set_timeout(connection.fd, SO_SNDTIMEO);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port_);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // Blocking: over the loopback a connect is complete before the system call would sleep.
  while (::connect(connection.fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) <
         0) {
    if (errno != EINTR) fail(index, "connect", errno);
  }
}

void EchoClient::first_echo(std::uint32_t index) {
  Connection& connection = connections_[index];
  set_timeout(connection.fd, SO_RCVTIMEO);
  Message expected;
  write_message(expected.data(), index, 0);
  Message got;
  ssize_t size = 0;
  do {
    size = ::recv(connection.fd, got.data(), got.size(), MSG_WAITALL);
  } while (size < 0 && errno == EINTR);
  if (size < 0) fail(index, "waiting for the first echo", errno);
  if (size != message_size) fail(index, "closed by the server before the first echo");
  if (got != expected) fail(index, "the first echo has wrong bytes");
  connection.sent = connection.answered = 1;
  transport_->add(index, connection.fd);
}

void EchoClient::open() {
  if (load_.mode == Mode::churn) return;
  // In batches far below the backlog of the listener: when it overflows, SYNs are dropped and
  // sent again a second later. An echo proves that the server has accepted.
  constexpr std::uint32_t batch = 256;
  for (std::uint32_t first = 0; first < load_.conns; first += batch) {
    const std::uint32_t end = std::min(first + batch, load_.conns);
    for (std::uint32_t i = first; i < end; ++i) {
      connect(i);
      Message message;
      write_message(message.data(), i, 0);
      const ssize_t sent = ::send(connections_[i].fd, message.data(), message.size(), MSG_NOSIGNAL);
      if (sent != message_size) fail(i, "first send", sent < 0 ? errno : 0);
    }
    for (std::uint32_t i = first; i < end; ++i) first_echo(i);
  }
}

void EchoClient::start() {
  if (started_) return;
  started_ = true;
  if (load_.mode == Mode::idle) return;
  for (std::uint32_t i = 0; i < load_.conns; ++i) {
    if (load_.mode == Mode::churn) {
      cycle(i);
    } else {
      request(i, load_.depth, clock_ns());
    }
  }
}

LoadResult EchoClient::run(double seconds) {
  start();
  latency_ = {};
  pings_ = 0;
  const bool idle = load_.mode == Mode::idle;
  const int longest_ms = idle && load_.rate != 0 ? 1 : 1000;
  const std::uint64_t begin_ns = clock_ns();
  const std::uint64_t end_ns = begin_ns + static_cast<std::uint64_t>(seconds * 1e9);
  std::uint64_t now_ns = begin_ns;
  std::uint64_t progress_ns = begin_ns;
  while (now_ns < end_ns) {
    if (idle) ping_due(now_ns - begin_ns, now_ns);
    const auto left_ms = static_cast<int>((end_ns - now_ns) / 1'000'000 + 1);
    const bool progress = transport_->wait(std::min(left_ms, longest_ms));
    now_ns = clock_ns();
    if (progress || outstanding_ == 0) progress_ns = now_ns;
    if (now_ns - progress_ns > patience_ns) {
      throw std::runtime_error("no connection was answered for five seconds");
    }
  }
  return {static_cast<double>(now_ns - begin_ns) / 1e9, latency_};
}

void EchoClient::finish() {
  finishing_ = true;
  const std::uint64_t limit_ns = clock_ns() + patience_ns;
  while (outstanding_ > 0 && clock_ns() < limit_ns) transport_->wait(100);
  for (std::uint32_t i = 0; i < load_.conns; ++i) {
    const Connection& connection = connections_[i];
    if (connection.answered == connection.sent) continue;
    fail(i, "no answer to request " + std::to_string(connection.answered) + " for five seconds");
  }
  close();
}

void EchoClient::request(std::uint32_t index, std::uint64_t count, std::uint64_t now_ns) {
  Connection& connection = connections_[index];
  for (std::uint64_t i = 0; i < count; ++i, ++connection.sent) {
    write_message(requests_.data() + i * message_size, index, connection.sent);
    connection.began[connection.sent % load_.depth] = now_ns;
  }
  outstanding_ += count;
  transport_->send(index, {requests_.data(), count * message_size});
}

void EchoClient::on_end(std::uint32_t index, int error) {
  fail(index, error == 0 ? "closed by the server" : "failed", error);
}

void EchoClient::on_bytes(std::uint32_t index, std::span<const char> bytes) {
  Connection& connection = connections_[index];
  const std::uint64_t now_ns = clock_ns();
  std::uint64_t count = 0;
  while (!bytes.empty()) {
    if (connection.partial_size == 0 && bytes.size() >= message_size) {
      check_answer(index, bytes.data(), now_ns);
      bytes = bytes.subspan(message_size);
      ++count;
      continue;
    }
    const std::size_t part = std::min(bytes.size(), message_size - connection.partial_size);
    std::memcpy(connection.partial.data() + connection.partial_size, bytes.data(), part);
    connection.partial_size += part;
    bytes = bytes.subspan(part);
    if (connection.partial_size == message_size) {
      check_answer(index, connection.partial.data(), now_ns);
      connection.partial_size = 0;
      ++count;
    }
  }
  if (count > 0) on_answers(index, count, now_ns);
}

void EchoClient::check_answer(std::uint32_t index, const char* data, std::uint64_t now_ns) {
  Connection& connection = connections_[index];
  if (connection.answered == connection.sent) fail(index, "an answer to no request");
  Message expected;
  write_message(expected.data(), index, connection.answered);
  if (std::memcmp(data, expected.data(), message_size) != 0) {
    fail(index, "wrong bytes in answer " + std::to_string(connection.answered));
  }
  latency_.add(now_ns - connection.began[connection.answered % load_.depth]);
  ++connection.answered;
  --outstanding_;
}

void EchoClient::on_answers(std::uint32_t index, std::uint64_t count, std::uint64_t now_ns) {
  if (finishing_) return;
  switch (load_.mode) {
    case Mode::pingpong:
    case Mode::pipelined:
      request(index, count, now_ns);
      break;
    case Mode::churn:
      ::close(connections_[index].fd);
      cycle(index);
      break;
    case Mode::idle:
      connections_[index].pinged = false;
      break;
  }
}

void EchoClient::cycle(std::uint32_t index) {
  const std::uint64_t begin_ns = clock_ns();
  connect(index);
  transport_->add(index, connections_[index].fd);
  request(index, 1, begin_ns);
}

// The connections take turns, so that each is heard of again if there is time.
void EchoClient::ping_due(std::uint64_t elapsed_ns, std::uint64_t now_ns) {
  const double due = static_cast<double>(elapsed_ns) / 1e9 * load_.rate;
  for (std::uint32_t tried = 0; tried < pings_at_once && outstanding_ < pings_at_once; ++tried) {
    if (load_.rate != 0 && static_cast<double>(pings_) >= due) return;
    const std::uint32_t index = next_ping_;
    next_ping_ = (next_ping_ + 1) % load_.conns;
    if (connections_[index].pinged) continue;
    connections_[index].pinged = true;
    ++pings_;
    request(index, 1, now_ns);
  }
}

}  // namespace weft::bench

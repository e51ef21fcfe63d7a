#if defined(WEFT_BENCH_URING)

#include "net/transport.hpp"
#include "net/uring.hpp"

#include <cerrno>
#include <vector>

#include <sys/socket.h>

namespace weft::bench {

namespace {

class UringTransport final : public Transport {
 public:
  UringTransport(std::uint32_t connections, Receiver& receiver)
      : receiver_(receiver), buffers_(ring_), connections_(connections) {}

  // A receive under way keeps its socket open: they end here, so that the caller's close is one.
  ~UringTransport() override {
    try {
      constexpr int all = IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY;
      io_uring_sqe* sqe = ring_.next();
      ::io_uring_prep_cancel64(sqe, 0, all);
      sqe->user_data = none;
      __kernel_timespec timeout{.tv_sec = 1, .tv_nsec = 0};
      while (receiving_ > 0) {
        const auto handle = [this](const io_uring_cqe& cqe) { drop(cqe); };
        if (!ring_.wait(&timeout, handle)) break;
      }
    } catch (...) {  // the end of the ring cancels as well, only later
    }
  }
  UringTransport(const UringTransport&) = delete;
  UringTransport& operator=(const UringTransport&) = delete;

  void add(std::uint32_t index, int fd) override {
    connections_[index].fd = fd;
    receive(index);
  }

  void send(std::uint32_t index, std::span<const char> bytes) override {
    Connection& connection = connections_[index];
    auto& queue = connection.sending.empty() ? connection.sending : connection.unsent;
    queue.insert(queue.end(), bytes.begin(), bytes.end());
    if (&queue == &connection.sending) submit_send(index);
  }

  bool wait(int timeout_ms) override {
    __kernel_timespec timeout{.tv_sec = timeout_ms / 1000,
                              .tv_nsec = timeout_ms % 1000 * 1'000'000LL};
    return ring_.wait(&timeout, [this](const io_uring_cqe& cqe) { handle(cqe); });
  }

 private:
  // user_data is the index of a connection, doubled, plus 1 for a send.
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  struct Connection {
    int fd = -1;
    std::vector<char> sending;  // one send at a time, or they could overtake each other
    std::vector<char> unsent;   // what came meanwhile
  };

  void receive(std::uint32_t index) {
    prepare_receive(ring_.next(), connections_[index].fd, std::uint64_t{index} * 2);
    ++receiving_;
  }

  void submit_send(std::uint32_t index) {
    const Connection& connection = connections_[index];
    io_uring_sqe* sqe = ring_.next();
    ::io_uring_prep_send(sqe, connection.fd, connection.sending.data(), connection.sending.size(),
                         MSG_WAITALL | MSG_NOSIGNAL);
    sqe->user_data = std::uint64_t{index} * 2 + 1;
  }

  void handle(const io_uring_cqe& cqe) {
    const auto index = static_cast<std::uint32_t>(cqe.user_data / 2);
    if (cqe.user_data % 2 == 0) {
      on_received(index, cqe);
    } else {
      on_sent(index, cqe.res);
    }
  }

  void on_received(std::uint32_t index, const io_uring_cqe& cqe) {
    const bool ended = (cqe.flags & IORING_CQE_F_MORE) == 0;
    if (ended) --receiving_;
    if (cqe.res > 0) {
      const std::uint16_t id = Buffers::id(cqe);
      receiver_.on_bytes(index, {buffers_.data(id), static_cast<std::size_t>(cqe.res)});
      buffers_.give(id);
    } else if (cqe.res != -ENOBUFS) {
      return receiver_.on_end(index, -cqe.res);
    }
    if (ended) receive(index);
  }

  void on_sent(std::uint32_t index, int result) {
    Connection& connection = connections_[index];
    if (result < 0) return receiver_.on_end(index, -result);
    // MSG_WAITALL: the kernel itself goes on after a short send.
    if (static_cast<std::size_t>(result) < connection.sending.size()) {
      return receiver_.on_end(index, EPIPE);
    }
    connection.sending.clear();
    connection.sending.swap(connection.unsent);
    if (!connection.sending.empty()) submit_send(index);
  }

  void drop(const io_uring_cqe& cqe) {
    const bool receive = cqe.user_data != none && cqe.user_data % 2 == 0;
    if (receive && (cqe.flags & IORING_CQE_F_MORE) == 0) --receiving_;
  }

  Receiver& receiver_;
  Ring ring_;
  Buffers buffers_;
  std::vector<Connection> connections_;
  std::size_t receiving_ = 0;
};

}  // namespace

std::unique_ptr<Transport> make_uring_transport(std::uint32_t connections, Receiver& receiver) {
  return std::make_unique<UringTransport>(connections, receiver);
}

}  // namespace weft::bench

#endif

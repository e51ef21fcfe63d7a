// The raw io_uring servers: multishot accept, receives into provided buffers, and a send from the
// very buffer that was received. One system call per turn of the loop.
//
// Three of them give up part of that, to show what each part is worth: one receives only when the
// last answer is on its way, as a task does that reads, writes and reads again (so that nothing is
// taken that nobody has asked for), one sends by a call of its own, and one does that with a ring
// that any thread may use, as a library's must be: then every call also runs what the ring has
// pending.
#if defined(WEFT_BENCH_URING)

#include "net/servers.hpp"
#include "net/uring.hpp"

#include <cerrno>
#include <system_error>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace weft::bench {

namespace {

struct Style {
  bool ahead = true;    // receives go on by themselves
  bool calls = false;   // a send is a system call
  bool shared = false;  // the ring is not tied to this thread
};

class UringServer {
 public:
  UringServer(int listen_fd, int stop_fd, Style style)
      : listen_fd_(listen_fd), style_(style), buffers_(ring_) {
    next_.resize(Buffers::count);
    sizes_.resize(Buffers::count);
    accept();
    io_uring_sqe* sqe = ring_.next();
    ::io_uring_prep_poll_add(sqe, stop_fd, POLLIN);
    sqe->user_data = stop_event;
  }

  void run() {
    while (!stopped_) {
      ring_.wait(nullptr, [this](const io_uring_cqe& cqe) { handle(cqe); });
      for (const int fd : starved_) receive(fd);
      starved_.clear();
    }
  }

 private:
  // The lowest bits of user_data; above them stands the descriptor.
  enum Event : std::uint64_t { accept_event, stop_event, receive_event, send_event, event_count };

  static constexpr int none = -1;

  struct Connection {
    bool receiving = false;
    bool sending = false;
    bool ended = false;  // nothing more will be received: close when all is sent
    int first = none;    // a list of buffers to be sent, linked by next_
    int last = none;
  };

  static std::uint64_t tag(int fd, Event event) {
    return static_cast<std::uint64_t>(fd) * event_count + event;
  }

  void handle(const io_uring_cqe& cqe) {
    const auto fd = static_cast<int>(cqe.user_data / event_count);
    const bool more = (cqe.flags & IORING_CQE_F_MORE) != 0;
    switch (cqe.user_data % event_count) {
      case accept_event:
        on_accepted(cqe.res);
        if (!more) accept();
        break;
      case stop_event:
        stopped_ = true;
        break;
      case receive_event:
        connections_[static_cast<std::size_t>(fd)].receiving = more;
        on_received(fd, cqe);
        break;
      case send_event:
        on_sent(fd, cqe.res);
        break;
    }
  }

  void accept() {
    io_uring_sqe* sqe = ring_.next();
    ::io_uring_prep_multishot_accept(sqe, listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    sqe->user_data = accept_event;
  }

  void on_accepted(int fd) {
    if (fd == -ECONNABORTED || fd == -EINTR) return;
    if (fd < 0) throw std::system_error(-fd, std::generic_category(), "accept");
    const auto at = static_cast<std::size_t>(fd);
    if (at >= connections_.size()) connections_.resize(at + 1);
    connections_[at] = {};
    receive(fd);
  }

  void receive(int fd) {
    io_uring_sqe* sqe = ring_.next();
    prepare_receive(sqe, fd, tag(fd, receive_event));
    if (!style_.ahead) {  // there is nothing yet, most likely
      sqe->ioprio = IORING_RECVSEND_POLL_FIRST;
    }
    connections_[static_cast<std::size_t>(fd)].receiving = true;
  }

  void on_received(int fd, const io_uring_cqe& cqe) {
    Connection& connection = connections_[static_cast<std::size_t>(fd)];
    if (cqe.res == -ENOBUFS) {  // buffers come back when sends complete, at the latest
      starved_.push_back(fd);
      return;
    }
    if (cqe.res <= 0) {
      connection.ended = true;
      return close_if_done(fd);
    }
    const std::uint16_t id = Buffers::id(cqe);
    if (style_.calls) return answer_by_call(fd, id, static_cast<std::size_t>(cqe.res));
    sizes_[id] = static_cast<unsigned>(cqe.res);
    next_[id] = none;
    if (connection.first == none) {
      connection.first = id;
    } else {
      next_[static_cast<std::size_t>(connection.last)] = id;
    }
    connection.last = id;
    if (!connection.sending) send(fd);
    if (style_.ahead && !connection.receiving) receive(fd);
  }

  void answer_by_call(int fd, std::uint16_t id, std::size_t size) {
    // If that fails the receive fails as well, and ends the connection. It fits: small requests.
    static_cast<void>(::send(fd, buffers_.data(id), size, MSG_NOSIGNAL));
    buffers_.give(id);
    if (!connections_[static_cast<std::size_t>(fd)].receiving) receive(fd);
  }

  // One at a time: two sends on one socket could overtake each other.
  void send(int fd) {
    Connection& connection = connections_[static_cast<std::size_t>(fd)];
    const auto id = static_cast<std::uint16_t>(connection.first);
    io_uring_sqe* sqe = ring_.next();
    ::io_uring_prep_send(sqe, fd, buffers_.data(id), sizes_[id], MSG_WAITALL | MSG_NOSIGNAL);
    sqe->user_data = tag(fd, send_event);
    connection.sending = true;
  }

  void on_sent(int fd, int result) {
    Connection& connection = connections_[static_cast<std::size_t>(fd)];
    connection.sending = false;
    const auto id = static_cast<std::uint16_t>(connection.first);
    const bool failed = result != static_cast<int>(sizes_[id]);
    give_first(connection);
    // After a failed send the receive fails as well, and ends the connection.
    while (failed && connection.first != none) give_first(connection);
    if (connection.first != none) return send(fd);
    if (connection.ended) return close_if_done(fd);
    if (!connection.receiving) receive(fd);
  }

  void give_first(Connection& connection) {
    const int id = connection.first;
    connection.first = next_[static_cast<std::size_t>(id)];
    buffers_.give(static_cast<std::uint16_t>(id));
  }

  void close_if_done(int fd) {
    if (!connections_[static_cast<std::size_t>(fd)].sending) ::close(fd);
  }

  const int listen_fd_;
  const Style style_;
  bool stopped_ = false;
  Ring ring_{style_.shared ? IORING_SETUP_COOP_TASKRUN : Ring::own_thread};
  Buffers buffers_;
  std::vector<Connection> connections_;  // by descriptor
  std::vector<int> next_;                // by buffer: the next one of the same connection
  std::vector<unsigned> sizes_;          // by buffer: how many bytes were received
  std::vector<int> starved_;             // connections whose receive found no buffer
};

}  // namespace

void run_raw_uring(int listen_fd, int stop_fd) {
  UringServer(listen_fd, stop_fd, {}).run();
}
void run_exact_uring(int listen_fd, int stop_fd) {
  UringServer(listen_fd, stop_fd, {.ahead = false}).run();
}
void run_calling_uring(int listen_fd, int stop_fd) {
  UringServer(listen_fd, stop_fd, {.calls = true}).run();
}
void run_shared_uring(int listen_fd, int stop_fd) {
  UringServer(listen_fd, stop_fd, {.calls = true, .shared = true}).run();
}

}  // namespace weft::bench

#endif

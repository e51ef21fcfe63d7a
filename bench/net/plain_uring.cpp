// The plain io_uring server: accept, then receive, send, receive, send, each asked for when the one
// before it is done. One system call per turn of the loop.
#if defined(WEFT_BENCH_URING)

#include "net/servers.hpp"
#include "net/uring.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace weft::bench {

namespace {

class PlainServer {
 public:
  PlainServer(int listen_fd, int stop_fd) : listen_fd_(listen_fd) {
    accept();
    io_uring_sqe* sqe = ring_.next();
    ::io_uring_prep_poll_add(sqe, stop_fd, POLLIN);
    ::io_uring_sqe_set_data(sqe, &stopped_);
  }

  void run() {
    while (!stopped_) ring_.wait(nullptr, [this](const io_uring_cqe& cqe) { handle(cqe); });
  }

 private:
  struct Connection {
    int fd = -1;
    bool sending = false;
    unsigned begin = 0;  // what is left to be sent
    unsigned end = 0;
    std::array<char, 2048> bytes;
  };

  void accept() {
    io_uring_sqe* sqe = ring_.next();
    ::io_uring_prep_accept(sqe, listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    ::io_uring_sqe_set_data(sqe, this);
  }
  void receive(Connection& connection) {
    connection.sending = false;
    io_uring_sqe* sqe = ring_.next();
    ::io_uring_prep_recv(sqe, connection.fd, connection.bytes.data(), connection.bytes.size(), 0);
    ::io_uring_sqe_set_data(sqe, &connection);
  }
  void send(Connection& connection) {
    connection.sending = true;
    io_uring_sqe* sqe = ring_.next();
    ::io_uring_prep_send(sqe, connection.fd, connection.bytes.data() + connection.begin,
                         connection.end - connection.begin, MSG_NOSIGNAL);
    ::io_uring_sqe_set_data(sqe, &connection);
  }

  void handle(const io_uring_cqe& cqe) {
    void* const data = ::io_uring_cqe_get_data(&cqe);
    if (data == &stopped_) {
      stopped_ = true;
    } else if (data == this) {
      on_accepted(cqe.res);
    } else {
      on_transferred(*static_cast<Connection*>(data), cqe.res);
    }
  }
  void on_accepted(int fd) {
    accept();
    if (fd == -ECONNABORTED || fd == -EINTR) return;
    if (fd < 0) throw std::system_error(-fd, std::generic_category(), "accept");
    auto connection = std::make_unique<Connection>();
    connection->fd = fd;
    receive(*connection.release());  // until its end
  }
  void on_transferred(Connection& connection, int count) {
    if (count <= 0) {
      ::close(connection.fd);
      delete &connection;
    } else if (connection.sending) {
      connection.begin += static_cast<unsigned>(count);
      connection.begin == connection.end ? receive(connection) : send(connection);
    } else {
      connection.begin = 0;
      connection.end = static_cast<unsigned>(count);
      send(connection);
    }
  }

  const int listen_fd_;
  bool stopped_ = false;
  Ring ring_{0};
};

}  // namespace

void run_plain_uring(int listen_fd, int stop_fd) {
  PlainServer(listen_fd, stop_fd).run();
}

}  // namespace weft::bench

#endif

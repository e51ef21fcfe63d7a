/// How the load generator moves bytes: with epoll, or with io_uring.
///
/// Over the loopback a client pays as much per request as the server does. With epoll on both sides
/// the client is the limit, and every server looks as good as the next one. io_uring makes the
/// client a fifth cheaper, so that what is measured is the server.
///
/// One thread. A connection is known by a small index; its descriptor stays with the caller, who
/// closes it after the transport is gone. With epoll it may also be closed and its index added
/// anew at any time, which mode churn needs; io_uring would keep the old socket open.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace weft::bench {

/// What a transport reports, from inside wait().
class Receiver {
 public:
  /// Bytes arrived. The receiver may call the transport from here.
  virtual void on_bytes(std::uint32_t index, std::span<const char> bytes) = 0;
  /// The connection failed (an errno), or the peer has closed it (0).
  virtual void on_end(std::uint32_t index, int error) = 0;

 protected:
  ~Receiver() = default;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual void add(std::uint32_t index, int fd) = 0;
  /// Sends now or, if the socket is full, later; in order. The bytes are copied where needed.
  virtual void send(std::uint32_t index, std::span<const char> bytes) = 0;
  /// Waits for at least one event and reports all there are; false after the timeout.
  virtual bool wait(int timeout_ms) = 0;
};

std::unique_ptr<Transport> make_epoll_transport(std::uint32_t connections, Receiver& receiver);
#if defined(WEFT_BENCH_URING)
/// Throws std::system_error if the kernel does not allow or know what it needs (Linux 6.1).
std::unique_ptr<Transport> make_uring_transport(std::uint32_t connections, Receiver& receiver);
#endif

}  // namespace weft::bench

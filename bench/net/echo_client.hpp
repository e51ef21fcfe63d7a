/// A load generator for echo servers on 127.0.0.1: one thread, 64 byte requests. Every echoed byte
/// is compared with what was sent.
///
///     EchoClient client(port, {.mode = Mode::pingpong, .conns = 64});
///     client.open();                         // connects; one checked echo per connection
///     client.run(0.2);                       // warm up
///     auto result = client.run(2.0);         // goes on where the last run stopped
///     client.finish();                       // every request is answered, or it throws
///
/// Whatever goes wrong (refused, reset, wrong bytes, no answer for five seconds) throws
/// std::runtime_error that says on which connection.
///
/// It uses no weft code: a fault or a cost of weft must not show on both sides of the comparison.
#pragma once

#include "net/latency.hpp"
#include "net/transport.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace weft::bench {

enum class Mode {
  pingpong,   ///< one request outstanding per connection
  pipelined,  ///< Load::depth requests outstanding per connection
  churn,      ///< connect, one echo, close with a reset (which leaves no TIME_WAIT behind)
  idle,       ///< all connections held, a few of them pinged in turn at Load::rate
};

struct Load {
  Mode mode = Mode::pingpong;
  std::uint32_t conns = 64;
  std::uint32_t depth = 1;    ///< counts in mode pipelined only
  std::uint32_t rate = 1000;  ///< mode idle: requests per second over all connections; 0: no limit
  bool uring = false;         ///< see Transport; not in mode churn
};

struct LoadResult {
  double seconds = 0;
  Latency latency;  ///< mode churn: from before connect to the echo
};

class EchoClient final : private Receiver {
 public:
  static constexpr std::size_t message_size = 64;

  EchoClient(std::uint16_t port, const Load& load);
  ~EchoClient();
  EchoClient(const EchoClient&) = delete;
  EchoClient& operator=(const EchoClient&) = delete;

  /// Opens the connections and echoes once on each, so that the server has accepted all of them.
  /// In mode churn there is nothing to open yet.
  void open();
  LoadResult run(double seconds);
  /// Waits until every connection has its answers (one that a server has forgotten does not show
  /// otherwise, as long as the others go on), then closes them, with resets.
  void finish();

 private:
  using Message = std::array<char, message_size>;

  struct Connection {
    int fd = -1;
    bool pinged = false;               // mode idle: an answer is due
    std::uint64_t sent = 0;            // requests begun
    std::uint64_t answered = 0;        // of those
    std::vector<std::uint64_t> began;  // when the outstanding requests began, a ring
    Message partial;                   // an answer of which the rest has not come yet
    std::size_t partial_size = 0;
  };

  [[noreturn]] void fail(std::uint32_t index, const std::string& what, int error = 0) const;
  void connect(std::uint32_t index);
  void first_echo(std::uint32_t index);
  void close();
  void start();
  void cycle(std::uint32_t index);
  void ping_due(std::uint64_t elapsed_ns, std::uint64_t now_ns);
  void request(std::uint32_t index, std::uint64_t count, std::uint64_t now_ns);
  void check_answer(std::uint32_t index, const char* data, std::uint64_t now_ns);
  void on_answers(std::uint32_t index, std::uint64_t count, std::uint64_t now_ns);
  void on_bytes(std::uint32_t index, std::span<const char> bytes) override;
  void on_end(std::uint32_t index, int error) override;

  Load load_;
  std::uint16_t port_;
  bool started_ = false;
  bool finishing_ = false;         // no new requests
  std::uint64_t outstanding_ = 0;  // over all connections
  std::vector<Connection> connections_;
  std::unique_ptr<Transport> transport_;
  std::vector<char> requests_;  // scratch: what one send takes
  Latency latency_;             // of the current run

  // Mode idle.
  std::uint64_t pings_ = 0;      // of the current run
  std::uint32_t next_ping_ = 0;  // the connection whose turn it is
};

}  // namespace weft::bench

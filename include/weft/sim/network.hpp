/// Hosts and the network between them, simulated: what code on net/ and io/file talks to.
///
///     sim::Host& server = sim::host("server");             // 10.0.0.2; made when first named
///     server.start([] { serve(TcpListener::listen("0.0.0.0:80")); });
///     sim::host("client").start([] { ask(TcpStream::connect("server:80")); });
///
///     sim::network().partition({"server"}, {"client"});    // both ways, until heal()
///     server.crash();                                      // what was not synced is lost
///     server.start(serve_again);
///
/// A host is a World of its own: descriptors, names, files, random numbers, clocks. What a task
/// asks of the outside goes to the host it was started on; the body of a simulation runs on the
/// host "test". Hosts and everything on them end with the run.
///
/// The network has latency, and it has faults if one allows them: `Faults` says which are possible.
/// Each run draws which of them are on (most bugs need one or two, and all at once hide each
/// other), and then when they happen; all of it is on the tape, and shrinking takes it back where
/// it can.
///
/// TCP: bytes arrive in order or not at all, in pieces of any size. A window of 64 KiB of what has
/// been sent and not yet read; then writers wait. Who cannot be reached is tried again, ever more
/// seldom, and after `tcp_patience` given up: ETIMEDOUT. A host that has lost a connection, by a
/// crash or by closing it, answers with a reset. UDP: what is lost is lost.
///
/// Disk: what is written is in the page cache; a crash keeps what was synced, and of the rest any
/// part that is not older than what was left out, torn at sectors if that is possible.
#pragma once

#include <weft/base/time.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace weft::sim {

class Disk;
class Engine;
class HostWorld;
class Universe;

/// What may go wrong in a run.
struct Faults {
  // Network
  bool short_transfers = true;  // reads and writes of fewer bytes than could be
  bool slow_links = false;      // some packets take a hundred times as long
  bool resets = false;          // connections break
  bool lost_datagrams = false;
  bool doubled_datagrams = false;
  // Disk
  bool failing_syncs = false;  // EIO, and what was to be synced is not
  bool torn_writes = false;    // a crash leaves parts of writes that were not synced
  bool full_disk = false;      // ENOSPC
  bool slow_disk = false;
  // Host
  bool no_descriptors = false;  // EMFILE

  /// All of them.
  [[nodiscard]] static Faults every() noexcept {
    return {.short_transfers = true,
            .slow_links = true,
            .resets = true,
            .lost_datagrams = true,
            .doubled_datagrams = true,
            .failing_syncs = true,
            .torn_writes = true,
            .full_disk = true,
            .slow_disk = true,
            .no_descriptors = true};
  }
  [[nodiscard]] static Faults none() noexcept { return {.short_transfers = false}; }
};

/// A machine.
class Host {
 public:
  Host(Universe& universe, std::string name, std::uint32_t ip);
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  ~Host();

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// "10.0.0.2".
  [[nodiscard]] std::string address() const;
  [[nodiscard]] bool up() const noexcept { return up_; }

  /// Runs a process here, also on a host that has crashed: it is up again then, with what its disk
  /// has kept. A process that throws fails the run. From a task of the simulation.
  void start(std::function<void()> process, std::string_view process_name = {});
  /// At once: its tasks are cancelled, but nothing they do then can be noticed outside. Returns
  /// when they have ended.
  void crash();
  /// Asks its processes to end, by cancelling them, and waits for that.
  void stop();
  /// Processes that have been started and have not ended.
  [[nodiscard]] std::size_t processes() const noexcept;

  /// This host's clocks run faster by so many millionths, and its time of day is ahead.
  void clock(int ppm, Duration ahead = {});

  // The simulation's own

  [[nodiscard]] std::uint32_t ip() const noexcept { return ip_; }
  [[nodiscard]] const std::shared_ptr<HostWorld>& world() const noexcept { return world_; }
  [[nodiscard]] Instant read_clock(Instant truth) const noexcept;
  [[nodiscard]] Instant true_time(Instant read) const noexcept;
  [[nodiscard]] Duration ahead() const noexcept { return ahead_; }

 private:
  friend class Universe;
  struct Process;
  void go_down();
  void end_processes();

  Universe& universe_;
  const std::string name_;
  const std::uint32_t ip_;
  std::unique_ptr<Disk> disk_;
  std::shared_ptr<HostWorld> world_;
  bool up_ = true;
  std::vector<std::unique_ptr<Process>> processes_;
  int ppm_ = 0;
  Duration ahead_{};
};

/// What is between them.
class Network {
 public:
  explicit Network(Universe& universe) noexcept : universe_(universe) {}

  /// Of a packet, one way; between hosts.
  void latency(Duration shortest, Duration longest);
  /// What may happen from now on; drawn anew.
  void allow(const Faults& faults);
  Duration tcp_patience = std::chrono::seconds(60);

  using Names = std::vector<std::string>;
  /// Nothing gets from one group to the other, or back.
  void partition(const Names& some, const Names& others);
  /// Nothing gets from `from` to `to`.
  void cut(std::string_view from, std::string_view to);
  void mend(std::string_view from, std::string_view to);
  /// All links work again.
  void heal() noexcept { cuts_.clear(); }
  /// Can a packet get there now?
  [[nodiscard]] bool connected(const Host& from, const Host& to) const noexcept;

  // The simulation's own

  /// Of the next packet. Drawn.
  [[nodiscard]] Duration draw_latency(const Host& from, const Host& to);
  /// Does this kind of fault happen now? Drawn, if it is allowed and on in this run.
  [[nodiscard]] bool strikes(bool Faults::* fault, std::uint32_t one_in = 8);

 private:
  struct Cut {
    std::uint32_t from;
    std::uint32_t to;
    friend bool operator==(const Cut&, const Cut&) = default;
  };
  Universe& universe_;
  Duration shortest_ = std::chrono::microseconds(500);
  Duration longest_ = std::chrono::milliseconds(5);
  Faults allowed_ = Faults::none();
  std::vector<std::pair<bool Faults::*, bool>> drawn_;  // which are on in this run
  std::vector<Cut> cuts_;
};

/// Of the calling task's simulation. std::logic_error elsewhere.
[[nodiscard]] Host& host(std::string_view name);
[[nodiscard]] Network& network();
/// The host the calling task runs on.
[[nodiscard]] Host& this_host();

}  // namespace weft::sim

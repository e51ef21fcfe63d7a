/// Hosts and the network between them, simulated: what code on net/ and io/file talks to.
///
///     sim::Host& server = sim::host("server");             // 10.0.0.2; made when first named
///     server.start([] { serve(TcpListener::listen("0.0.0.0:80")); });
///     sim::host("client").start([] { ask(TcpStream::connect("server:80")); });
///
///     sim::network().partition({"server"}, {"client"});    // both ways, until heal()
///     server.crash();                                      // what was not synced is lost
///     server.start(serve_again);                           // or: server.restart()
///     server.pause();                                      // and later: server.resume()
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
/// part that is not older than what was left out, torn at sectors if that is possible. What a disk
/// does wrong by itself (`misdirected_writes`) shows when the cache is gone, after a crash.
#pragma once

#include <weft/base/time.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
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
  bool failing_reads = false;       // EIO
  bool misdirected_writes = false;  // what is synced lands in another place of the file
  bool bit_rot = false;             // a bit of what is read has changed, for good
  // Host
  bool no_descriptors = false;  // EMFILE
  bool pauses = false;          // a host stands still, up to seconds
  bool clock_jumps = false;     // the time of day, forth and back

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
            .failing_reads = true,
            .misdirected_writes = true,
            .bit_rot = true,
            .no_descriptors = true,
            .pauses = true,
            .clock_jumps = true};
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
  [[nodiscard]] bool up() const noexcept;

  /// Runs a process here, also on a host that has crashed: it is up again then, with what its disk
  /// has kept. A process that throws fails the run. From a task of the simulation.
  void start(std::function<void()> process, std::string_view process_name = {});
  /// At once: its tasks are cancelled, but nothing they do then can be noticed outside. Returns
  /// when they have ended.
  void crash();
  /// Crashes, and starts again what has been started here and has not come to its end.
  void restart();
  /// Asks its processes to end, by cancelling them, and waits for that.
  void stop();
  /// Its processes stand still while time goes on, as in a machine that is moved or swaps; what is
  /// sent to it waits. Ends when it has been resumed as often, and with a crash.
  void pause();
  void resume();
  [[nodiscard]] bool paused() const noexcept;
  /// Processes that have been started and have not ended.
  [[nodiscard]] std::size_t processes() const noexcept;

  /// From now on this host's clocks run faster by so many millionths, and its time of day is ahead.
  /// Timers that run already end when they would have.
  void clock(int ppm, Duration ahead = {});
  /// Its time of day changes by this, as when somebody sets it.
  void jump(Duration by) noexcept;

  // The simulation's own

  [[nodiscard]] std::uint32_t ip() const noexcept { return ip_; }
  [[nodiscard]] const std::shared_ptr<HostWorld>& world() const noexcept { return world_; }
  [[nodiscard]] Instant read_clock(Instant truth) const noexcept;
  [[nodiscard]] Instant true_time(Instant read) const noexcept;
  [[nodiscard]] Duration ahead() const noexcept { return ahead_; }

 private:
  friend class Network;
  friend class Universe;
  struct Process;
  void go_down();
  [[nodiscard]] bool going_down() const noexcept;
  void end_processes();
  void forget(std::uint64_t program);
  void go_on();

  Universe& universe_;
  const std::string name_;
  const std::uint32_t ip_;
  std::unique_ptr<Disk> disk_;
  std::shared_ptr<HostWorld> world_;
  bool up_ = true;
  int pauses_ = 0;
  std::vector<std::unique_ptr<Process>> processes_;
  /// What was started since it was last down and has not ended by itself, by number.
  std::map<std::uint64_t, std::pair<std::function<void()>, std::string>> programs_;
  std::uint64_t last_program_ = 0;
  bool going_down_ = false;
  std::uint64_t pauses_over_ = 0;  // how often it went on whatever pauses there were
  // Its clock showed `read_since_` at `rate_since_`, and has since run at this rate.
  int ppm_ = 0;
  Instant rate_since_{};
  Instant read_since_{};
  Duration ahead_{};
};

/// What is between them.
class Network {
 public:
  explicit Network(Universe& universe) noexcept : universe_(universe) {}

  /// Of a packet, one way; between hosts.
  void latency(Duration shortest, Duration longest);
  /// Of each link, one way: what is more than that queues up. 0, as at first: no limit.
  void bandwidth(std::uint64_t bytes_per_second) noexcept;
  /// What may happen from now on; drawn anew.
  void allow(const Faults& faults);
  Duration tcp_patience = std::chrono::seconds(60);

  using Names = std::vector<std::string>;
  /// Nothing gets from one group to the other, or back.
  void partition(const Names& some, const Names& others);
  /// Nothing gets from `from` to `to`.
  void cut(std::string_view from, std::string_view to);
  void mend(std::string_view from, std::string_view to);
  /// Nothing gets to this host or away from it, as with its cable pulled.
  void clog(std::string_view host);
  void unclog(std::string_view host);
  /// Clogs some of these hosts, one after the other, and lets them go again in another order; which
  /// and when is drawn. Over after `within`. Returns at once.
  void swizzle(const Names& hosts, Duration within);
  /// All links work again.
  void heal() noexcept;
  /// Can a packet get there now?
  [[nodiscard]] bool connected(const Host& from, const Host& to) const noexcept;

  // The simulation's own

  /// How long this packet takes, behind those that are on the same link. Drawn. The host it is for
  /// may pause by it.
  [[nodiscard]] Duration draw_latency(const Host& from, Host& to, std::size_t bytes = 0);
  /// Does this kind of fault happen now? Drawn, if it is allowed and on in this run.
  [[nodiscard]] bool strikes(bool Faults::* fault, std::uint32_t one_in = 8);

 private:
  static constexpr std::uint32_t everybody = 0;
  struct Cut {
    std::uint32_t from;
    std::uint32_t to;
    friend bool operator==(const Cut&, const Cut&) = default;
  };
  void maybe_pause(Host& host);
  Universe& universe_;
  Duration shortest_ = std::chrono::microseconds(500);
  Duration longest_ = std::chrono::milliseconds(5);
  Faults allowed_ = Faults::none();
  std::vector<std::pair<bool Faults::*, bool>> drawn_;  // which are on in this run
  std::vector<Cut> cuts_;
  std::uint64_t bandwidth_ = 0;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Instant> busy_;  // links, until when
};

/// Of the calling task's simulation. std::logic_error elsewhere.
[[nodiscard]] Host& host(std::string_view name);
[[nodiscard]] Network& network();
/// The host the calling task runs on.
[[nodiscard]] Host& this_host();

}  // namespace weft::sim

#include "sim/universe.hpp"

#include <weft/stack/sanitizer.hpp>
#include <weft/task/local.hpp>
#include <weft/task/scope.hpp>
#include <weft/time/sleep.hpp>

#include "sim/disk.hpp"
#include "sim/host_world.hpp"

#include <algorithm>
#include <stdexcept>

namespace weft::sim {

namespace {

/// The host a task was started on; children inherit it.
TaskLocal<Host*> host_of_task;

constexpr std::uint32_t first_ip = 0x0a000001;  // 10.0.0.1

Engine& engine_here(const char* what) {
  Engine* engine = Engine::here();
  if (engine == nullptr) {
    throw std::logic_error(std::string(what) + " outside of a simulation; see sim/explore.hpp");
  }
  return *engine;
}

}  // namespace

Host& host(std::string_view name) {
  return engine_here("sim::host()").universe().host(name);
}
Network& network() {
  return engine_here("sim::network()").universe().network();
}
Host& this_host() {
  return engine_here("sim::this_host()").universe().here();
}

// Universe

Universe::Universe(Engine& engine) : engine_(engine), network_(*this) {}
Universe::~Universe() = default;

Host* Universe::find(std::string_view name) noexcept {
  const stack::Aside aside;
  const auto it =
      std::ranges::find(hosts_, name, [](const auto& h) -> std::string_view { return h->name(); });
  return it == hosts_.end() ? nullptr : it->get();
}

Host* Universe::find(std::uint32_t ip) noexcept {
  const std::uint32_t i = ip - first_ip;
  return i < hosts_.size() ? hosts_[i].get() : nullptr;
}

Host& Universe::host(std::string_view name) {
  const stack::Aside aside;
  if (Host* host = find(name)) return *host;
  if (hosts_.empty() && name != "test") static_cast<void>(host("test"));
  hosts_.push_back(std::make_unique<Host>(*this, std::string(name),
                                          first_ip + static_cast<std::uint32_t>(hosts_.size())));
  return *hosts_.back();
}

Host& Universe::here() {
  Host** bound = host_of_task.get();
  return bound == nullptr ? host("test") : **bound;
}

// One that ends may name another.
void Universe::end() {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i]->programs_.clear();
    hosts_[i]->go_down();
  }
}

// Host

struct Host::Process {
  JoinHandle<void> task;
};

Host::Host(Universe& universe, std::string name, std::uint32_t ip)
    : universe_(universe),
      name_(std::move(name)),
      ip_(ip),
      disk_(std::make_unique<Disk>(universe)),
      world_(std::make_shared<HostWorld>(universe, *this, *disk_)) {}

Host::~Host() {
  world_->die();
}

std::string Host::address() const {
  return std::to_string(ip_ >> 24) + "." + std::to_string(ip_ >> 16 & 0xff) + "." +
         std::to_string(ip_ >> 8 & 0xff) + "." + std::to_string(ip_ & 0xff);
}

void Host::start(std::function<void()> process, std::string_view process_name) {
  std::uint64_t number = 0;
  {
    const stack::Aside aside;
    if (!up_) {
      world_ = std::make_shared<HostWorld>(universe_, *this, *disk_);
      programs_.clear();
    }
    up_ = true;
    number = ++last_program_;
    programs_.emplace(number, std::pair(process, std::string(process_name)));
  }
  Engine& engine = universe_.engine();
  const Bind bind(host_of_task, this);
  const std::string name = process_name.empty() ? name_ : name_ + "/" + std::string(process_name);
  auto started = std::make_unique<Process>();
  started->task = engine.root().spawn(
      [this, &engine, number, process = std::move(process)] {
        try {
          process();
          forget(number);
        } catch (const Cancelled&) {
          throw;
        } catch (...) {
          if (!up_) return;  // it was crashing
          engine.fail(
              Failure::Kind::error, name_,
              "a process on host '" + name_ + "' failed: " + describe(std::current_exception()));
        }
      },
      {.name = name, .isolated = true});
  const stack::Aside aside;
  std::erase_if(processes_, [](const auto& p) { return p->task.done(); });
  processes_.push_back(std::move(started));
}

// What it has captured dies here, where it could still wait.
void Host::forget(std::uint64_t number) {
  decltype(programs_)::node_type program;
  const stack::Aside aside;
  program = programs_.extract(number);
}

std::size_t Host::processes() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(processes_, [](const auto& p) { return !p->task.done(); }));
}

void Host::end_processes() {
  const Shield shield;  // what has begun is brought to its end
  std::vector<std::unique_ptr<Process>> processes;
  {
    const stack::Aside aside;
    go_on();
    processes.swap(processes_);
  }
  for (const auto& process : processes) process->task.cancel(CancelReason::shutdown);
  for (const auto& process : processes) process->task.wait();
}

void Host::go_down() {
  const Shield shield;
  while (going_down()) sleep(std::chrono::milliseconds(1));  // somebody else sees to it
  {
    const stack::Aside aside;
    going_down_ = true;
    up_ = false;
    world_->die();
  }
  end_processes();
  const stack::Aside aside;
  going_down_ = false;
}

bool Host::going_down() const noexcept {
  const stack::Aside aside;
  return going_down_;
}

void Host::crash() {
  if (this_task() != nullptr && &universe_.here() == this && name_ != "test") {
    throw std::logic_error("a process cannot crash the host it runs on, '" + name_ +
                           "': it would wait for its own end. Do it from another host.");
  }
  go_down();
  const stack::Aside aside;
  disk_->crash();
}

void Host::restart() {
  const auto programs = [this] {  // start() makes a new list
    const stack::Aside aside;
    return programs_;
  }();
  crash();
  if (up()) return;  // somebody else has
  for (const auto& [number, program] : programs) start(program.first, program.second);
}

void Host::stop() {
  decltype(programs_) ended;
  {
    const stack::Aside aside;
    ended.swap(programs_);
  }
  end_processes();
}

bool Host::up() const noexcept {
  const stack::Aside aside;
  return up_;
}

bool Host::paused() const noexcept {
  const stack::Aside aside;
  return pauses_ > 0;
}

void Host::jump(Duration by) noexcept {
  const stack::Aside aside;
  ahead_ += by;
}

void Host::pause() {
  const stack::Aside aside;
  if (this_task() != nullptr && &universe_.here() == this) {
    throw std::logic_error("a process cannot pause the host it runs on, '" + name_ +
                           "': nobody would resume it. Do it from another host.");
  }
  if (up_ && pauses_++ == 0) universe_.engine().hold_still(*this, true);
}

void Host::resume() {
  const stack::Aside aside;
  if (pauses_ > 0 && --pauses_ == 0) universe_.engine().hold_still(*this, false);
}

void Host::go_on() {
  ++pauses_over_;
  if (std::exchange(pauses_, 0) > 0) universe_.engine().hold_still(*this, false);
}

void Host::clock(int ppm, Duration ahead) {
  const stack::Aside aside;
  constexpr int most = 500'000;
  if (ppm < -most || ppm > most) {
    throw std::invalid_argument("a clock that is off by " + std::to_string(ppm) +
                                " millionths; at most half as fast again, or half as fast");
  }
  const Instant now = universe_.engine().true_now();
  read_since_ = read_clock(now);
  rate_since_ = now;
  ppm_ = ppm;
  ahead_ = ahead;
}

// Whole steps of the clock, by the millionths of the time: it never goes back.
Instant Host::read_clock(Instant truth) const noexcept {
  if (truth.is_never()) return truth;
  constexpr std::int64_t million = 1'000'000;
  const std::int64_t since = (truth - rate_since_).count();
  const std::int64_t whole = since / million * ppm_;
  const std::int64_t rest = since % million * ppm_;
  const std::int64_t rest_floor = rest >= 0 ? rest / million : -((-rest + million - 1) / million);
  return read_since_ + Duration(since + whole + rest_floor);
}

// The first time at which the clock shows this: a timer never fires before its time.
Instant Host::true_time(Instant read) const noexcept {
  if (read.is_never()) return read;
  if (read <= read_since_) return rate_since_;
  constexpr std::int64_t million = 1'000'000;
  const std::int64_t rate = million + ppm_;
  const std::int64_t since = (read - read_since_).count();
  Instant truth = rate_since_ + Duration(since / rate * million + since % rate * million / rate);
  constexpr Duration tick(1);
  while (truth > rate_since_ && read_clock(truth + -tick) >= read) truth = truth + -tick;
  while (read_clock(truth) < read) truth = truth + tick;
  return truth;
}

// Network

void Network::latency(Duration shortest, Duration longest) {
  const stack::Aside aside;
  if (shortest < Duration::zero() || longest < shortest) {
    throw std::invalid_argument("a latency from " + std::to_string(shortest.count()) + " to " +
                                std::to_string(longest.count()) + " ns makes no sense");
  }
  shortest_ = shortest;
  longest_ = longest;
}

void Network::bandwidth(std::uint64_t bytes_per_second) noexcept {
  const stack::Aside aside;
  bandwidth_ = bytes_per_second;
}

void Network::heal() noexcept {
  const stack::Aside aside;
  cuts_.clear();
}

void Network::allow(const Faults& faults) {
  const stack::Aside aside;
  allowed_ = faults;
  drawn_.clear();
}

bool Network::strikes(bool Faults::* fault, std::uint32_t one_in) {
  if (!(allowed_.*fault)) return false;
  Engine& engine = universe_.engine();
  auto it = std::ranges::find(drawn_, fault, [](const auto& d) { return d.first; });
  if (it == drawn_.end()) {
    drawn_.emplace_back(fault, engine.decide(Kind::fault, 2) == 1);
    it = drawn_.end() - 1;
  }
  return it->second && engine.decide(Kind::fault, one_in) == 1;
}

Duration Network::draw_latency(const Host& from, Host& to, std::size_t bytes) {
  if (&from == &to) return Duration::zero();
  constexpr std::uint32_t steps = 16;
  constexpr int slow = 100;
  const Duration width = longest_ - shortest_;
  Duration latency = shortest_;
  if (width > Duration::zero()) {
    latency += width / (steps - 1) * universe_.engine().decide(Kind::delay, steps);
  }
  if (strikes(&Faults::slow_links, 32)) latency *= slow;
  maybe_pause(to);
  if (bandwidth_ == 0) return latency;
  constexpr std::size_t header = 40;
  const Instant now = universe_.engine().true_now();
  Instant& free = busy_[{from.ip(), to.ip()}];
  const double seconds = static_cast<double>(bytes + header) / static_cast<double>(bandwidth_);
  free = std::max(free, now) + Duration(static_cast<std::int64_t>(seconds * 1e9));
  return free - now + latency;
}

// The host of the test itself stays.
void Network::maybe_pause(Host& host) {
  if (host.ip() == first_ip || !host.up() || !strikes(&Faults::pauses, 128)) return;
  Engine& engine = universe_.engine();
  if (&universe_.here() == &host) return;
  Duration pause = std::chrono::milliseconds(1);
  for (std::uint32_t tenfold = engine.decide(Kind::delay, 5); tenfold > 0; --tenfold) pause *= 10;
  host.pause();
  engine.at(engine.true_now() + pause, [&host, era = host.pauses_over_] {
    if (host.pauses_over_ == era) host.resume();
  });
}

void Network::cut(std::string_view from, std::string_view to) {
  const stack::Aside aside;
  cuts_.push_back({universe_.host(from).ip(), universe_.host(to).ip()});
}

void Network::mend(std::string_view from, std::string_view to) {
  const stack::Aside aside;
  std::erase(cuts_, Cut{universe_.host(from).ip(), universe_.host(to).ip()});
}

void Network::partition(const Names& some, const Names& others) {
  const stack::Aside aside;
  for (const std::string& a : some) {
    for (const std::string& b : others) {
      cut(a, b);
      cut(b, a);
    }
  }
}

void Network::clog(std::string_view host) {
  const stack::Aside aside;
  const std::uint32_t ip = universe_.host(host).ip();
  cuts_.push_back({ip, everybody});
  cuts_.push_back({everybody, ip});
}

void Network::unclog(std::string_view host) {
  const stack::Aside aside;
  const std::uint32_t ip = universe_.host(host).ip();
  std::erase(cuts_, Cut{ip, everybody});
  std::erase(cuts_, Cut{everybody, ip});
}

void Network::swizzle(const Names& hosts, Duration within) {
  const stack::Aside aside;
  if (within < Duration::zero()) throw std::invalid_argument("swizzle: a negative time");
  constexpr std::uint32_t steps = 64;
  Engine& engine = universe_.engine();
  const auto some_time = [&](Duration from) {
    return engine.true_now() + from + within / 2 / steps * engine.decide(Kind::delay, steps);
  };
  for (const std::string& name : hosts) {
    static_cast<void>(universe_.host(name));
    if (engine.decide(Kind::fault, 2) == 0) continue;
    engine.at(some_time({}), [this, name] { clog(name); });
    engine.at(some_time(within / 2), [this, name] { unclog(name); });
  }
}

bool Network::connected(const Host& from, const Host& to) const noexcept {
  const stack::Aside aside;
  if (&from == &to) return true;
  return std::ranges::none_of(cuts_, [&](const Cut& cut) {
    return (cut.from == from.ip() || cut.from == everybody) &&
           (cut.to == to.ip() || cut.to == everybody);
  });
}

// Kernel

std::shared_ptr<World> SimKernel::world() {
  const stack::Aside aside;
  return engine_.universe().here().world();
}

void SimKernel::watch(Source& source) {
  const stack::Aside aside;
  auto& world = dynamic_cast<HostWorld&>(source.world());
  if (Descriptor* thing = world.find(source.fd())) thing->watched_by(&source);
}

void SimKernel::unwatch(Source& source) noexcept {
  const stack::Aside aside;
  auto& world = dynamic_cast<HostWorld&>(source.world());
  Descriptor* const thing = world.find(source.fd());
  if (thing != nullptr && thing->watcher() == &source) thing->watched_by(nullptr);
}

// A closure that blocks takes no time.
void SimKernel::start(Job& job) {
  job.run();
  const stack::Aside aside;
  engine_.begun(job);
  engine_.at(engine_.true_now(), [this, &job] { engine_.complete(job); });
}

void SimKernel::start(SlowCall& call) {
  const stack::Aside aside;
  auto world = std::static_pointer_cast<HostWorld>(call.world);
  engine_.begun(call);
  engine_.at(engine_.true_now() + world->time_of(call), [this, &call] {
    call.run();
    engine_.complete(call);
  });
}

}  // namespace weft::sim

#include "sim/universe.hpp"

#include <weft/task/local.hpp>
#include <weft/task/scope.hpp>

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
  const auto it =
      std::ranges::find(hosts_, name, [](const auto& h) -> std::string_view { return h->name(); });
  return it == hosts_.end() ? nullptr : it->get();
}

Host* Universe::find(std::uint32_t ip) noexcept {
  const std::uint32_t i = ip - first_ip;
  return i < hosts_.size() ? hosts_[i].get() : nullptr;
}

Host& Universe::host(std::string_view name) {
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

void Universe::end() {
  for (const auto& host : hosts_) {
    host->go_down();
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
  if (!up_) world_ = std::make_shared<HostWorld>(universe_, *this, *disk_);
  up_ = true;
  Engine& engine = universe_.engine();
  const Bind bind(host_of_task, this);
  const std::string name = process_name.empty() ? name_ : name_ + "/" + std::string(process_name);
  auto started = std::make_unique<Process>();
  started->task = engine.root().spawn(
      [this, &engine, process = std::move(process)] {
        try {
          process();
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
  std::erase_if(processes_, [](const auto& p) { return p->task.done(); });
  processes_.push_back(std::move(started));
}

std::size_t Host::processes() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(processes_, [](const auto& p) { return !p->task.done(); }));
}

void Host::end_processes() {
  const Shield shield;  // what has begun is brought to its end
  const auto processes = std::exchange(processes_, {});
  for (const auto& process : processes) process->task.cancel(CancelReason::shutdown);
  for (const auto& process : processes) process->task.wait();
}

void Host::go_down() {
  up_ = false;
  world_->die();
  end_processes();
}

void Host::crash() {
  if (this_task() != nullptr && &universe_.here() == this && name_ != "test") {
    throw std::logic_error("a process cannot crash the host it runs on, '" + name_ +
                           "': it would wait for its own end. Do it from another host.");
  }
  go_down();
  disk_->crash();
}

void Host::stop() {
  end_processes();
}

void Host::clock(int ppm, Duration ahead) {
  constexpr int most = 500'000;
  if (ppm < -most || ppm > most) {
    throw std::invalid_argument("a clock that is off by " + std::to_string(ppm) +
                                " millionths; at most half as fast again, or half as fast");
  }
  ppm_ = ppm;
  ahead_ = ahead;
}

// Whole steps of the clock, by the millionths of the time: it never goes back.
Instant Host::read_clock(Instant truth) const noexcept {
  if (ppm_ == 0 || truth.is_never()) return truth;
  constexpr std::int64_t million = 1'000'000;
  const std::int64_t whole = truth.ns() / million * ppm_;
  const std::int64_t rest = truth.ns() % million * ppm_;
  const std::int64_t rest_floor = rest >= 0 ? rest / million : -((-rest + million - 1) / million);
  return Instant(Duration(truth.ns() + whole + rest_floor));
}

// The first time at which the clock shows this: a timer never fires before its time.
Instant Host::true_time(Instant read) const noexcept {
  if (ppm_ == 0 || read.is_never()) return read;
  constexpr std::int64_t million = 1'000'000;
  const std::int64_t rate = million + ppm_;
  std::int64_t ns = read.ns() / rate * million + read.ns() % rate * million / rate;
  while (ns > 0 && read_clock(Instant(Duration(ns - 1))) >= read) --ns;
  while (read_clock(Instant(Duration(ns))) < read) ++ns;
  return Instant(Duration(ns));
}

// Network

void Network::latency(Duration shortest, Duration longest) {
  if (shortest < Duration::zero() || longest < shortest) {
    throw std::invalid_argument("a latency from " + std::to_string(shortest.count()) + " to " +
                                std::to_string(longest.count()) + " ns makes no sense");
  }
  shortest_ = shortest;
  longest_ = longest;
}

void Network::allow(const Faults& faults) {
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

Duration Network::draw_latency(const Host& from, const Host& to) {
  if (&from == &to) return Duration::zero();
  constexpr std::uint32_t steps = 16;
  constexpr int slow = 100;
  const Duration width = longest_ - shortest_;
  Duration latency = shortest_;
  if (width > Duration::zero()) {
    latency += width / (steps - 1) * universe_.engine().decide(Kind::delay, steps);
  }
  return strikes(&Faults::slow_links, 32) ? latency * slow : latency;
}

void Network::cut(std::string_view from, std::string_view to) {
  cuts_.push_back({universe_.host(from).ip(), universe_.host(to).ip()});
}

void Network::mend(std::string_view from, std::string_view to) {
  std::erase(cuts_, Cut{universe_.host(from).ip(), universe_.host(to).ip()});
}

void Network::partition(const Names& some, const Names& others) {
  for (const std::string& a : some) {
    for (const std::string& b : others) {
      cut(a, b);
      cut(b, a);
    }
  }
}

bool Network::connected(const Host& from, const Host& to) const noexcept {
  return std::ranges::find(cuts_, Cut{from.ip(), to.ip()}) == cuts_.end();
}

// Kernel

std::shared_ptr<World> SimKernel::world() {
  return engine_.universe().here().world();
}

void SimKernel::watch(Source& source) {
  auto& world = dynamic_cast<HostWorld&>(source.world());
  if (Descriptor* thing = world.find(source.fd())) thing->watched_by(&source);
}

void SimKernel::unwatch(Source& source) noexcept {
  auto& world = dynamic_cast<HostWorld&>(source.world());
  Descriptor* const thing = world.find(source.fd());
  if (thing != nullptr && thing->watcher() == &source) thing->watched_by(nullptr);
}

// A closure that blocks takes no time.
void SimKernel::start(Job& job) {
  job.run();
  engine_.begun(job);
  engine_.at(engine_.true_now(), [this, &job] { engine_.complete(job); });
}

void SimKernel::start(SlowCall& call) {
  auto world = std::static_pointer_cast<HostWorld>(call.world);
  engine_.begun(call);
  engine_.at(engine_.true_now() + world->time_of(call), [this, &call] {
    call.run();
    engine_.complete(call);
  });
}

}  // namespace weft::sim

#include <weft/sched/pool_stats.hpp>

#include "sched/monitor.hpp"
#include "sched/pool_worker.hpp"

#include <cstdio>

namespace weft {

std::uint64_t DurationHistogram::total() const noexcept {
  std::uint64_t sum = 0;
  for (const std::uint64_t count : counts) sum += count;
  return sum;
}

std::uint64_t DurationHistogram::quantile(double share) const noexcept {
  const auto wanted = static_cast<double>(total()) * share;
  double sum = 0;
  for (std::size_t i = 0; i < buckets; ++i) {
    sum += static_cast<double>(counts[i]);
    if (counts[i] != 0 && sum >= wanted) return std::uint64_t{1} << i;
  }
  return 0;
}

void WorkerStats::add(const WorkerStats& other) noexcept {
  spawned += other.spawned;
  ended += other.ended;
  turns += other.turns;
  woken += other.woken;
  stolen += other.stolen;
  searches += other.searches;
  sleeps += other.sleeps;
  polls += other.polls;
  queued += other.queued;
  asleep = asleep && other.asleep;
  stuck = stuck || other.stuck;
  delay.add(other.delay);
  length.add(other.length);
}

namespace {

std::string line(const std::string& name, const WorkerStats& w) {
  std::array<char, 256> text{};
  std::snprintf(
      text.data(), text.size(),
      "  %-7s %-6s %10llu %10llu %12llu %10llu %9llu %9llu %9llu %9llu %6zu %9llu %9llu\n",
      name.c_str(), w.stuck ? "stuck" : (w.asleep ? "asleep" : "busy"),
      static_cast<unsigned long long>(w.spawned), static_cast<unsigned long long>(w.ended),
      static_cast<unsigned long long>(w.turns), static_cast<unsigned long long>(w.woken),
      static_cast<unsigned long long>(w.stolen), static_cast<unsigned long long>(w.searches),
      static_cast<unsigned long long>(w.sleeps), static_cast<unsigned long long>(w.polls), w.queued,
      static_cast<unsigned long long>(w.delay.quantile(0.99)),
      static_cast<unsigned long long>(w.length.quantile(0.99)));
  return text.data();
}

}  // namespace

std::string PoolStats::to_string() const {
  std::string text = "pool: " + std::to_string(live) + " task(s), " + std::to_string(timers) +
                     " timer(s), " + std::to_string(injected) + " in the injector, " +
                     std::to_string(spawned_outside) + " spawned by other threads, " +
                     std::to_string(spares) + " spare worker(s) (" +
                     std::to_string(spares_started) + " so far), " + std::to_string(stuck_reports) +
                     " report(s) of stuck workers\n";
  text +=
      "  worker  state     spawned      ended        turns      woken    stolen  searches    "
      "sleeps     polls queued delay p99  turn p99 (ns)\n";
  for (std::size_t i = 0; i < workers.size(); ++i) text += line(std::to_string(i + 1), workers[i]);
  return text + line("all", total);
}

PoolStats Pool::stats() const {
  PoolStats stats;
  stats.total.asleep = true;
  for (std::size_t i = 0; i < worker_count(); ++i) {
    stats.workers.push_back(workers_[i]->stats());
    stats.total.add(stats.workers.back());
  }
  stats.spawned_outside = admitted_.load();
  stats.injected = injector_.size();
  stats.timers = timeline_.size();
  stats.live = live();
  stats.spares = monitor_->spares();
  stats.spares_started = monitor_->spares_started();
  stats.stuck_reports = monitor_->reports();
  return stats;
}

}  // namespace weft

#include "sched/cpus.hpp"

#include <weft/sched/pool.hpp>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>

#include <pthread.h>
#include <sched.h>

namespace weft {

namespace {

std::vector<int> read_affinity() {
  // More cores than a cpu_set_t has room for: the call fails with EINVAL until the set is large
  // enough.
  for (std::size_t most = 1024; most <= (std::size_t{1} << 20); most *= 2) {
    cpu_set_t* const set = CPU_ALLOC(most);
    if (set == nullptr) break;
    const std::size_t size = CPU_ALLOC_SIZE(most);
    CPU_ZERO_S(size, set);
    std::vector<int> cpus;
    if (::sched_getaffinity(0, size, set) == 0) {
      for (std::size_t cpu = 0; cpu < most; ++cpu) {
        if (CPU_ISSET_S(cpu, size, set)) cpus.push_back(static_cast<int>(cpu));
      }
    }
    CPU_FREE(set);
    if (!cpus.empty()) return cpus;
  }
  std::vector<int> all(std::max(1U, std::thread::hardware_concurrency()));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
  return all;
}

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Where the process stands in the hierarchy: of version 2 ("0::/path") or of the old cpu group.
std::string group_path(bool old) {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    if (old ? controllers.find(",cpu,") != std::string::npos : controllers == ",,") {
      return line.substr(second + 1);
    }
  }
  return "/";
}

/// "quota period" in microseconds, as cpu.max has it; none: "max", or no such file.
std::optional<double> cores_of(const std::string& quota_and_period) {
  std::istringstream words(quota_and_period);
  double quota = 0;
  double period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

/// The least of what the process's group and those above it may use.
std::optional<double> group_cores(bool old) {
  const std::string root = old ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup";
  std::optional<double> least;
  for (std::string path = group_path(old);; path.resize(path.rfind('/'))) {
    const std::string directory = root + path;
    const std::string text = old ? first_line(directory + "/cpu.cfs_quota_us") + " " +
                                       first_line(directory + "/cpu.cfs_period_us")
                                 : first_line(directory + "/cpu.max");
    if (const auto cores = cores_of(text)) least = std::min(least.value_or(*cores), *cores);
    if (path.empty() || path.rfind('/') == std::string::npos) return least;
  }
}

}  // namespace

const std::vector<int>& usable_cpus() {
  static const std::vector<int> cpus = read_affinity();
  return cpus;
}

std::size_t paid_cpus() {
  static const std::size_t count = [] {
    auto cores = group_cores(false);
    if (!cores) cores = group_cores(true);
    const std::size_t all = usable_cpus().size();
    if (!cores) return all;
    // Rounded up: half a core's worth of time is still better used by one more thread than wasted.
    return std::clamp<std::size_t>(static_cast<std::size_t>(*cores + 0.999), 1, all);
  }();
  return count;
}

void pin_to_cpu(int cpu) noexcept {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu < 0 || cpu >= CPU_SETSIZE) return;
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  ::pthread_setaffinity_np(::pthread_self(), sizeof set, &set);
}

std::size_t default_workers() {
  const char* text = std::getenv("WEFT_WORKERS");
  if (text == nullptr || *text == '\0') return paid_cpus();
  constexpr std::size_t most = 1024;
  std::size_t count = 0;
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), count);
  if (error != std::errc{} || end != view.data() + view.size() || count == 0 || count > most) {
    throw std::invalid_argument("WEFT_WORKERS=" + std::string(view) +
                                " is not a number of workers; use 1 to 1024, or unset it");
  }
  return count;
}

}  // namespace weft

// bench_echo: an echo server on one processor, its client on another. See --help.
//
// The machine is noisy, so servers are compared within a round, where they follow each other
// directly, and the order alternates: "vs epoll" is the median of the ratios of the rounds, not the
// ratio of the medians.
#include "net/echo_client.hpp"
#include "net/server_process.hpp"
#include "net/servers.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <exception>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace {

using namespace weft::bench;

constexpr const char* help_text = R"(Usage: bench_echo [OPTION]...
Echo over TCP on the loopback, 64 bytes per request: the server in a process on one processor, the
client on another. Compares weft's servers with what raw epoll and raw io_uring reach.

  --mode MODE       pingpong   one request outstanding per connection (default)
                    pipelined  --depth requests outstanding per connection
                    churn      connect, one echo, close; --conns of these at a time
                    idle       hold all connections, ping a few of them in turn; prints the
                               server's resident memory per connection
  --client CLIENT   epoll or uring (default: uring, with epoll where it cannot be used). An epoll
                    client costs more than a good server and then is the limit
  --conns N         connections (default 64; idle 10000)
  --depth D         requests outstanding in mode pipelined (default 16)
  --rate R          requests per second in mode idle (default 1000; 0: as many as possible)
  --seconds S       how long each measurement takes, after a warm-up of 0.2 s (default 2)
  --rounds R        measurements per server, servers taking turns; medians count (default 5)
  --retries N       repeat a measurement up to N times while other programs take more than 3 % of
                    the time on its processors, and keep the least disturbed (default 0)
  --servers A,B,..  which servers (default all; see --list)
  --list            print the names of the servers
  --help            this text

Columns: requests per second, their spread over the rounds ((max - min) / median), and the ratio to
the raw servers in the same round; latency as the client sees it; how busy the client and the
server were; the server's CPU time per request, and its ratio to the raw servers; how much of the
time other programs took from both. Where the server is not near 100 % busy, it was not the limit:
then CPU time per request tells more than requests per second.
)";

// A measurement is disturbed if more than this part of it was taken by other programs.
constexpr double stolen_max = 0.03;

struct Options {
  Load load;
  bool conns_given = false;
  std::string_view client;
  std::uint32_t depth = 16;
  double seconds = 2;
  std::uint32_t rounds = 5;
  std::uint32_t retries = 0;
  std::vector<Server> servers;
  int server_cpu = -1;
  int client_cpu = -1;
};

struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One measurement of one server.
struct Sample {
  double requests_per_s = 0;
  double p50_us = 0;
  double p99_us = 0;
  double server_busy = 0;  // 1 is one processor
  double client_busy = 0;
  double cpu_ns_per_request = 0;
  double stolen = 0;           // of the time, by others on the processors of server and client
  double resident_before = 0;  // bytes; mode idle only
  double resident_open = 0;
  double resident_after = 0;
};

std::vector<Server> all_servers() {
  std::vector<Server> servers{{"epoll", run_raw_epoll}};
#if defined(WEFT_BENCH_URING)
  servers.push_back({"uring", run_raw_uring});
  servers.push_back({"uring-exact", run_exact_uring});
  servers.push_back({"uring-calls", run_calling_uring});
  servers.push_back({"uring-shared", run_shared_uring});
  servers.push_back({"uring-ready", run_ready_uring});
#endif
  const auto ours = weft_servers();
  servers.insert(servers.end(), ours.begin(), ours.end());
  return servers;
}

std::vector<Server> pick_servers(std::string_view names) {
  std::vector<Server> picked;
  const auto known = all_servers();
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    const auto found =
        std::ranges::find_if(known, [&](const Server& server) { return server.name == name; });
    if (found == known.end()) {
      throw UsageError("there is no server '" + std::string(name) + "'; --list names them");
    }
    picked.push_back(*found);
  }
  if (picked.empty()) throw UsageError("--servers needs at least one name");
  return picked;
}

Mode parse_mode(std::string_view text) {
  if (text == "pingpong") return Mode::pingpong;
  if (text == "pipelined") return Mode::pipelined;
  if (text == "churn") return Mode::churn;
  if (text == "idle") return Mode::idle;
  throw UsageError("there is no mode '" + std::string(text) +
                   "'; it is pingpong, pipelined, churn or idle");
}

const char* to_string(Mode mode) {
  switch (mode) {
    case Mode::pingpong:
      return "pingpong";
    case Mode::pipelined:
      return "pipelined";
    case Mode::churn:
      return "churn";
    case Mode::idle:
      return "idle";
  }
  return "?";
}

template <class Number>
Number parse_number(std::string_view option, std::string_view text, Number min, Number max) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= min && value <= max)) {
    throw UsageError(std::string(option) + " takes a number from " + std::to_string(min) + " to " +
                     std::to_string(max) + ", not '" + std::string(text) + "'");
  }
  return value;
}

void parse_option(Options& options, std::string_view option, std::string_view value) {
  if (option == "--mode") {
    options.load.mode = parse_mode(value);
  } else if (option == "--client") {
    if (value != "epoll" && value != "uring") {
      throw UsageError("there is no client '" + std::string(value) + "'; it is epoll or uring");
    }
    options.client = value;
  } else if (option == "--conns") {
    options.load.conns = parse_number<std::uint32_t>(option, value, 1, 1'000'000);
    options.conns_given = true;
  } else if (option == "--depth") {
    options.depth = parse_number<std::uint32_t>(option, value, 1, 1024);
  } else if (option == "--rate") {
    options.load.rate = parse_number<std::uint32_t>(option, value, 0, 100'000'000);
  } else if (option == "--seconds") {
    options.seconds = parse_number<double>(option, value, 0.01, 3600);
  } else if (option == "--rounds") {
    options.rounds = parse_number<std::uint32_t>(option, value, 1, 1000);
  } else if (option == "--retries") {
    options.retries = parse_number<std::uint32_t>(option, value, 0, 1000);
  } else if (option == "--servers") {
    options.servers = pick_servers(value);
  } else {
    throw UsageError("there is no option '" + std::string(option) + "'");
  }
}

// Returns false if there is nothing left to do.
bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--help") {
      std::fputs(help_text, stdout);
      return false;
    }
    if (option == "--list") {
      for (const Server& server : all_servers()) std::puts(server.name);
      return false;
    }
    if (i + 1 == argc) throw UsageError(std::string(option) + " is no option, or needs a value");
    parse_option(options, option, argv[++i]);
  }
  if (options.servers.empty()) options.servers = all_servers();
  if (options.load.mode == Mode::idle && !options.conns_given) options.load.conns = 10'000;
  if (options.load.mode == Mode::pipelined) options.load.depth = options.depth;
  return true;
}

// Both processes need a descriptor per connection and a few besides.
void raise_fd_limit(std::uint32_t conns) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t spare = 64;
  if (limit.rlim_max < conns + spare) {
    throw std::runtime_error("--conns " + std::to_string(conns) + " needs " +
                             std::to_string(conns + spare) + " descriptors and the limit is " +
                             std::to_string(limit.rlim_max) + "; raise it (ulimit -Hn)");
  }
}

void choose_cpus(Options& options) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) {
    std::puts("note: there is one processor only, server and client share it");
    return;
  }
  for (int cpu = 0; cpu < CPU_SETSIZE && options.client_cpu < 0; ++cpu) {
    if (!CPU_ISSET(static_cast<unsigned>(cpu), &allowed)) continue;
    (options.server_cpu < 0 ? options.server_cpu : options.client_cpu) = cpu;
  }
}

// io_uring if it works, unless told otherwise. Churn is the epoll client's alone.
void choose_client(Options& options) {
  Load& load = options.load;
  if (load.mode == Mode::churn && options.client == "uring") {
    throw UsageError("the uring client has no mode churn");
  }
  if (load.mode == Mode::churn || options.client == "epoll") return;
#if defined(WEFT_BENCH_URING)
  try {
    load.uring = true;
    EchoClient probe(0, load);
  } catch (const std::system_error& error) {
    if (options.client == "uring") throw;
    load.uring = false;
    std::printf("note: the client uses epoll: %s\n", error.what());
  }
#else
  if (options.client == "uring") throw UsageError("the uring client was not built: no liburing");
  std::puts("note: the client uses epoll: built without liburing");
#endif
}

double own_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

Sample measure_load(const ServerProcess& process, const Options& options) {
  Sample sample;
  const bool idle = options.load.mode == Mode::idle;
  // A first client, so that what the server sets up once is not counted as a connection's.
  EchoClient first(process.port(), {.conns = 1});
  first.open();
  const std::size_t fds = process.open_fds();
  first.finish();
  if (idle) sample.resident_before = static_cast<double>(process.resident_bytes());

  EchoClient client(process.port(), options.load);
  client.open();
  if (idle) sample.resident_open = static_cast<double>(process.resident_bytes());
  client.run(0.2);
  const std::uint64_t delay_ns = process.delay_ns() + weft::bench::delay_ns(::getpid());
  const auto server_ns = static_cast<double>(process.cpu_ns());
  const double client_ns = own_cpu_ns();
  const LoadResult result = client.run(options.seconds);
  const double server_used_ns = static_cast<double>(process.cpu_ns()) - server_ns;
  const double client_used_ns = own_cpu_ns() - client_ns;
  const std::uint64_t delayed_ns =
      process.delay_ns() + weft::bench::delay_ns(::getpid()) - delay_ns;
  const auto count = static_cast<double>(result.latency.count());
  if (result.latency.count() == 0) throw std::runtime_error("nothing was answered in the time");
  sample.requests_per_s = count / result.seconds;
  sample.p50_us = static_cast<double>(result.latency.percentile_ns(0.5)) / 1e3;
  sample.p99_us = static_cast<double>(result.latency.percentile_ns(0.99)) / 1e3;
  sample.server_busy = server_used_ns / 1e9 / result.seconds;
  sample.client_busy = client_used_ns / 1e9 / result.seconds;
  sample.stolen = static_cast<double>(delayed_ns) / 1e9 / result.seconds;
  sample.cpu_ns_per_request = server_used_ns / count;

  client.finish();
  process.wait_for_fds(fds);
  if (idle) sample.resident_after = static_cast<double>(process.resident_bytes());
  return sample;
}

Sample measure_once(const Server& server, const Options& options) {
  ServerProcess process(server, options.server_cpu);
  try {
    const Sample sample = measure_load(process, options);
    process.stop();
    return sample;
  } catch (const std::exception&) {
    process.check_alive();
    throw;
  }
}

Sample measure(const Server& server, const Options& options) {
  Sample best = measure_once(server, options);
  for (std::uint32_t i = 0; i < options.retries && best.stolen > stolen_max; ++i) {
    const Sample again = measure_once(server, options);
    if (again.stolen < best.stolen) best = again;
  }
  return best;
}

using Samples = std::map<std::string, std::vector<Sample>>;

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double median(const std::vector<Sample>& samples, double Sample::* field) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(sample.*field);
  return median(values);
}

// The median over the rounds of one server's figure divided by another's.
std::string ratio(const Samples& samples, const std::string& name, const std::string& base,
                  double Sample::* field) {
  const auto found = samples.find(base);
  if (found == samples.end()) return "-";
  std::vector<double> values;
  const auto& own = samples.at(name);
  for (std::size_t i = 0; i < std::min(own.size(), found->second.size()); ++i) {
    values.push_back(own[i].*field / found->second[i].*field);
  }
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.3f", median(values));
  return text.data();
}

void print_row(const Samples& samples, const std::string& name) {
  const auto& own = samples.at(name);
  const double rate = median(own, &Sample::requests_per_s);
  const auto [low, high] = std::ranges::minmax(own, {}, &Sample::requests_per_s);
  std::printf("%-18s %8.0f %6.1f%% %8s %8s %7.1f %8.1f %6.0f%% %6.0f%% %7.0f %8s %8s %6.0f%%\n",
              name.c_str(), rate, (high.requests_per_s - low.requests_per_s) / rate * 100,
              ratio(samples, name, "epoll", &Sample::requests_per_s).c_str(),
              ratio(samples, name, "uring", &Sample::requests_per_s).c_str(),
              median(own, &Sample::p50_us), median(own, &Sample::p99_us),
              median(own, &Sample::client_busy) * 100, median(own, &Sample::server_busy) * 100,
              median(own, &Sample::cpu_ns_per_request),
              ratio(samples, name, "epoll", &Sample::cpu_ns_per_request).c_str(),
              ratio(samples, name, "uring", &Sample::cpu_ns_per_request).c_str(),
              median(own, &Sample::stolen) * 100);
}

void print_table(const Samples& samples, const Options& options) {
  std::printf("%-18s %8s %7s %8s %8s %7s %8s %7s %7s %7s %8s %8s %7s\n", "server", "req/s",
              "spread", "/epoll", "/uring", "p50 us", "p99 us", "client", "server", "ns/req",
              "/epoll", "/uring", "stolen");
  for (const Server& server : options.servers) {
    if (samples.contains(server.name)) print_row(samples, server.name);
  }
  if (options.load.mode != Mode::idle) return;
  for (const Server& server : options.servers) {
    if (!samples.contains(server.name)) continue;
    const auto& own = samples.at(server.name);
    const double before = median(own, &Sample::resident_before);
    const double open = median(own, &Sample::resident_open);
    std::printf(
        "%s: %.0f bytes of RSS per connection (%.0f KiB before, %.0f KiB with %u open, "
        "%.0f KiB after all were closed)\n",
        server.name, (open - before) / options.load.conns, before / 1024, open / 1024,
        options.load.conns, median(own, &Sample::resident_after) / 1024);
  }
}

// A server that fails is reported once and left out from then on; the others go on.
int run(Options& options) {
  raise_fd_limit(options.load.conns);
  choose_cpus(options);
  pin_to(options.client_cpu);
  choose_client(options);
  std::printf("echo, 64 bytes, %s, %u connections", to_string(options.load.mode),
              options.load.conns);
  if (options.load.mode == Mode::pipelined) std::printf(", depth %u", options.load.depth);
  std::printf(", %u rounds of %.3g s; server on cpu %d, %s client on cpu %d\n", options.rounds,
              options.seconds, options.server_cpu, options.load.uring ? "uring" : "epoll",
              options.client_cpu);
  Samples samples;
  int status = 0;
  for (std::uint32_t round = 0; round < options.rounds; ++round) {
    auto order = options.servers;
    if (round % 2 != 0) std::ranges::reverse(order);
    for (const Server& server : order) {
      try {
        samples[server.name].push_back(measure(server, options));
      } catch (const std::exception& error) {
        std::fprintf(stderr, "bench_echo: %s, round %u: %s\n", server.name, round + 1,
                     error.what());
        samples.erase(server.name);
        std::erase_if(options.servers,
                      [&](const Server& each) { return each.name == server.name; });
        status = 1;
      }
    }
  }
  if (!samples.empty()) print_table(samples, options);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options;
    if (!parse(argc, argv, options)) return 0;
    return run(options);
  } catch (const UsageError& error) {
    std::fprintf(stderr, "bench_echo: %s\nTry bench_echo --help.\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_echo: %s\n", error.what());
    return 1;
  }
}

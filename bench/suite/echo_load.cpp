// The client of all echo servers: suite_echo_load [--size CONNECTIONS] NAME -- SERVER [WORD]...
//
// Starts the server, a contender's program, on one processor, loads it from another, and prints
// what the other programs of the suite print (see protocol.hpp):
//
//   echo_64         requests a second, one under way on each of 64 connections
//   echo_pipelined  the same with 16 under way on each
//   idle_conns      resident bytes of the server for each of 10,000 silent connections
//
// Further measures: the 99th percentile of the latency, the server's processor time for a request.
#include "net/echo_client.hpp"
#include "net/server_process.hpp"
#include "suite/protocol.hpp"

#include <stdexcept>
#include <system_error>
#include <utility>

#include <sched.h>

namespace {

using namespace weft::bench;

struct Options {
  std::string name;
  std::uint32_t conns = 0;
  std::vector<std::string> server;
  int server_cpu = -1;
  int client_cpu = -1;
};

Options parse(int argc, char** argv) {
  Options options;
  int i = 1;
  for (; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word == "--size" && i + 1 < argc) {
      options.conns = static_cast<std::uint32_t>(suite::number(argv[0], argv[++i]));
    } else if (word == "--workers" && i + 1 < argc) {
      ++i;  // the server's affair
    } else {
      options.name = word;
    }
  }
  for (++i; i < argc; ++i) options.server.emplace_back(argv[i]);
  if (options.server.empty()) suite::usage_error(argv[0], "NAME -- SERVER: which server?");
  return options;
}

/// The first two that this process may use; with one they share it.
void choose_cpus(Options& options) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
  for (int cpu = 0; cpu < CPU_SETSIZE && options.client_cpu < 0; ++cpu) {
    if (!CPU_ISSET(static_cast<unsigned>(cpu), &allowed)) continue;
    (options.server_cpu < 0 ? options.server_cpu : options.client_cpu) = cpu;
  }
}

/// Both processes need a descriptor for each connection.
void raise_fd_limit(std::uint32_t conns) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t spare = 64;
  if (limit.rlim_max >= conns + spare) return;
  throw std::runtime_error(std::to_string(conns) + " connections need as many descriptors; the " +
                           "limit is " + std::to_string(limit.rlim_max));
}

/// An io_uring client costs less than an epoll one, which would be the bottleneck.
bool can_use_uring() {
#if defined(WEFT_BENCH_URING)
  try {
    EchoClient probe(0, {.conns = 1, .uring = true});
    return true;
  } catch (const std::system_error&) {
  }
#endif
  return false;
}

suite::Result requests(const ServerProcess& server, const Load& load) {
  EchoClient client(server.port(), load);
  client.open();
  client.run(0.1);
  const auto cpu_before = static_cast<double>(server.cpu_ns());
  const LoadResult result = client.run(0.5);
  const auto count = static_cast<double>(result.latency.count());
  const double cpu_ns = (static_cast<double>(server.cpu_ns()) - cpu_before) / count;
  client.finish();
  if (count == 0) throw std::runtime_error("nothing was answered in the time");
  const auto p99 = static_cast<double>(result.latency.percentile_ns(0.99)) / 1e3;
  return {count / result.seconds, {{"p99", p99, "us"}, {"server_cpu", cpu_ns, "ns"}}};
}

suite::Result memory(const ServerProcess& server, const Load& load) {
  // What the server sets up once is not a connection's.
  EchoClient first(server.port(), {.conns = 1});
  first.open();
  first.finish();
  const auto before = static_cast<double>(server.resident_bytes());
  EchoClient client(server.port(), load);
  client.open();
  const auto open = static_cast<double>(server.resident_bytes());
  client.finish();
  return (open - before) / load.conns;
}

int run(Options& options, const char* program) {
  Load load{.uring = can_use_uring()};
  const char* unit = "req/s";
  auto* measure = &requests;
  if (options.name == "echo_pipelined") {
    load.mode = Mode::pipelined;
    load.depth = 16;
  } else if (options.name == "idle_conns") {
    load.mode = Mode::idle;
    load.conns = 10'000;
    unit = "bytes";
    measure = &memory;
  } else if (options.name != "echo_64") {
    suite::usage_error(program, "there is no benchmark '" + options.name + "'");
  }
  if (options.conns != 0) load.conns = options.conns;
  raise_fd_limit(load.conns);
  choose_cpus(options);
  pin_to(options.client_cpu);
  ServerProcess server(options.server, options.server_cpu);
  suite::Result result(0);
  try {
    result = measure(server, load);
  } catch (const std::exception&) {
    server.check_alive();
    throw;
  }
  server.stop();
  suite::print(options.name.c_str(), unit, result);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    Options options = parse(argc, argv);
    return run(options, argv[0]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
    return 1;
  }
}

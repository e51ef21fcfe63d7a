/// What every program of the benchmark suite understands, so that one driver can run them all:
///
///     PROGRAM --list                         the names it has, one a line
///     PROGRAM --workers N [--size K] NAME    runs one benchmark once
///
/// A benchmark prints one line `NAME VALUE UNIT`. Further measures of the same run follow as lines
/// `NAME.measure VALUE UNIT`. An unknown name or option ends with status 2 and a message. K
/// replaces the benchmark's usual number of operations, tasks or connections.
///
/// A name that begins with `serve` is an echo server for the load generator (echo_load.cpp): it
/// listens on 127.0.0.1, prints the port, and ends when its standard input does.
///
/// C++ contenders get all this from here and bring a table; nothing of weft is used. The Go and
/// Rust contenders do the same in their own words.
#pragma once

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sched.h>
#include <sys/resource.h>

namespace suite {

struct Run {
  std::size_t workers = 1;
  std::size_t size = 0;
};

/// A measure besides the benchmark's own, of the same run.
struct Measure {
  const char* name;
  double value;
  const char* unit;
};

struct Result {
  Result(double v) : value(v) {}  // most have one figure: `return ns;`
  Result(double v, std::vector<Measure> others) : value(v), more(std::move(others)) {}

  double value;
  std::vector<Measure> more{};
};

struct Benchmark {
  const char* name;
  const char* unit;
  std::size_t size;           ///< unless --size says otherwise
  Result (*run)(const Run&);  ///< null for a server
  void (*serve)(const Run&) = nullptr;
};

// --- for benchmarks ------------------------------------------------------------------------------

using Clock = std::chrono::steady_clock;

inline double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}
inline double per(Clock::time_point start, std::size_t count) {
  return ns_since(start) / static_cast<double>(count);
}
inline double ms_since(Clock::time_point start) {
  return ns_since(start) / 1e6;
}

/// Of all threads of this process.
inline double cpu_ms() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

/// Resident memory and page tables. Not VmRSS: that is kept per processor and lags behind.
inline double resident_bytes() {
  double bytes = 0;
  std::ifstream rollup("/proc/self/smaps_rollup");
  for (std::string line; std::getline(rollup, line);) {
    if (line.starts_with("Rss:")) bytes += std::stod(line.substr(4)) * 1024;
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmPTE:")) bytes += std::stod(line.substr(6)) * 1024;
  }
  return bytes;
}

/// The median of latencies in ns, with the 99th percentile as a further measure; in us.
inline Result median_us(std::vector<double> ns) {
  if (ns.empty()) return 0.0;
  std::ranges::sort(ns);
  return {ns[ns.size() / 2] / 1e3, {{"p99", ns[ns.size() * 99 / 100] / 1e3, "us"}}};
}

/// Keeps the calling thread on the n-th processor that this process may use. Two threads that wait
/// for each other take turns on one processor if the system puts them there, which is faster than
/// waking another one; so what is to be measured must be said.
inline void pin_this_thread(unsigned n) {
  static const cpu_set_t allowed = [] {  // as it was before the first thread was pinned
    cpu_set_t set;
    CPU_ZERO(&set);
    ::sched_getaffinity(0, sizeof set, &set);
    return set;
  }();
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || n-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

/// A result that is wrong must not be printed as a fast one.
inline void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::exit(1);
}

inline void announce_port(std::uint16_t port) {
  std::printf("%u\n", static_cast<unsigned>(port));
  std::fflush(stdout);
}

// --- the command line ----------------------------------------------------------------------------

[[noreturn]] inline void usage_error(const char* program, const std::string& what) {
  std::fprintf(stderr, "%s: %s\nusage: %s --list | --workers N [--size K] NAME\n", program,
               what.c_str(), program);
  std::exit(2);
}

inline std::size_t number(const char* program, std::string_view text) {
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0) {
    usage_error(program, "not a number above 0: " + std::string(text));
  }
  return value;
}

inline void print(const char* name, const char* unit, const Result& result) {
  std::printf("%s %.6g %s\n", name, result.value, unit);
  for (const Measure& m : result.more)
    std::printf("%s.%s %.6g %s\n", name, m.name, m.value, m.unit);
}

/// The main function of a contender.
inline int contend(int argc, char** argv, std::span<const Benchmark> benchmarks) {
  const char* program = argv[0];
  Run run;
  std::string_view name;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--list") {
      for (const Benchmark& b : benchmarks) std::puts(b.name);
      return 0;
    }
    if (word == "--workers" && i + 1 < argc) {
      run.workers = number(program, argv[++i]);
    } else if (word == "--size" && i + 1 < argc) {
      run.size = number(program, argv[++i]);
    } else if (word.starts_with("-") || !name.empty()) {
      usage_error(program, "cannot make sense of '" + std::string(word) + "'");
    } else {
      name = word;
    }
  }
  if (name.empty()) usage_error(program, "which benchmark?");
  const auto found = std::ranges::find(benchmarks, name, &Benchmark::name);
  if (found == benchmarks.end()) {
    usage_error(program, "there is no benchmark '" + std::string(name) + "'; --list names them");
  }
  if (run.size == 0) run.size = found->size;
  try {
    if (found->serve != nullptr) {
      found->serve(run);
    } else {
      print(found->name, found->unit, found->run(run));
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s: %s\n", program, found->name, error.what());
    return 1;
  }
  return 0;
}

}  // namespace suite

#include "doctor.hpp"

#include <weft/io/fd.hpp>
#include <weft/weft.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace weft::cli {

namespace {

enum class State { fine, warning, broken };

struct Finding {
  std::string name;
  std::string value;
  State state = State::fine;
};
using Findings = std::vector<Finding>;

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// What `look` says; if it throws, that it would not work and why.
Finding try_out(const char* name, auto look) {
  try {
    return look();
  } catch (const std::exception& error) {
    return {name, error.what(), State::broken};
  }
}

Finding compiler() {
#if defined(__clang__)
  return {"compiler", "clang " __clang_version__};
#else
  return {"compiler", "gcc " __VERSION__};
#endif
}

Finding machine_kernel() {
  utsname name{};
  ::uname(&name);
  return {"kernel", std::string(name.sysname) + " " + name.release + " " + name.machine};
}

Finding cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  const bool known = ::sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  const long online = ::sysconf(_SC_NPROCESSORS_ONLN);
  std::string text = std::to_string(known ? CPU_COUNT(&allowed) : online);
  if (known && CPU_COUNT(&allowed) != online) text += " of " + std::to_string(online);
  return {"cores", text};
}

Finding workers() {
  return try_out("workers", []() -> Finding {
    const char* wish = std::getenv("WEFT_WORKERS");
    const bool wished = wish != nullptr && *wish != '\0';
    return {"workers", std::to_string(default_workers()) + " in a pool: " +
                           (wished ? "WEFT_WORKERS"
                                   : "one for each core that affinity and control group allow")};
  });
}

Finding waiting() {
  return try_out("waiting", []() -> Finding {
    const Kernel::Description chosen = make_real_kernel()->describe();
    return {"waiting", "by " + chosen.name + ": " + chosen.why};
  });
}

Finding uring() {
  const std::string& why = why_no_uring();
  if (why.empty()) return {"io_uring", "works"};
  return {"io_uring", "does not work: " + why, State::warning};
}

Finding stacks() {
  return try_out("stacks", []() -> Finding {
    stack::StackPool pool;
    pool.give(pool.take());
    const stack::StackStats stats = pool.stats();
    return {"stacks", std::to_string(pool.default_size() >> 10) + " KiB, guarded by " +
                          stack::to_string(stats.guard) + ": " + stats.guard_reason};
  });
}

Finding locks() {
  const std::string why = why_locks_stand_upright();
  if (why.empty()) return {"locks", "lean towards the worker that uses them"};
  return {"locks", "cost an atomic change of a word each: " + why};
}

Finding descriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  Finding finding{"descriptors", std::to_string(limit.rlim_cur) + " (ulimit -n)"};
  if (limit.rlim_cur < limit.rlim_max) {
    finding.value += ", could be raised to " + std::to_string(limit.rlim_max);
  }
  constexpr rlim_t few = 256;
  if (limit.rlim_cur < few) finding.state = State::warning;
  return finding;
}

Finding mappings() {
  return {"mappings", first_line("/proc/sys/vm/max_map_count") +
                          " (vm.max_map_count; a stack guarded by mprotect takes two)"};
}

Finding huge_pages() {
  const std::string modes = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  return {"huge pages", modes.empty() ? "not in this kernel" : modes};
}

// A fiber and a coroutine on a loop that talk through a socket.
Finding trial() {
  return try_out("trial", []() -> Finding {
    Loop loop;
    loop.run([] {
      int fds[2];
      check_sys(this_world()->socket_pair(AF_UNIX, SOCK_STREAM, fds), "socketpair");
      Fd a(this_world(), fds[0], Source::Kind::socket);
      Fd b(this_world(), fds[1], Source::Kind::socket);
      Scope scope;
      scope.spawn([&b]() -> Coro<> { co_await b.write_op(as_bytes("hello")); });
      std::array<std::byte, 16> buffer;
      if (a.read(buffer) != 5) throw std::runtime_error("a socket lost bytes");
    });
    return {"trial", "a fiber and a coroutine talked through a socket"};
  });
}

struct Variable {
  std::string_view name;
  std::string_view about;
};
constexpr std::array variables{
    Variable{"WEFT_IO", "epoll, uring, mixed or auto"},
    Variable{"WEFT_WORKERS", "of a pool"},
    Variable{"WEFT_LEAN", "0: locks lean towards no worker"},
    Variable{"WEFT_CHECK_LOCKS", "1: report locks that are taken in a circle"},
    Variable{"WEFT_STACK_SIZE", "such as 64k or 1m"},
    Variable{"WEFT_STACK_GUARD", "madvise, mprotect or automatic"},
    Variable{"WEFT_MEASURE_STACKS", "1: each task on a clean stack"},
    Variable{"WEFT_SEED", "for simulations: this run"},
    Variable{"WEFT_SEEDS", "for simulations: so many runs"},
    Variable{"WEFT_SIM_SECONDS", "for simulations: for so long"},
    Variable{"WEFT_STRATEGY", "for simulations: which order is tried"},
    Variable{"WEFT_JOBS", "for simulations: so many processes"},
    Variable{"WEFT_REPLAY", "for simulations: the tape of a run"},
    Variable{"WEFT_TAPES", "for simulations: where tapes are kept"},
    Variable{"WEFT_PARANOID", "for simulations: 1 looks for what differs from run to run"},
    Variable{"WEFT_TEST_SCALE", "for the tests: small, normal or large"},
    Variable{"WEFT_NO_SETUP", "for the build: install nothing"},
};

Findings environment() {
  Findings findings;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("WEFT_")) continue;
    const std::string_view name = text.substr(0, text.find('='));
    Finding finding{"environment", std::string(text), State::warning};
    for (const Variable& variable : variables) {
      if (variable.name != name) continue;
      finding.state = State::fine;
      finding.value += " (" + std::string(variable.about) + ")";
    }
    if (finding.state == State::warning) finding.value += " is unknown: it has no effect";
    findings.push_back(std::move(finding));
  }
  if (findings.empty()) {
    std::string names;
    for (const Variable& variable : variables) {
      names += (names.empty() ? "" : ", ") + std::string(variable.name);
    }
    findings.push_back({"environment", "none of " + names + " is set"});
  }
  return findings;
}

const char* to_string(State state) {
  switch (state) {
    case State::fine:
      return "fine";
    case State::warning:
      return "warning";
    case State::broken:
      return "broken";
  }
  return "";
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < ' ') {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\u%04x",
                    static_cast<unsigned>(static_cast<unsigned char>(c)));
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + "\"";
}

void print_json(const Findings& findings, bool works) {
  std::printf("{\n  \"works\": %s,\n  \"findings\": [", works ? "true" : "false");
  const char* separator = "";
  for (const Finding& finding : findings) {
    std::printf("%s\n    {\"name\": %s, \"value\": %s, \"state\": \"%s\"}", separator,
                quoted(finding.name).c_str(), quoted(finding.value).c_str(),
                to_string(finding.state));
    separator = ",";
  }
  std::printf("\n  ]\n}\n");
}

void print_text(const Findings& findings, bool works) {
  for (const Finding& finding : findings) {
    const char* mark = finding.state == State::fine      ? " "
                       : finding.state == State::warning ? "!"
                                                         : "X";
    std::printf("%s %-12s %s\n", mark, finding.name.c_str(), finding.value.c_str());
  }
  std::printf("%s\n", works ? "Everything works." : "Lines with an X say what does not work.");
}

}  // namespace

int run_doctor(bool json) {
  Findings findings{
      {"version", WEFT_VERSION},
      compiler(),
      machine_kernel(),
      cores(),
      workers(),
      waiting(),
      uring(),
      stacks(),
      locks(),
      descriptors(),
      mappings(),
      huge_pages(),
      trial(),
  };
  for (Finding& finding : environment()) findings.push_back(std::move(finding));
  bool works = true;
  for (const Finding& finding : findings) works = works && finding.state != State::broken;
  (json ? print_json : print_text)(findings, works);
  return works ? 0 : 1;
}

}  // namespace weft::cli

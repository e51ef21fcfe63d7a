// Explorations in several processes. Each child looks at a part of the seeds and writes what it has
// found into a pipe: a line of numbers, and the tape if a run has failed.
#include <weft/base/unique_fd.hpp>

#include "sim/explorer.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <sstream>
#include <system_error>
#include <vector>

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::sim {

namespace {

struct Child {
  pid_t pid = -1;
  UniqueFd out;
  std::string text;
};

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // nobody listens any more
    done += static_cast<std::size_t>(n);
  }
}

/// True: there may be more.
bool read_some(Child& child) {
  char buffer[4096];
  const ssize_t n = ::read(child.out.get(), buffer, sizeof buffer);
  if (n < 0 && errno == EINTR) return true;
  if (n <= 0) return false;
  child.text.append(buffer, static_cast<std::size_t>(n));
  return true;
}

Child start(std::size_t job, const std::function<std::optional<Tape>(std::size_t, Report&)>& part) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  UniqueFd in(ends[0]);
  UniqueFd out(ends[1]);
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    in.reset();
    Report report;
    std::string text;
    try {
      const auto tape = part(job, report);
      text = std::to_string(report.runs) + " " + std::to_string(report.steps) + " " +
             std::to_string(report.simulated.count()) + " " + (report.everything ? "1" : "0") +
             " " + (report.leak ? "1 " + std::to_string(report.leak->seed) : "0 0") + "\n" +
             (tape ? tape->text() : "");
    } catch (const std::exception& e) {
      text = std::string("error ") + e.what() + "\n";
    } catch (...) {
      text = "error the body threw something that is no std::exception\n";
    }
    write_all(out.get(), text);
    std::fflush(nullptr);
    ::_exit(0);
  }
  return {.pid = pid, .out = std::move(in), .text = {}};
}

void reap(const std::vector<Child>& children) noexcept {
  for (const Child& child : children) {
    while (::waitpid(child.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

/// What a child has said.
std::optional<Tape> understand(const Child& child, Report& report) {
  std::istringstream in(child.text);
  std::string line;
  std::getline(in, line);
  if (line.starts_with("error ")) throw std::runtime_error(child.text.substr(6));
  std::istringstream numbers(line);
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
  Duration::rep simulated = 0;
  int everything = 0;
  int leaky = 0;
  std::uint64_t leaky_seed = 0;
  if (!(numbers >> runs >> steps >> simulated >> everything >> leaky >> leaky_seed)) {
    throw std::runtime_error(
        "a process that explored has ended without a result: it crashed, "
        "probably; without WEFT_JOBS the debugger can see where");
  }
  report.runs += runs;
  report.steps += steps;
  report.simulated += Duration(simulated);
  report.everything |= everything == 1;
  if (leaky == 1) {
    const std::string how = "WEFT_SEED=" + std::to_string(leaky_seed) + " WEFT_PARANOID=1";
    report.leak = Leak{.seed = leaky_seed, .event = 0, .first = "(" + how, .second = "tells more)"};
  }
  const std::string rest(std::istreambuf_iterator<char>(in), {});
  if (rest.empty()) return std::nullopt;
  return Tape::parse(rest);
}

}  // namespace

std::optional<Tape> explore_in_processes(
    std::size_t jobs, Report& report,
    const std::function<std::optional<Tape>(std::size_t job, Report& report)>& part) {
  std::vector<Child> children;
  try {
    for (std::size_t job = 0; job < jobs; ++job) children.push_back(start(job, part));
  } catch (...) {
    for (const Child& child : children) ::kill(child.pid, SIGKILL);
    reap(children);
    throw;
  }
  std::optional<Tape> found;
  std::exception_ptr error;
  std::size_t running = jobs;
  while (running > 0) {
    std::vector<pollfd> waits;
    for (const Child& c : children)
      waits.push_back({.fd = c.out.get(), .events = POLLIN, .revents = 0});
    if (::poll(waits.data(), waits.size(), -1) < 0 && errno != EINTR) break;
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (waits[i].fd < 0 || waits[i].revents == 0 || read_some(children[i])) continue;
      children[i].out.reset();
      --running;
      if (found || error) continue;  // it was told to stop
      try {
        found = understand(children[i], report);
      } catch (...) {
        error = std::current_exception();
      }
      if (!found && !error) continue;
      for (const Child& other : children) {
        if (other.out.get() >= 0) ::kill(other.pid, SIGKILL);
      }
    }
  }
  reap(children);
  if (error) std::rethrow_exception(error);
  return found;
}

}  // namespace weft::sim

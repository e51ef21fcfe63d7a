#include "net/server_process.hpp"

#include "net/listen.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::bench {

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 5s;

[[noreturn]] void serve(const Server& server, int cpu, int listen_fd, int stop_fd, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // it died before the line above
  ::malloc_trim(0);                       // or memory that the client has freed hides the server's
  try {
    pin_to(cpu);
    server.run(listen_fd, stop_fd);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "server %s: %s\n", server.name, error.what());
    ::_exit(1);
  }
  ::_exit(0);
}

[[noreturn]] void execute(const std::vector<std::string>& command, int cpu, int in, int out) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  try {
    pin_to(cpu);
    ::execv(words[0], words.data());
    check(false, words[0]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  ::_exit(1);
}

}  // namespace

void pin_to(int cpu) {
  if (cpu < 0) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<unsigned>(cpu), &set);
  check(::sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

std::uint64_t delay_ns(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/schedstat");
  std::uint64_t ran = 0;
  std::uint64_t waited = 0;
  file >> ran >> waited;
  return waited;  // 0 where the kernel does not count it
}

ServerProcess::ServerProcess(const Server& server, int cpu) : name_(server.name) {
  const int listen_fd = listen_on_loopback(port_);
  std::array<int, 2> ends{};
  check(::pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
  const pid_t parent = ::getpid();
  std::fflush(nullptr);  // or the child could print our buffers again
  pid_ = ::fork();
  check(pid_ >= 0, "fork");
  if (pid_ == 0) {
    ::close(ends[1]);
    serve(server, cpu, listen_fd, ends[0], parent);
  }
  ::close(listen_fd);
  ::close(ends[0]);
  stop_fd_ = ends[1];
}

ServerProcess::ServerProcess(const std::vector<std::string>& command, int cpu)
    : name_(command.front()) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  check(::pipe2(in.data(), O_CLOEXEC) == 0 && ::pipe2(out.data(), O_CLOEXEC) == 0, "pipe2");
  std::fflush(nullptr);
  pid_ = ::fork();
  check(pid_ >= 0, "fork");
  if (pid_ == 0) execute(command, cpu, in[0], out[1]);
  ::close(in[0]);
  ::close(out[1]);
  stop_fd_ = in[1];
  read_port(out[0]);
  ::close(out[0]);
}

void ServerProcess::read_port(int fd) {
  std::string line;
  while (!line.ends_with('\n')) {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    const int limit_ms = static_cast<int>(std::chrono::milliseconds(patience).count());
    char byte = 0;
    if (::poll(&ready, 1, limit_ms) <= 0 || ::read(fd, &byte, 1) != 1) {
      check_alive();
      fail("did not say on which port it listens");
    }
    line += byte;
  }
  port_ = static_cast<std::uint16_t>(std::stoul(line));
}

ServerProcess::~ServerProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (stop_fd_ >= 0) ::close(stop_fd_);
}

void ServerProcess::fail(const std::string& what) const {
  throw std::runtime_error("server " + name_ + " " + what);
}

std::uint64_t ServerProcess::cpu_ns() const {
  clockid_t clock = 0;
  timespec time{};
  if (::clock_getcpuclockid(pid_, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_nsec);
}

// Not VmRSS: that counter is kept per processor and may be off by some hundred kilobytes.
std::uint64_t ServerProcess::resident_bytes() const {
  std::ifstream file("/proc/" + std::to_string(pid_) + "/smaps_rollup");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("Rss:")) return std::stoull(line.substr(4)) * 1024;
  }
  fail("has no Rss in /proc/PID/smaps_rollup; it may have ended");
}

std::size_t ServerProcess::open_fds() const {
  std::size_t count = 0;
  const auto path = "/proc/" + std::to_string(pid_) + "/fd";
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path)) ++count;
  return count;
}

void ServerProcess::wait_for_fds(std::size_t at_most) const {
  const auto limit = std::chrono::steady_clock::now() + patience;
  std::size_t open = 0;
  while ((open = open_fds()) > at_most) {
    if (std::chrono::steady_clock::now() > limit) {
      fail("keeps " + std::to_string(open) + " descriptors open, " + std::to_string(at_most) +
           " were open before the clients came and all clients have gone");
    }
    std::this_thread::sleep_for(1ms);
  }
}

bool ServerProcess::ended(std::chrono::nanoseconds within, std::string& how) {
  const auto limit = std::chrono::steady_clock::now() + within;
  int status = 0;
  pid_t ended = 0;
  while ((ended = ::waitpid(pid_, &status, WNOHANG)) == 0) {
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(1ms);
  }
  check(ended == pid_, "waitpid");
  pid_ = -1;
  if (WIFSIGNALED(status)) {
    how = "was killed by signal " + std::to_string(WTERMSIG(status));
  } else if (status != 0) {
    how = "failed, see above";
  } else {
    how = "returned";
  }
  return true;
}

void ServerProcess::stop() {
  ::close(stop_fd_);
  stop_fd_ = -1;
  std::string how;
  if (!ended(patience, how)) fail("did not return when asked to stop");
  if (how != "returned") fail(how);
}

void ServerProcess::check_alive() {
  std::string how;
  if (pid_ > 0 && ended(100ms, how)) fail(how);
}

}  // namespace weft::bench

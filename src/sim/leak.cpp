// Does a run depend on more than its tape? It is made again, with the same decisions, while what
// comes from malloc lies elsewhere and is filled with something else.
#include "sim/explorer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace weft::sim {

namespace {

/// As long as it lives, addresses are others than usual.
class Elsewhere {
 public:
  explicit Elsewhere(std::uint64_t seed) {
    constexpr std::size_t largest = 1024;
    constexpr std::size_t step = 16;
    constexpr std::uint32_t of_each = 12;
    Rng rng(seed);
    for (std::size_t size = step; size <= largest; size += step) {
      std::vector<std::unique_ptr<char[]>> some;
      for (std::uint32_t i = 0; i < of_each; ++i) some.push_back(std::make_unique<char[]>(size));
      for (std::uint32_t i = of_each; i > 1; --i) std::swap(some[i - 1], some[rng.below(i)]);
      // Most are free again, in this order: so what is asked for in order does not lie in order.
      blocks_.push_back(std::move(some[0]));
      blocks_.push_back(std::move(some[1]));
    }
#if defined(M_PERTURB)
    ::mallopt(M_PERTURB, 0x5a);
#endif
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;
  ~Elsewhere() {
#if defined(M_PERTURB)
    ::mallopt(M_PERTURB, 0);
#endif
  }

 private:
  std::vector<std::unique_ptr<char[]>> blocks_;
};

std::string tell(const Run& run, std::size_t i, const std::string& backtrace) {
  if (i >= run.events.size()) return "nothing more happens";
  const Event& e = run.events[i];
  const auto it = run.names.find(e.tid);
  std::string text = "'" + (it == run.names.end() ? std::string("task") : it->second) + "' (tid " +
                     std::to_string(e.tid) + "): " + describe(e) + " at " +
                     std::to_string(e.at.ns()) + " ns";
  if (!backtrace.empty()) text += "\n" + backtrace.substr(0, backtrace.size() - 1);
  return text;
}

}  // namespace

std::optional<Leak> look_for_leak(Explorer& explorer, const Run& run) {
  const Tape& tape = run.tape;
  RunOptions how{.seed = tape.seed, .tape = &tape};
  {
    const Elsewhere elsewhere(tape.seed);
    const Run again = explorer.once(how);
    if (again.hash == run.hash && again.steps == run.steps) return std::nullopt;
  }
  // Where does it begin? Both once more, with everything kept.
  how.trace = true;
  const Run first = explorer.once(how);
  const auto run_elsewhere = [&] {
    const Elsewhere elsewhere(tape.seed);
    return explorer.once(how);
  };
  const Run second = run_elsewhere();
  const auto differs = std::ranges::mismatch(
      first.events, second.events, [](const Event& a, const Event& b) { return a.hash == b.hash; });
  const auto at = static_cast<std::size_t>(differs.in1 - first.events.begin());
  how.backtrace_at = at + 1;
  const std::string one = explorer.once(how).backtrace;
  const std::string other = run_elsewhere().backtrace;
  return Leak{.seed = tape.seed,
              .event = at + 1,
              .first = tell(first, at, one),
              .second = tell(second, at, other)};
}

// The tape is played there, strictly: it must fit, and come to the same hash.
std::optional<Leak> look_elsewhere(const Options& options, const Tape& tape) {
  if (options.arguments.empty()) return std::nullopt;
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("weft-" + std::to_string(::getpid()) + ".tape");
  Tape named = tape;
  named.name = options.name;
  const auto not_looked = [](const char* why) {
    std::fprintf(stderr, "weft: WEFT_PARANOID: no run in another process: %s\n", why);
    return std::nullopt;
  };
  try {
    named.save(file.string());
  } catch (const std::exception& e) {
    return not_looked(e.what());
  }

  std::vector<std::string> words{"/proc/self/exe"};
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> settings{"WEFT_REPLAY=" + file.string()};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("WEFT_REPLAY=")) settings.emplace_back(*variable);
  }
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (std::string& text : texts) all.push_back(text.data());
    all.push_back(nullptr);
    return all;
  };
  posix_spawn_file_actions_t quietly;
  ::posix_spawn_file_actions_init(&quietly);
  ::posix_spawn_file_actions_addopen(&quietly, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&quietly, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, words[0].c_str(), &quietly, nullptr,
                                  pointers(words).data(), pointers(settings).data());
  ::posix_spawn_file_actions_destroy(&quietly);
  int status = 0;
  while (error == 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  std::error_code ignored;
  std::filesystem::remove(file, ignored);
  if (error != 0) return not_looked(std::strerror(error));
  if (status == 0) return std::nullopt;
  return Leak{.seed = tape.seed,
              .event = 0,
              .first = "it passed",
              .second =
                  "in another process, with the same decisions, it did not, or went another "
                  "way"};
}

}  // namespace weft::sim

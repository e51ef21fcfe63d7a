#include <weft/sim/explore.hpp>

#include <weft/io/kernel.hpp>

#include "sim/explorer.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace weft::sim {

namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

template <class N>
N number(const char* name, std::string_view text, const char* wanted) {
  N value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw std::invalid_argument(std::string(name) + "=" + std::string(variable(name)) +
                                " makes no sense; it should be " + wanted);
  }
  return value;
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string argument;
  std::getline(file, argument, '\0');
  return argument.empty() ? "program" : argument;
}

std::string file_name(const std::string& test) {
  std::string name = test.empty() ? "simulation" : test;
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    if (!plain) c = '_';
  }
  return name + ".tape";
}

/// Real seconds.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(clock_->now() - start_).count();
  }

 private:
  std::unique_ptr<Kernel> clock_ = make_thread_kernel();
  Instant start_ = clock_->now();
};

/// Where people look.
class Progress {
 public:
  Progress(const Options& options, const Stopwatch& watch, const char* at_once = nullptr)
      : name_(options.name), watch_(watch), on_(options.progress && ::isatty(STDERR_FILENO) == 1) {
    if (!on_ || at_once == nullptr) return;
    shown_ = true;
    std::fprintf(stderr, "\r\033[K%s: %s", name_.c_str(), at_once);
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  void show(const Report& report, std::uint64_t wanted) {
    if (!on_ || watch_.seconds() < next_) return;
    next_ = watch_.seconds() + 0.5;
    shown_ = true;
    std::fprintf(stderr, "\r\033[K%s: %llu of %llu runs, %.0f a second", name_.c_str(),
                 static_cast<unsigned long long>(report.runs),
                 static_cast<unsigned long long>(wanted),
                 static_cast<double>(report.runs) / watch_.seconds());
  }

 private:
  const std::string& name_;
  const Stopwatch& watch_;
  const bool on_;
  bool shown_ = false;
  double next_ = 1;
};

class Search {
 public:
  Search(const Options& options, const Settings& settings, const std::function<void()>& body)
      : options_(options), settings_(settings), explorer_(options, body) {
    report_.name = options.name;
  }

  Report run() {
    if (!settings_.replay.empty()) {
      const Tape tape = Tape::load(settings_.replay);
      if (tape.name == options_.name) {
        replay(tape);
        return finish();
      }
    }
    if (settings_.jobs > 1 && options_.runs > 1) {
      const auto part = [this](std::size_t job, Report& report) {
        return look(job, settings_.jobs, report);
      };
      if (const auto tape = explore_in_processes(settings_.jobs, report_, part)) again(*tape);
    } else if (const auto tape = look(0, 1, report_)) {
      again(*tape);
    }
    return finish();
  }

 private:
  Report finish() {
    report_.seconds = watch_.seconds();
    return std::move(report_);
  }

  std::unique_ptr<Strategy> strategy() const {
    if (options_.make_strategy) return options_.make_strategy();
    return make_strategy(settings_.strategy.empty() ? options_.strategy : settings_.strategy);
  }

  /// Every `jobs`-th seed. The tape of the first run that fails.
  std::optional<Tape> look(std::size_t job, std::size_t jobs, Report& report) {
    const auto strategy_used = strategy();
    // Its profile is what strategies go by; and a failure in it is found at once.
    const Run quiet = explorer_.once({.seed = options_.first_seed, .trace = true});
    count(report, quiet);
    if (quiet.failure) return failing(quiet, report);
    Progress progress(options_, watch_);
    for (std::uint64_t i = job; i < options_.runs; i += jobs) {
      const Run run = explorer_.once({.strategy = strategy_used.get(),
                                      .seed = options_.first_seed + i,
                                      .profile = &quiet.profile});
      count(report, run);
      if (run.failure) return failing(run, report);
      if (options_.paranoid > 0 && i % options_.paranoid == 0 && !run.redundant) {
        report.leak = look_for_leak(explorer_, run);
        if (!report.leak && i == 0 && settings_.paranoid) {
          report.leak = look_elsewhere(options_, run.tape);
        }
        if (report.leak) return std::nullopt;
      }
      if (!strategy_used->end()) {
        report.everything = strategy_used->name().starts_with("exhaustive");
        return std::nullopt;
      }
      if (i % 64 < jobs) {
        progress.show(report, options_.runs);
        if (options_.seconds > 0 && watch_.seconds() > options_.seconds) return std::nullopt;
      }
    }
    return std::nullopt;
  }
  static void count(Report& report, const Run& run) {
    if (!run.redundant) ++report.runs;
    report.steps += run.steps;
    report.simulated += run.ended_at - Instant{};
  }
  std::optional<Tape> failing(const Run& run, const Report& report) {
    found_in_ = report.runs;
    failure_ = run.failure;
    Tape tape = run.tape;
    tape.name = options_.name;
    return tape;
  }

  /// A failing tape: what it does, and what it comes down to.
  void again(const Tape& tape) {
    if (failure_ &&
        failure_->kind == Failure::Kind::race) {  // it has been told, and would be again
      report_.found = Found{.failure = *failure_, .seed = tape.seed, .run = found_in_};
      report_.found->tape = report_.found->plainest = tape;
      save(*report_.found);
      return;
    }
    const Run run = explorer_.once({.tape = &tape, .trace = true});
    if (!run.failure || run.hash != tape.hash) {
      report_.leak = look_for_leak(explorer_, run);
      if (!report_.leak) {
        report_.leak = Leak{.seed = tape.seed,
                            .event = run.steps,
                            .first = "a failure",
                            .second = "no failure, or another one, with the same decisions"};
      }
      return;
    }
    Found found{
        .failure = *run.failure, .seed = tape.seed, .run = std::max<std::uint64_t>(found_in_, 1)};
    found.tape = tape;
    found.events = run.events.size();
    found.plainest = tape;
    if (options_.shrink) {
      const Progress progress(options_, watch_,
                              "a run has failed; looking for the plainest like it");
      const Shrunk shrunk = shrink(explorer_, tape, *run.failure);
      found.plainest = shrunk.tape;
      tell(found, shrunk);
    } else {
      tell(found, {});
    }
    save(found);
    report_.found = std::move(found);
  }

  void tell(Found& found, const Shrunk& shrunk) {
    Run run = explorer_.once({.tape = &found.plainest, .trace = true});
    found.plainest_events = run.events.size();
    found.plainest.hash = run.hash;
    found.timeline = timeline(run);
    if (run.failure) found.failure = *run.failure;
    if (!shrunk.nearest.choices.empty()) found.difference = difference(run, shrunk.choice);
  }

  void save(Found& found) {
    if (!options_.save_tape) return;
    const std::filesystem::path path =
        std::filesystem::path(settings_.tapes) / file_name(options_.name);
    try {
      std::filesystem::create_directories(settings_.tapes);
      found.plainest.save(path.string());
    } catch (const std::exception& e) {
      std::fprintf(stderr, "weft: %s\n", e.what());  // the report matters more
      return;
    }
    found.tape_file = path.string();
    found.replay = "WEFT_REPLAY=" + found.tape_file + " " +
                   (options_.command.empty() ? command_line() : options_.command);
    for (const std::string& argument : options_.arguments) found.replay += " " + argument;
  }

  void replay(const Tape& tape) {
    Run run = explorer_.once({.tape = &tape, .strict = true, .trace = true});
    report_.runs = 1;
    report_.steps = run.steps;
    report_.simulated = run.ended_at - Instant{};
    if (tape.hash != 0 && run.hash != tape.hash) {
      throw BadTape("the tape " + settings_.replay +
                    " does not fit this program any more: its choices do, but the run went another "
                    "way. The code has changed since it was recorded.");
    }
    if (!run.failure) return;
    Found found{.failure = *run.failure, .seed = tape.seed, .run = 1};
    found.tape = found.plainest = tape;
    found.events = found.plainest_events = run.events.size();
    found.timeline = timeline(run);
    found.tape_file = settings_.replay;
    report_.found = std::move(found);
  }

  const Options& options_;
  const Settings& settings_;
  Explorer explorer_;
  Stopwatch watch_;
  Report report_;
  std::uint64_t found_in_ = 0;
  std::optional<Failure> failure_;
};

}  // namespace

Settings Settings::from_environment() {
  Settings s;
  s.replay = variable("WEFT_REPLAY");
  s.strategy = variable("WEFT_STRATEGY");
  if (const auto text = variable("WEFT_SEED"); !text.empty()) {
    s.first_seed = number<std::uint64_t>("WEFT_SEED", text, "a number, such as 17");
    s.runs = 1;
  }
  if (const auto text = variable("WEFT_SEEDS"); !text.empty()) {
    constexpr const char* wanted = "a range, such as 1..10000";
    const std::size_t dots = text.find("..");
    const std::size_t second = dots == std::string_view::npos ? text.size() : dots + 2;
    const auto from = number<std::uint64_t>("WEFT_SEEDS", text.substr(0, dots), wanted);
    const auto to = number<std::uint64_t>("WEFT_SEEDS", text.substr(second), wanted);
    if (to < from || to - from == ~std::uint64_t{0}) {
      throw std::invalid_argument("WEFT_SEEDS: the range is empty, or everything");
    }
    s.first_seed = from;
    s.runs = to - from + 1;
  }
  if (const auto text = variable("WEFT_SIM_SECONDS"); !text.empty()) {
    s.seconds = number<double>("WEFT_SIM_SECONDS", text, "a number of seconds");
  }
  if (const auto text = variable("WEFT_JOBS"); !text.empty()) {
    s.jobs = number<std::size_t>("WEFT_JOBS", text, "a number of processes");
    if (s.jobs == 0 || s.jobs > 1024) throw std::invalid_argument("WEFT_JOBS: from 1 to 1024");
  }
  if (const auto text = variable("WEFT_TAPES"); !text.empty()) s.tapes = text;
  s.paranoid = variable("WEFT_PARANOID") == "1";
  return s;
}

Run Explorer::once(const RunOptions& how) {
  if (!engine_) engine_ = std::make_unique<Engine>(options_.engine);
  Run run = engine_->run(how, body_);
  if (options_.after_run) {
    auto failure = options_.after_run();
    // A run that was given up half-way means nothing.
    if (failure && !run.failure && !run.redundant) run.failure = failure;
  }
  if (engine_->broken()) drop_engine();
  return run;
}

void Explorer::drop_engine() noexcept {
  if (engine_ && engine_->broken()) {
    // A task of it cannot be stopped: so it stays for ever, and where one can find it.
    static std::vector<Engine*>& stuck = *new std::vector<Engine*>;
    engine_->abandon();
    stuck.push_back(engine_.release());
  }
  engine_.reset();
}

Report detail::explore(const Options& options, const std::function<void()>& body) {
  if (this_task() != nullptr) {
    throw std::logic_error("explore() inside of a task; call it from a plain thread");
  }
  const Settings settings = Settings::from_environment();
  Options effective = options;
  if (settings.first_seed) effective.first_seed = *settings.first_seed;
  if (settings.runs) effective.runs = *settings.runs;
  if (settings.seconds) effective.seconds = *settings.seconds;
  if (settings.paranoid) effective.paranoid = 1;
  return Search(effective, settings, body).run();
}

}  // namespace weft::sim

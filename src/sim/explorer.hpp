// One exploration under way: the engine, and what all its parts need.
#pragma once

#include <weft/sim/explore.hpp>

#include <functional>
#include <memory>

namespace weft::sim {

/// What the environment says about explorations; see sim/explore.hpp.
struct Settings {
  std::string replay;
  std::optional<std::uint64_t> first_seed;
  std::optional<std::uint64_t> runs;
  std::string strategy;
  std::optional<double> seconds;
  std::size_t jobs = 1;
  std::string tapes = "weft-tapes";
  bool paranoid = false;

  /// Throws std::invalid_argument, which names the variable.
  [[nodiscard]] static Settings from_environment();
};

/// Runs a body, again and again.
class Explorer {
 public:
  Explorer(const Options& options, const std::function<void()>& body)
      : options_(options), body_(body) {}
  ~Explorer() { drop_engine(); }
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  [[nodiscard]] Run once(const RunOptions& how);

 private:
  void drop_engine() noexcept;

  const Options& options_;
  const std::function<void()>& body_;
  std::unique_ptr<Engine> engine_;
};

/// The plainest tape that fails in the same way: as few choices that are not plain as possible, and
/// then as few steps. `nearest`: a tape that passes, and differs from it in one choice; empty if
/// there is none.
struct Shrunk {
  Tape tape;
  Tape nearest;
  std::size_t choice = 0;  // where they differ
};
[[nodiscard]] Shrunk shrink(Explorer& explorer, const Tape& tape, const Failure& failure);

/// A traced run as text, a column for each task.
[[nodiscard]] std::string timeline(const Run& run);
/// What happens instead in the nearest run that passes.
[[nodiscard]] std::string difference(const Run& run, std::size_t choice);
/// "recv #3".
[[nodiscard]] std::string describe(const Event& event);

/// Looks whether the run depends on more than its tape.
[[nodiscard]] std::optional<Leak> look_for_leak(Explorer& explorer, const Run& run);

/// The same in another process, where nothing lies where it lies here. None either if there cannot
/// be one.
[[nodiscard]] std::optional<Leak> look_elsewhere(const Options& options, const Tape& tape);

/// Splits the seeds among processes. Gives a tape that fails, if one of them has found one; and
/// counts runs and steps.
[[nodiscard]] std::optional<Tape> explore_in_processes(
    std::size_t jobs, Report& report,
    const std::function<std::optional<Tape>(std::size_t job, Report& report)>& part);

}  // namespace weft::sim

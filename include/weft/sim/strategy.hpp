/// Strategies: who goes on, when several could.
///
///     explore({.strategy = "pct:3"}, body);
///
///     fifo         in turn, as a loop would: one run
///     random       any of them, every time
///     pct:d        priorities, drawn once, and changed at d - 1 places. Finds a bug that needs d
///                  events in a certain order, in a run of n tasks and k steps, with a probability
///                  of at least 1 / (n k^(d-1))
///     pos          priorities of events, drawn anew when an event that conflicts has happened:
///                  spreads over orders that differ, rather than over interleavings
///     surw         picks what matters, one object at a time, and makes all orders of what is done
///                  to it about equally likely; how much each task will do comes from a first,
///                  quiet run
///     exhaustive   all of them, one after the other, leaving out those that differ only in the
///                  order of things that cannot tell; in code that shares plain variables outside
///                  of locks and atomics that is too much: exhaustive:all leaves nothing out
///     portfolio    the default: a mixture, by seed; most of it surw
///
/// PCT is from Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding
/// Bugs" (2010); POS from Yuan, Yang and Gu, "Partial Order Aware Concurrency Sampling" (2018);
/// SURW from Zhao et al., "Selectively Uniform Concurrency Testing" (2025); sleep sets from
/// Godefroid.
///
/// One's own is a class with these members, given to explore() as `make_strategy`.
#pragma once

#include <weft/base/rng.hpp>
#include <weft/sim/tape.hpp>
#include <weft/wait/point.hpp>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::sim {

/// A task that could go on, and what it would do then.
struct Candidate {
  std::uint32_t tid = 0;
  std::uint8_t priority = 0;
  /// Nothing that others could notice: it begins, or has been woken. (But whether it has been
  /// cancelled by then makes a difference.)
  bool silent = false;
  Access access = Access::write;
  /// What it would touch; 0: anything.
  std::uint64_t object = 0;
};

/// What Candidate::object counts, each kind for itself, from the beginning of the run.
enum class Thing : std::uint8_t { object, address, task, older_object };
[[nodiscard]] constexpr std::uint64_t number(Thing thing, std::uint64_t count) noexcept {
  return 4 * count + static_cast<std::uint64_t>(thing);
}
/// The outside world, of which everything may hang together.
inline constexpr std::uint64_t the_outside = ~std::uint64_t{0};

/// Does it matter which of them comes first?
[[nodiscard]] bool conflict(const Candidate& a, const Candidate& b) noexcept;

/// What a quiet run was like.
struct Profile {
  struct Part {
    std::uint32_t parent = 0;
    std::map<std::uint64_t, std::uint32_t> touched;  // how often, by object
  };
  std::uint64_t steps = 0;
  std::map<std::uint32_t, Part> tasks;        // by tid
  std::vector<std::uint64_t> shared_objects;  // touched by several tasks
};

class Strategy {
 public:
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;

  [[nodiscard]] virtual std::string name() const = 0;
  /// A run begins. All that follows depends on the seed alone.
  virtual void begin(std::uint64_t seed, const Profile& profile) = 0;
  /// Who goes on? (A number that is none of them says: this is not the run that I meant to repeat.)
  /// There are at least two; the first is the one that runs, if it could. `yielder`:
  /// the task that has just asked to let the others run, and is not among them; 0 if none has.
  [[nodiscard]] virtual std::uint32_t pick(std::span<const Candidate> candidates,
                                           std::uint32_t yielder) = 0;
  /// It does go on, picked or alone.
  virtual void goes_on(const Candidate& /*candidate*/) {}
  /// A number below n, for what is not about tasks.
  [[nodiscard]] virtual std::uint32_t choose(Kind kind, std::uint32_t n) = 0;
  /// The run is not worth going on with: it differs from an earlier one in nothing that matters.
  [[nodiscard]] virtual bool redundant() const noexcept { return false; }
  /// A run has ended. False: there is nothing left to try.
  [[nodiscard]] virtual bool end() { return true; }
};

/// By name, see above. Throws std::invalid_argument, which lists them.
[[nodiscard]] std::unique_ptr<Strategy> make_strategy(std::string_view name);

}  // namespace weft::sim

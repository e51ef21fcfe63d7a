/// explore(options, body): looks for a schedule under which a body fails.
///
///     auto report = weft::sim::explore({.runs = 10'000}, [] {
///       weft::atomic<int> balance{0};
///       weft::Scope scope;
///       for (int i = 0; i < 2; ++i) scope.spawn([&] { balance.store(balance.load() + 50); });
///       scope.join();
///       weft::sim::check(balance.load() == 100, "no deposit is lost");
///     });
///     std::puts(report.text().c_str());
///
/// The body is run again and again, each time from the beginning, under decisions that depend on
/// the run's seed alone. It must not keep anything from run to run. It runs as the task "main" on a
/// simulated Io: its tasks, timers, channels and so on are the real ones.
///
/// The first run that fails ends the search. Its tape is then made as plain as possible, keeping
/// the failure; the report tells that run, as a timeline with a column for each task, and the one
/// change that would have made it pass. The tape is stored in a file, and can be run again:
///
///     WEFT_REPLAY=weft-tapes/Account.LostUpdate.tape ./test --gtest_filter=Account.LostUpdate
///
/// Environment, for all explorations of a process:
///
///     WEFT_REPLAY=file       run this tape, once, if it is this test's
///     WEFT_SEED=n            one run, with this seed
///     WEFT_SEEDS=a..b        these seeds
///     WEFT_STRATEGY=name     see sim/strategy.hpp
///     WEFT_SIM_SECONDS=s     stop looking after so long
///     WEFT_JOBS=n            in n processes at a time (each sees a part of the seeds)
///     WEFT_TAPES=directory   where tapes are put (default: weft-tapes)
///     WEFT_PARANOID=1        each run twice, the second time with other addresses: see `paranoid`;
///                            and one in another process, if that can be started: see `arguments`
#pragma once

#include <weft/sim/engine.hpp>
#include <weft/sim/sim.hpp>
#include <weft/task/coro.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace weft::sim {

struct Options {
  /// Of the test; for reports and for the tape's file.
  std::string name = "simulation";
  std::uint64_t first_seed = 1;
  std::uint64_t runs = 1'000;
  /// Stop looking after so long on the real clock; zero: never.
  double seconds = 0;
  std::string strategy = "portfolio";
  /// One's own; instead of `strategy`.
  std::function<std::unique_ptr<Strategy>()> make_strategy{};
  EngineOptions engine{};
  /// Every so many runs, one is made a second time with what comes from malloc moved about and
  /// filled with something else: if it then goes another way, something has leaked in. 0: never.
  std::uint64_t paranoid = 1'000;
  bool shrink = true;
  bool save_tape = true;
  /// A line now and then on a terminal.
  bool progress = true;
  /// How to start this program again, for the replay line; empty: by its name.
  std::string command{};
  /// With which this program does just this, and ends well if it is well (for another process).
  std::vector<std::string> arguments{};
  /// Called after each run, with what it found (see sim/gtest.hpp).
  std::function<std::optional<Failure>()> after_run{};
};

/// What a search has found.
struct Found {
  Failure failure{};
  std::uint64_t seed = 0;
  std::uint64_t run = 0;  // the how many-th it was, from 1
  Tape tape{};            // as it was found
  Tape plainest{};        // and after shrinking
  std::uint64_t events = 0;
  std::uint64_t plainest_events = 0;
  std::string timeline{};    // of the plainest
  std::string difference{};  // from the nearest run that passes
  std::string tape_file{};   // empty if it was not saved
  std::string replay{};      // the command
};

/// The same decisions have led to two different runs.
struct Leak {
  std::uint64_t seed = 0;
  std::uint64_t event = 0;  // the first that differs, from 1; 0: not known
  std::string first;        // what it was in the first run, and in the second
  std::string second;
};

struct Report {
  std::string name;
  std::uint64_t runs = 0;
  std::uint64_t steps = 0;
  double seconds = 0;
  Duration simulated{};     // all runs together
  bool everything = false;  // an exhaustive strategy has come to its end
  std::optional<Found> found;
  std::optional<Leak> leak;

  [[nodiscard]] bool ok() const noexcept { return !found && !leak; }
  /// For people.
  [[nodiscard]] std::string text() const;
};

namespace detail {
[[nodiscard]] Report explore(const Options& options, const std::function<void()>& body);
}  // namespace detail

/// `body` may be a coroutine function. Throws BadTape if a tape was asked for and does not fit,
/// std::invalid_argument for a strategy or a setting that makes no sense.
template <class F>
[[nodiscard]] Report explore(const Options& options, F body) {
  using R = std::invoke_result_t<F&>;
  if constexpr (is_coro<R>) {
    return detail::explore(options, [&] { await(body()); });
  } else {
    return detail::explore(options, [&] { body(); });
  }
}

}  // namespace weft::sim

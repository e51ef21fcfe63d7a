/// Supervisor: keeps tasks running.
///
///     Supervisor team({.restart = Restart::one, .most = 5, .window = 10s, .delay = 100ms});
///     team.add("reader", [&] { read_until_closed(); });
///     team.add("pinger", [&]() -> Coro<> { return ping_for_ever(); }, EndsWell::never);
///     team.run();                             // in a fiber; co_await team.co_run() in a coroutine
///
/// run() returns when all have ended well. A task that fails is started again, after a delay that
/// grows with the number of failures, and with it the others, as `restart` says. A task that was
/// killed counts as one that failed. If there are too many failures in too short a time it is not
/// an accident: then all are stopped, and run() throws GaveUp.
///
/// The tasks are children of run(): cancelling whoever called it stops them all.
#pragma once

#include <weft/flow/timing.hpp>
#include <weft/sync/channel.hpp>
#include <weft/sync/future.hpp>

#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace weft {

/// Who is started again when one fails.
enum class Restart : std::uint8_t {
  one,   // that one
  rest,  // that one, and those that were added after it: they depend on it
  all,   // all: they depend on each other
};
/// May a task end without an error?
enum class EndsWell : std::uint8_t {
  yes,    // then it is done
  never,  // then it has failed
};

struct SupervisorOptions {
  Restart restart = Restart::one;
  std::size_t most = 3;  // restarts within the window
  Duration window = std::chrono::seconds(5);
  Duration delay{};  // before the first restart in a window; then more and more, see RetryPolicy
  double factor = 2;
  Duration longest_delay = std::chrono::seconds(30);
  /// Told of each failure, before anything is done about it. The error is null if the task was
  /// killed, or ended where it should not.
  std::function<void(std::string_view name, const std::exception_ptr& error)> on_failure{};
};

/// Too many restarts. The last error is nested in it (std::rethrow_if_nested).
class GaveUp : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Supervisor {
 public:
  explicit Supervisor(SupervisorOptions options = {}) : options_(std::move(options)) {}

  /// `f` is called for each start; it may return a Coro. Before run().
  template <class F>
  void add(std::string name, F f, EndsWell ends = EndsWell::yes) {
    add_child({.name = std::move(name),
               .start = [f = std::move(f)](
                            Scope& scope,
                            const SpawnOptions& options) { return async(scope, f, options); },
               .ends = ends});
  }

  void run() { await(co_run()); }
  Coro<void> co_run();
  /// So far.
  [[nodiscard]] std::uint64_t restarts() const noexcept { return restarts_.load(); }

 private:
  struct Child {
    std::string name;
    std::function<Future<void>(Scope&, const SpawnOptions&)> start;
    EndsWell ends;
    Future<void> task{};
    std::uint64_t generation = 0;  // an end of an earlier one is old news
    bool alive = false;
  };
  struct Ended {
    std::size_t child;
    std::uint64_t generation;
  };
  class Run;

  void add_child(Child child) { children_.push_back(std::move(child)); }

  const SupervisorOptions options_;
  std::vector<Child> children_;
  Atomic<std::uint64_t> restarts_{0};
};

}  // namespace weft

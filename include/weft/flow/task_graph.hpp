/// Tasks that have to wait for others.
///
///     auto parsed = spawn_after(scope, [&] { return parse(text); }, loaded, checked);
///
///     TaskGraph build;
///     build.add("link", link, {"compile", "libs"});      // in any order
///     build.add("compile", compile);
///     build.add("libs", libs);
///     build.run();                        // in a fiber; co_await build.co_run() in a coroutine
///
/// What waits for a task that does not succeed does not run. With handles there can be no cycle; in
/// a graph a cycle, or a name that is not there, is an error before anything runs.
#pragma once

#include <weft/sync/future.hpp>
#include <weft/task/scope.hpp>

#include <functional>
#include <string>
#include <vector>

namespace weft {

/// A task that another one waited for did not succeed.
class DependencyFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace detail {
[[nodiscard]] Coro<void> wait_for_all(std::vector<Task*> tasks);
}

/// A child of `scope` that calls `f`, which may return a Coro, once all of `futures` have
/// succeeded; else it fails with DependencyFailed.
template <class F, class... Ts>
auto spawn_after(Scope& scope, F f, const Future<Ts>&... futures) {
  auto wait = [futures...] { return detail::wait_for_all({futures.task()...}); };
  using R = std::invoke_result_t<F&>;
  if constexpr (is_coro<R>) {
    return scope.spawn([wait, f = std::move(f)]() mutable -> R {
      co_await wait();
      co_return co_await f();
    });
  } else {
    return scope.spawn([wait, f = std::move(f)]() mutable -> R {
      await(wait());
      return f();
    });
  }
}

class TaskGraph {
 public:
  /// `f` may return a Coro. A name that is there already is an error (std::invalid_argument).
  template <class F>
  void add(std::string name, F f, std::vector<std::string> after = {}) {
    add_node(
        {.name = std::move(name),
         .start = [f = std::move(f)](
                      Scope& scope, const SpawnOptions& options,
                      const WaitsFor& waits_for) { return start(scope, f, options, waits_for); },
         .after = std::move(after)});
  }
  /// Runs all. Throws std::invalid_argument for a cycle (which names it) or an unknown name, before
  /// anything runs; the first error of a task, which stops the others; and CancelledError if one
  /// was killed.
  void run() { await(co_run()); }
  Coro<void> co_run();

 private:
  using WaitsFor = std::function<Coro<void>()>;
  struct Node {
    std::string name;
    std::function<Future<void>(Scope&, const SpawnOptions&, const WaitsFor&)> start;
    std::vector<std::string> after;
    std::vector<std::size_t> inputs{};
  };

  template <class F>
  static Future<void> start(Scope& scope, const F& f, const SpawnOptions& options,
                            const WaitsFor& waits_for) {
    if constexpr (is_coro<std::invoke_result_t<const F&>>) {
      return scope
          .spawn(
              [f, waits_for]() -> Coro<> {
                co_await waits_for();
                co_await f();
              },
              options)
          .share();
    } else {
      return scope
          .spawn(
              [f, waits_for] {
                await(waits_for());
                f();
              },
              options)
          .share();
    }
  }
  void add_node(Node node);
  [[nodiscard]] std::size_t index_of(const std::string& name, const std::string& wanted_by) const;
  /// Each after those it waits for.
  [[nodiscard]] std::vector<std::size_t> order();
  void visit(std::size_t i, std::vector<std::uint8_t>& seen, std::vector<std::size_t>& path,
             std::vector<std::size_t>& order) const;

  std::vector<Node> nodes_;
};

}  // namespace weft

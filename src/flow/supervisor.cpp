#include <weft/flow/supervisor.hpp>

#include <algorithm>

namespace weft {

/// One run(). Everything here belongs to the task that called it.
class Supervisor::Run {
 public:
  explicit Run(Supervisor& supervisor) noexcept
      : options_(supervisor.options_),
        children_(supervisor.children_),
        restarts_(supervisor.restarts_) {}

  Coro<void> go() {
    for (std::size_t i = 0; i < children_.size(); ++i) start(i);
    while (std::any_of(children_.begin(), children_.end(), [](auto& c) { return c.alive; })) {
      const auto ended = co_await ends_.recv_op();
      Child& child = children_[ended->child];
      if (ended->generation != child.generation) continue;
      if (!child.task.done()) {  // somebody has killed our watcher
        watch(ended->child);
        continue;
      }
      child.alive = false;
      const Outcome<void>& outcome = child.task.outcome();
      if (outcome.ok() && child.ends == EndsWell::yes) continue;
      if (options_.on_failure) options_.on_failure(child.name, outcome.error());
      if (too_many()) {
        scope_.cancel();
        co_await scope_.empty_op();
        give_up(child, outcome);
      }
      co_await restart(ended->child);
    }
    co_await scope_.joined();
  }

 private:
  void start(std::size_t i) {
    Child& child = children_[i];
    ++child.generation;
    child.alive = true;
    child.task = child.start(scope_, {.name = child.name});
    watch(i);
  }
  /// The message is sent when the watcher goes, however it goes.
  void watch(std::size_t i) {
    const Child& child = children_[i];
    scope_.spawn(
        [task = child.task, tell = Tell(ends_, {i, child.generation})]() -> Coro<> {
          co_await task.done_op();
        },
        {.name = "watcher"});
  }
  class Tell {
   public:
    Tell(Channel<Ended>& to, Ended what) noexcept : to_(&to), what_(what) {}
    Tell(Tell&& other) noexcept : to_(std::exchange(other.to_, nullptr)), what_(other.what_) {}
    Tell& operator=(Tell&&) = delete;
    ~Tell() {
      if (to_ != nullptr) to_->try_send(what_);
    }

   private:
    Channel<Ended>* to_;
    Ended what_;
  };

  /// Counts this failure.
  bool too_many() {
    const Instant at = now();
    failures_.push_back(at);
    while (!failures_.empty() && failures_.front() + options_.window < at) failures_.pop_front();
    return failures_.size() > options_.most;
  }

  [[noreturn]] void give_up(const Child& child, const Outcome<void>& outcome) {
    const GaveUp error("gave up after " + std::to_string(options_.most) + " restarts in " +
                       std::to_string(options_.window.count() / 1'000'000) + " ms; last: '" +
                       child.name + "'" +
                       (outcome.failed() ? ": " + describe(outcome.error()) : " ended"));
    if (outcome.failed()) {
      try {
        std::rethrow_exception(outcome.error());
      } catch (...) {
        std::throw_with_nested(error);
      }
    }
    throw error;
  }

  Coro<void> restart(std::size_t failed) {
    const std::size_t from = options_.restart == Restart::all ? 0 : failed;
    const std::size_t until = options_.restart == Restart::one ? failed + 1 : children_.size();
    std::vector<std::size_t> again{failed};
    for (std::size_t i = from; i < until; ++i) {
      if (!children_[i].alive || children_[i].task.done()) continue;  // then it will be its turn
      again.push_back(i);
      children_[i].task.cancel(CancelReason::sibling_failed);
    }
    std::sort(again.begin(), again.end());
    for (const std::size_t i : again) co_await children_[i].task.done_op();
    const RetryPolicy pace{.delay = options_.delay,
                           .factor = options_.factor,
                           .longest = options_.longest_delay,
                           .jitter = 0};
    const Duration delay = pace.delay_after(static_cast<std::uint32_t>(failures_.size()));
    if (delay > Duration::zero()) co_await sleep_op(delay);
    for (const std::size_t i : again) start(i);
    restarts_.fetch_add(again.size());
  }

  const SupervisorOptions& options_;
  std::vector<Child>& children_;
  Atomic<std::uint64_t>& restarts_;
  std::deque<Instant> failures_;  // within the window
  Channel<Ended> ends_{unbounded};
  Scope scope_{{.on_failure = OnFailure::isolate, .name = "supervisor"}};
};

Coro<void> Supervisor::co_run() {
  Run run(*this);
  co_await run.go();
}

}  // namespace weft

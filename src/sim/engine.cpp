#include <weft/sim/engine.hpp>

#include <weft/stack/sanitizer.hpp>
#include <weft/sync/lock_watch.hpp>
#include <weft/task/dump.hpp>

#include "sim/universe.hpp"

#include <algorithm>
#include <utility>

#include <cxxabi.h>

namespace weft::sim {

namespace {

constexpr std::uint32_t hops_per_round = 1U << 30;
std::atomic<Engine*> active{nullptr};

bool at_point(const Point& point) noexcept {
  Engine* const engine = Engine::here();
  if (engine == nullptr) return false;
  // To whoever runs the simulation: it may be this task's last point, if it cannot be stopped.
  stack::published(static_cast<Io*>(engine));
  if (point.yields) this_task()->publish_forks();
  const stack::Aside aside;
  engine->at_point(point);
  return true;
}
void born(const void* address) noexcept {
  const stack::Aside aside;
  if (Engine* engine = Engine::here()) engine->born(address);
}
void hold_points(bool on) noexcept {
  const stack::Aside aside;
  if (Engine* engine = Engine::here()) engine->hold_points(on);
}
bool buggify_here(const char* file, unsigned line) noexcept {
  const stack::Aside aside;
  Engine* const engine = Engine::here();
  return engine != nullptr && engine->buggify(file, line);
}
constexpr detail::PointHooks hooks{
    .at = &at_point, .born = &born, .hold = &hold_points, .buggify = &buggify_here};

/// While it lives one can ask who holds which lock; in runs that are to be told about.
class LockHolders {
 public:
  explicit LockHolders(bool wanted) : mine_(wanted && !checking_locks()) {
    if (mine_) remember_lock_holders();
  }
  LockHolders(const LockHolders&) = delete;
  LockHolders& operator=(const LockHolders&) = delete;
  ~LockHolders() {
    if (mine_) stop_checking_locks();
  }

 private:
  const bool mine_;
};

std::string type_of_current_exception() {
  const std::type_info* type = abi::__cxa_current_exception_type();
  return type == nullptr ? "unknown" : type->name();
}

}  // namespace

const char* to_string(Failure::Kind kind) noexcept {
  switch (kind) {
    case Failure::Kind::error:
      return "an exception";
    case Failure::Kind::check:
      return "a check failed";
    case Failure::Kind::monitor:
      return "a monitor's condition does not hold";
    case Failure::Kind::deadlock:
      return "deadlock";
    case Failure::Kind::livelock:
      return "livelock";
    case Failure::Kind::too_long:
      return "too many steps";
    case Failure::Kind::starved:
      return "starvation";
    case Failure::Kind::leak:
      return "not repeatable";
    case Failure::Kind::race:
      return "a data race";
  }
  return "?";
}

// Set-up and end

Engine::Engine(EngineOptions options)
    : Io({.stack_size = options.stack_size,
          // A stack that was used before is cleaned then: no task inherits another's history.
          .measure_stacks = races_seen != nullptr,
          .on_unhandled =
              [this](const Task& task, const std::exception_ptr& error) {
                fail(Failure::Kind::error, std::string(task.name()),
                     "task '" + std::string(task.name()) + "' (tid " + std::to_string(task.tid()) +
                         ") failed, and nobody answers for it: " + describe(error));
              }}),
      options_(options),
      kernel_(std::make_unique<SimKernel>(*this)),
      timeline_(Instant{}),
      worker_(*this) {
  Engine* none = nullptr;
  if (!active.compare_exchange_strong(none, this)) {
    throw std::logic_error("there is a simulation in this process already; one at a time");
  }
  stack::want_races(races_seen != nullptr);
  try {
    worker_.attach(true);
  } catch (...) {
    active.store(nullptr);
    throw;
  }
  detail::point_hooks.store(&hooks);
  enter_registry();
}

Engine::~Engine() noexcept {
  WEFT_CHECK(!broken_, "a simulation whose tasks could not be stopped is destroyed");
  abandon();
}

void Engine::abandon() noexcept {
  leave_registry();
  detail::point_hooks.store(nullptr);
  worker_.detach();
  stack::want_races(false);
  active.store(nullptr);
}

Engine* Engine::here() noexcept {
  const Task* task = this_task();
  Engine* const engine = active.load(std::memory_order_relaxed);  // relaxed: set by this thread
  return task != nullptr && &task->io() == engine ? engine : nullptr;
}

// A run

void Engine::reset(const RunOptions& options) {
  run_ = options;
  result_ = Run{};
  failure_.reset();
  tape_error_ = nullptr;
  now_ = Instant{};
  timeline_.restart(now_);
  last_tid_ = 0;
  worker_.turns = 0;  // the worker lives on, and its counts must not matter
  first_object_ = static_cast<std::uint64_t>(new_object_id());
  addresses_.clear();
  older_.clear();
  last_address_ = 0;
  ready_.clear();
  still_.clear();
  still_hosts_.clear();
  host_of_task_.clear();
  left_.reset();
  chosen_ = nullptr;
  idle_steps_ = 0;
  steps_after_end_ = 0;
  stopping_ = false;
  points_held_ = 0;
  monitors_.clear();
  buggy_.clear();
  static const Profile nothing_known;
  if (run_.strategy != nullptr) {
    run_.strategy->begin(run_.seed, run_.profile == nullptr ? nothing_known : *run_.profile);
  }
}

Run Engine::run(const RunOptions& options, const std::function<void()>& body) {
  WEFT_CHECK(!broken_ && live() == 0, "a simulation is run again before its tasks have ended");
  reset(options);
  const LockHolders holders(run_.trace);
  if (races_seen != nullptr) races_before_ = races_seen();
  spawn(
      [&] {
        try {
          body();
          if (universe_) universe_->end();
        } catch (const Cancelled&) {
          throw;
        } catch (...) {
          fail(Failure::Kind::error, type_of_current_exception(),
               describe(std::current_exception()));
        }
      },
      {.name = "main"});
  {
    const stack::Aside aside;
    drive();
  }
  stack::received(static_cast<Io*>(this));  // from all tasks that have ended
  if (!broken_) {
    check_races();
    stack::forget_ended_strands();
  }
  if (!broken_) clear_outside();
  if (tape_error_) std::rethrow_exception(tape_error_);
  const std::size_t used = result_.tape.choices.size();
  if (run_.strict && !failure_ && run_.tape != nullptr && used < run_.tape->choices.size()) {
    throw BadTape("the tape does not fit this program: the run ended after " +
                  std::to_string(used) + " of its " + std::to_string(run_.tape->choices.size()) +
                  " choices");
  }
  result_.failure = std::move(failure_);
  result_.ended_at = now_;
  result_.redundant = run_.strategy != nullptr && run_.strategy->redundant();
  result_.tape.seed = run_.seed;
  result_.tape.hash = result_.hash;
  if (run_.strategy != nullptr) result_.tape.strategy = run_.strategy->name();
  for (auto& [tid, part] : result_.profile.tasks) {
    for (const auto& [object, times] : part.touched) {
      const auto others = std::ranges::count_if(
          result_.profile.tasks, [&](const auto& t) { return t.second.touched.contains(object); });
      auto& shared = result_.profile.shared_objects;
      if (object != 0 && others > 1 && std::ranges::find(shared, object) == shared.end()) {
        shared.push_back(object);
      }
    }
  }
  return std::move(result_);
}

void Engine::drive() {
  while (live() > 0 && !broken_) {
    worker_.budget_ = hops_per_round;
    Task* task = worker_.ready_.pop();
    if (task == nullptr) task = pick_next();
    if (task != nullptr) {
      worker_.run(*task);
    } else if (!advance_time()) {
      if (stopping_) {
        broken_ = true;  // somebody waits where he cannot be cancelled
      } else {
        const std::string still =
            still_.empty() ? ""
                           : " (" + std::to_string(still_.size()) + " on a host that is paused)";
        fail(Failure::Kind::deadlock, "",
             std::to_string(live()) + " task(s) wait and nothing can wake them" + still + "\n" +
                 dump(*this, {.backtraces = run_.trace}) +
                 describe_held_locks([this](ObjectId lock) { return number_of(lock); }));
      }
    }
  }
}

bool Engine::advance_time() {
  const Instant timer = timeline_.next();
  const Instant event = events_.empty() ? Instant::never() : events_.begin()->first.first;
  if (timer.is_never() && event.is_never()) return false;
  now_ = std::max(now_, std::min(timer, event));
  // At the same instant either may be first.
  if (timer == event && decide(Kind::select, 2) == 1) happen();
  {
    WakeList wakes;
    timeline_.advance(now_, wakes);
  }
  happen();
  return true;
}

// The outside

Universe& Engine::universe() {
  const stack::Aside aside;
  if (!universe_) universe_ = std::make_unique<Universe>(*this);
  return *universe_;
}

Instant Engine::now() noexcept {
  const stack::Aside aside;
  return universe_ ? universe_->here().read_clock(now_) : now_;
}

void Engine::arm_timer(TimerNode& timer) noexcept {
  const stack::Aside aside;
  if (universe_) timer.deadline = universe_->here().true_time(timer.deadline);
  timeline_.arm(timer);
}

void Engine::disarm_timer(TimerNode& timer) noexcept {
  const stack::Aside aside;
  timeline_.disarm(timer);
}

void Engine::at(Instant when, std::function<void()> happens) {
  const stack::Aside aside;
  events_.emplace(std::pair(std::max(when, now_), ++last_event_), std::move(happens));
}

// What is due. It may wake tasks, and cause more of its kind.
void Engine::happen() {
  while (!events_.empty() && events_.begin()->first.first <= now_) {
    const auto event = events_.extract(events_.begin());
    event.mapped()();
  }
}

void Engine::complete(Job& job) noexcept {
  std::erase(jobs_, &job);
  job.complete();
}

// All tasks have ended.
void Engine::clear_outside() {
  events_.clear();
  while (!jobs_.empty()) complete(*jobs_.back());
  universe_.reset();
}

void Engine::fail(Failure::Kind kind, std::string key, std::string what) noexcept {
  const stack::Aside aside;
  if (stopping_) return;
  failure_ = Failure{.kind = kind, .key = std::move(key), .what = std::move(what)};
  stop_everything();
}

void Engine::stop_everything() noexcept {
  stopping_ = true;
  still_hosts_.clear();
  for (const Ready& ready : std::exchange(still_, {})) add(ready);
  root().cancel_children(CancelReason::shutdown);
}

// A task that does not come to its end: it stays where it is, and so does its stack.
void Engine::give_up(Task& task) noexcept {
  broken_ = true;
  worker_.budget_ = 0;
  worker_.yield_fiber(task);
  WEFT_CHECK(false, "a task that was given up goes on");
}

}  // namespace weft::sim

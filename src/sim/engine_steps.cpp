// Of sim::Engine: what is decided, and who goes on.
#include <weft/sim/engine.hpp>
#include <weft/stack/backtrace.hpp>
#include <weft/stack/sanitizer.hpp>
#include <weft/task/dump.hpp>

#include "sim/universe.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace weft::sim {

namespace {

// After a run has failed its tasks are only to come to their end.
constexpr std::uint64_t most_steps_after_end = 100'000;

/// By what it says, not by where it lies: the same in every process.
std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

std::string backtrace_here() {
  std::array<void*, 32> frames{};
  const std::size_t depth = stack::capture_backtrace(frames);
  std::string text;
  for (void* pc : std::span(frames).first(depth)) {
    const std::string frame = stack::describe_address(pc);
    if (frame.find("weft::sim::") != std::string::npos && text.empty()) continue;
    text += "      " + frame + "\n";
  }
  return text;
}

// See Task::id().
constexpr std::uint64_t task_bit = std::uint64_t{1} << 63;
constexpr std::uint64_t tid_mask = (std::uint64_t{1} << 48) - 1;

}  // namespace

// Decisions

template <class Ask>
std::uint32_t Engine::decide_by(Kind kind, std::uint32_t n, Ask ask) {
  std::vector<Choice>& made = result_.tape.choices;
  std::uint32_t taken = 0;
  if (stopping_) return 0;
  if (run_.tape != nullptr && made.size() < run_.tape->choices.size()) {
    const Choice& on_tape = run_.tape->choices[made.size()];
    const bool fits = on_tape.kind == kind && on_tape.among == n;
    if (!fits && run_.strict) {
      does_not_fit(on_tape, kind, n);
      return 0;
    }
    taken = on_tape.taken < n ? on_tape.taken : 0;
  } else if (run_.strategy != nullptr) {
    taken = ask(*run_.strategy);
    if (taken >= n) {  // it repeats an earlier run, and that had something else here
      fail(Failure::Kind::leak, "another run",
           "with the same decisions as an earlier one this run has come to another choice: among " +
               std::to_string(n) +
               ". It depends on something that the simulation does not control");
      return 0;
    }
  }
  made.push_back({.kind = kind, .among = n, .taken = taken});
  if (run_.trace) result_.candidates.emplace_back();
  return taken;
}

void Engine::does_not_fit(const Choice& on_tape, Kind kind, std::uint32_t n) {
  const auto say = [](Kind k, std::uint32_t among) {
    return std::string(to_string(k)) + ", among " + std::to_string(among);
  };
  tape_error_ = std::make_exception_ptr(BadTape(
      "the tape does not fit this program: its choice " +
      std::to_string(result_.tape.choices.size() + 1) + " is " + say(on_tape.kind, on_tape.among) +
      "; the program asks for " + say(kind, n) +
      ". The code has changed since, or it depends on something that the simulation does not "
      "control."));
  stop_everything();
}

std::uint32_t Engine::decide(Kind kind, std::uint32_t n) {
  const stack::Aside aside;
  return decide_by(kind, n, [&](Strategy& strategy) { return strategy.choose(kind, n); });
}

std::uint32_t Engine::decide_task(std::span<const Candidate> candidates,
                                  std::uint32_t yielder) noexcept {
  if (candidates.size() < 2) return 0;
  const std::uint32_t taken =
      decide_by(Kind::task, static_cast<std::uint32_t>(candidates.size()),
                [&](Strategy& strategy) { return strategy.pick(candidates, yielder); });
  if (run_.trace && !result_.candidates.empty()) {
    for (const Candidate& c : candidates) result_.candidates.back().push_back(c.tid);
  }
  if (run_.strategy != nullptr && run_.strategy->redundant() && !stopping_) stop_everything();
  return taken;
}

bool Engine::buggify(const char* file, unsigned line) noexcept {
  constexpr std::uint32_t one_site_in = 4;
  constexpr std::uint32_t one_time_in = 4;
  const std::uint64_t site = hash_of(file) + line;
  auto it = buggy_.find(site);
  if (it == buggy_.end()) it = buggy_.emplace(site, decide(Kind::fault, one_site_in) == 1).first;
  return it->second && decide(Kind::fault, one_time_in) == 1;
}

// Who goes on

Candidate Engine::silent(const Task& task) noexcept {
  return {
      .tid = static_cast<std::uint32_t>(task.tid()), .priority = task.priority(), .silent = true};
}

std::uint64_t Engine::next_tid() noexcept {
  const stack::Aside aside;
  return ++last_tid_;
}

void Engine::launch(Task& task) noexcept {
  stack::published(&task);
  const stack::Aside aside;
  if (run_.trace) {
    const auto tid = static_cast<std::uint32_t>(task.tid());
    result_.names.emplace(tid, task.name());
    const Task* parent = this_task();
    result_.profile.tasks[tid].parent =
        parent == nullptr ? 0 : static_cast<std::uint32_t>(parent->tid());
  }
  if (universe_) host_of_task_[task.tid()] = &universe_->here();
  add({.task = &task, .candidate = silent(task), .what = "begins"});
}

void Engine::ready(Task& task) noexcept {
  stack::published(&task);
  const stack::Aside aside;
  // Not this_worker(): in blocking(f) there is none.
  WEFT_CHECK(std::this_thread::get_id() == thread_, "task '", task.name(),
             "' of a simulation is woken by another thread; a simulation must not have any");
  Candidate candidate = silent(task);
  // It withdraws from the others it waited for, and that may let somebody else through.
  candidate.silent = task.arm_count() <= 1;
  add({.task = &task, .candidate = candidate, .what = "goes on"});
}

void Engine::add(Ready ready) noexcept {
  ready.since = result_.steps;
  (stands_still(*ready.task) ? still_ : ready_).push_back(ready);
}

bool Engine::stands_still(const Task& task) const noexcept {
  if (still_hosts_.empty()) return false;
  const auto it = host_of_task_.find(task.tid());
  // Who was there before there were hosts is on the first.
  const Host* const host = it == host_of_task_.end() ? universe_->find("test") : it->second;
  return std::ranges::find(still_hosts_, host) != still_hosts_.end();
}

void Engine::hold_still(const Host& host, bool on) noexcept {
  if (stopping_) return;
  std::erase(still_hosts_, &host);
  if (on) still_hosts_.push_back(&host);
  auto all = std::exchange(on ? ready_ : still_, {});
  for (const Ready& ready : all) add(ready);
}

// Nothing changes any more, but somebody could go on and has not been let for long: an unfair
// strategy's doing, and no livelock. It is its turn, whatever the strategy says.
std::optional<std::size_t> Engine::left_out() const noexcept {
  if (idle_steps_ < options_.most_idle_steps / 2) return std::nullopt;
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    if (ready_[i].since + options_.most_idle_steps / 4 <= result_.steps) return i;
  }
  return std::nullopt;
}

void Engine::put_back(Task& task) noexcept {
  if (broken_) return;  // it has been given up
  if (left_ && left_->task == &task) {
    add(*std::exchange(left_, std::nullopt));
  } else {
    ready(task);
  }
}

void Engine::block(Task& task) {
  WEFT_CHECK(false, "task '", task.name(), "' of a simulation has no thread to block");
}

// Others may take a fork at once, or leave it to its task.
bool Engine::SimWorker::wants_forks() const noexcept {
  return engine_.decide(Kind::select, 2) == 1;
}

Task* Engine::SimWorker::take_next(std::uint8_t /*at_least*/) noexcept {
  return engine_.pick_next();
}

Task* Engine::pick_next() noexcept {
  if (chosen_ != nullptr) return std::exchange(chosen_, nullptr);
  if (!events_.empty()) happen();
  if (ready_.empty() || broken_) return nullptr;
  if (const auto one = left_out()) return take(*one);
  scratch_.clear();
  for (const Ready& r : ready_) scratch_.push_back(r.candidate);
  return take(decide_task(scratch_, 0));
}

Task* Engine::take(std::size_t index) noexcept {
  const Ready taken = ready_[index];
  ready_.erase(ready_.begin() + static_cast<std::ptrdiff_t>(index));
  if (!taken.at_point && !stopping_) goes_on(taken.candidate, taken.what, 0);
  return taken.task;
}

void Engine::at_point(const Point& point) noexcept {
  Task& task = *worker_.task();
  // Not in what a task's end brings with it: that is one step.
  if (task.fiber() == nullptr || task.state() != TaskState::running || watching_ ||
      points_held_ > 0) {
    return;
  }
  if (stopping_) {
    if (++steps_after_end_ > most_steps_after_end) give_up(task);
    return;
  }
  if (!events_.empty()) happen();
  if (stands_still(task)) {
    left_ = Ready{.task = &task, .candidate = silent(task), .what = point.what, .at_point = true};
    worker_.budget_ = 0;  // back to drive(), whoever else there is
    worker_.yield_fiber(task);
    if (stopping_) return;
  }
  Candidate me = silent(task);
  me.silent = false;
  me.access = point.access;
  const std::uint64_t object = number_of(point);
  me.object = point.outside ? the_outside : object;
  if (!ready_.empty()) {
    scratch_.clear();
    if (!point.yields) scratch_.push_back(me);
    for (const Ready& r : ready_) scratch_.push_back(r.candidate);
    const auto one = left_out();
    std::size_t index =
        one ? *one + (point.yields ? 0 : 1) : decide_task(scratch_, point.yields ? me.tid : 0);
    if (stopping_) return;
    if (point.yields || index > 0) {
      if (!point.yields) --index;
      left_ = Ready{.task = &task, .candidate = me, .what = point.what, .at_point = true};
      chosen_ = take(index);
      worker_.yield_fiber(task);
      if (stopping_) return;
    }
  }
  goes_on(me, point.what, object);
  if (options_.most_passes > 0) count_passes();
  if (result_.steps == run_.backtrace_at) result_.backtrace = backtrace_here();
  if (point.yields || point.access == Access::read) {
    ++idle_steps_;
  } else {
    idle_steps_ = 0;
  }
  check_limits();
  check_races();
}

void Engine::check_races() noexcept {
  if (races_seen == nullptr || races_seen() == races_before_) return;
  fail(Failure::Kind::race, "", "ThreadSanitizer has reported a data race; see its report");
}

void Engine::goes_on(const Candidate& candidate, const char* what, std::uint64_t object) noexcept {
  ++result_.steps;
  result_.hash = mix(result_.hash ^ (std::uint64_t{candidate.tid} << 40) ^ object ^ hash_of(what) ^
                     static_cast<std::uint64_t>(now_.ns()));
  if (run_.strategy != nullptr) run_.strategy->goes_on(candidate);
  if (run_.trace) {
    result_.events.push_back({.choices = result_.tape.choices.size(),
                              .at = now_,
                              .tid = candidate.tid,
                              .what = what,
                              .object = object,
                              .hash = result_.hash});
    if (!candidate.silent) {
      ++result_.profile.tasks[candidate.tid].touched[candidate.object];
      ++result_.profile.steps;
    }
  }
  if (!monitors_.empty()) check_monitors();
}

// Those that could have gone on, and have not.
void Engine::count_passes() noexcept {
  for (Ready& r : ready_) {
    if (++r.passed_over <= options_.most_passes) continue;
    fail(Failure::Kind::starved, std::string(r.task->name()),
         "task '" + std::string(r.task->name()) + "' could go on, and was passed over " +
             std::to_string(r.passed_over) + " times");
    return;
  }
}

void Engine::check_limits() noexcept {
  if (result_.steps > options_.most_steps) {
    fail(Failure::Kind::too_long, "",
         "the run takes more than " + std::to_string(options_.most_steps) + " steps\n" +
             dump(*this, {.backtraces = false}));
  } else if (idle_steps_ > options_.most_idle_steps) {
    fail(Failure::Kind::livelock, "",
         "for " + std::to_string(idle_steps_) + " steps tasks have only looked and yielded\n" +
             dump(*this, {.backtraces = false}));
  }
}

void Engine::add_monitor(const Monitor& monitor) {
  const stack::Aside aside;
  monitors_.push_back(&monitor);
}

void Engine::remove_monitor(const Monitor& monitor) noexcept {
  const stack::Aside aside;
  std::erase(monitors_, &monitor);
}

void Engine::check_monitors() noexcept {
  for (std::size_t i = 0; i < monitors_.size() && !stopping_; ++i) {
    const Monitor& monitor = *monitors_[i];
    watching_ = true;
    std::string why = monitor.name;
    bool holds = false;
    try {
      holds = monitor.holds();
    } catch (...) {
      why += ": " + describe(std::current_exception());
    }
    watching_ = false;
    if (!holds) fail(Failure::Kind::monitor, monitor.name, why);
  }
}

// Ids of objects go on from run to run, and addresses mean nothing: both are counted from the
// beginning of the run. What is older than the run keeps its number.
std::uint64_t Engine::number_of(const Point& point) noexcept {
  if (point.object != ObjectId::none) {
    const auto id = static_cast<std::uint64_t>(point.object);
    if ((id & task_bit) != 0) return sim::number(Thing::task, id & tid_mask);
    if (id > first_object_) return sim::number(Thing::object, id - first_object_);
    return sim::number(Thing::older_object,
                       older_.try_emplace(id, older_.size() + 1).first->second);
  }
  if (point.address == nullptr) return 0;
  const auto [it, fresh] = addresses_.try_emplace(point.address, 0);
  if (fresh) it->second = ++last_address_;
  return sim::number(Thing::address, it->second);
}

std::uint64_t Engine::number_of(ObjectId object) const noexcept {
  const auto id = static_cast<std::uint64_t>(object);
  if ((id & task_bit) != 0) return id & tid_mask;
  return id > first_object_ ? id - first_object_ : id;
}

void Engine::born(const void* address) noexcept {
  addresses_[address] = ++last_address_;
}

}  // namespace weft::sim

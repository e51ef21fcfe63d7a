/// The simulator's engine: one thread, on which a strategy or a tape decides everything.
///
/// Most use it through explore() and WEFT_SIM_TEST; this is what they are made of: run a body once,
/// under given decisions, and tell what happened.
///
/// Tasks run one at a time. At every point (wait/point.hpp), and whenever a task waits, yields or
/// ends, somebody is picked from those who could go on. Running takes no time; when nobody can go
/// on, the clock jumps to the next timer, and what is due at the same instant may go on in any
/// order. Everything left open is recorded on a tape, with a hash over all that happened: two runs
/// with the same tape have the same hash, or something has leaked in from outside.
///
/// A run fails if the body or a task nobody answers for throws, if a check or a monitor fails, if
/// nobody can ever go on again, if tasks only look and yield and nothing changes, or if it takes
/// too many steps. Then all tasks are cancelled, and the run ends when they have ended. A task that
/// cannot be stopped, because it spins or waits under a Shield, is left where it is: the engine is
/// `broken()` then, and must be left alone too.
///
/// Coroutines run on fibers here. One engine at a time in a process.
#pragma once

#include <weft/io/job.hpp>
#include <weft/io/kernel.hpp>
#include <weft/sim/strategy.hpp>
#include <weft/sim/tape.hpp>
#include <weft/task/io.hpp>
#include <weft/task/worker.hpp>
#include <weft/time/timeline.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace weft::sim {

class Host;
class Universe;

struct Failure {
  enum class Kind : std::uint8_t {
    error,
    check,
    monitor,
    deadlock,
    livelock,
    too_long,
    starved,
    leak,  // something was asked of the machine, see weft::tripwires
    race,  // seen by ThreadSanitizer, see weft::races
  };
  Kind kind;
  /// Two failures with the same kind and key are the same bug.
  std::string key;
  std::string what;
  [[nodiscard]] bool same_as(const Failure& other) const noexcept {
    return kind == other.kind && key == other.key;
  }
};
[[nodiscard]] const char* to_string(Failure::Kind kind) noexcept;

/// One step of one task.
struct Event {
  std::uint64_t choices;  // made so far, this one included
  Instant at;
  std::uint32_t tid;
  const char* what;
  std::uint64_t object;  // 0: none in particular
  std::uint64_t hash;    // of all up to here
};

struct RunOptions {
  /// Decides where the tape has ended; null: the plain choices.
  Strategy* strategy = nullptr;
  std::uint64_t seed = 0;
  const Profile* profile = nullptr;
  const Tape* tape = nullptr;
  /// A choice that does not fit the tape is an error (BadTape), not made to fit.
  bool strict = false;
  /// Keep what happened: Run::events, candidates, names and profile.
  bool trace = false;
  /// The step whose stack is wanted, from 1; 0: none.
  std::uint64_t backtrace_at = 0;
};

struct Run {
  std::optional<Failure> failure;
  Tape tape;
  std::uint64_t hash = 0;
  std::uint64_t steps = 0;
  Instant ended_at{};
  bool redundant = false;  // given up, see Strategy::redundant()
  std::vector<Event> events;
  /// Who could go on, for each choice on the tape (none, if that was about something else).
  std::vector<std::vector<std::uint32_t>> candidates;
  std::string backtrace;                       // see RunOptions::backtrace_at
  std::map<std::uint32_t, std::string> names;  // of tasks
  Profile profile;
};

struct EngineOptions {
  std::uint64_t most_steps = 1'000'000;
  /// So many steps in a row in which nothing changes are a livelock.
  std::uint64_t most_idle_steps = 10'000;
  /// Somebody who could go on is passed over so often: starved. 0: never mind; most strategies are
  /// unfair on purpose.
  std::uint64_t most_passes = 0;
  std::size_t stack_size = 64 * 1024;
};

class Engine final : public Io {
 public:
  explicit Engine(EngineOptions options = {});
  ~Engine() noexcept override;

  /// Throws BadTape if a strict tape does not fit.
  [[nodiscard]] Run run(const RunOptions& options, const std::function<void()>& body);
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  /// Of a broken one, which is then never destroyed: lets go of the thread.
  void abandon() noexcept;

  /// How many races have been reported in this process so far. Null: nobody looks for any.
  static inline std::uint64_t (*races_seen)() noexcept = nullptr;

  /// The engine whose task is calling; null elsewhere.
  [[nodiscard]] static Engine* here() noexcept;

  // What tasks ask

  /// Below n, n > 0; from the tape or the strategy.
  [[nodiscard]] std::uint32_t decide(Kind kind, std::uint32_t n);
  /// The run has failed. The first failure counts.
  void fail(Failure::Kind kind, std::string key, std::string what) noexcept;
  [[nodiscard]] bool failed() const noexcept { return failure_.has_value(); }
  void at_point(const Point& point) noexcept;
  void born(const void* address) noexcept;
  void hold_points(bool on) noexcept { on ? ++points_held_ : --points_held_; }
  [[nodiscard]] bool buggify(const char* file, unsigned line) noexcept;
  /// Checked at every step from now on.
  struct Monitor {
    std::string name;
    std::function<bool()> holds;
  };
  void add_monitor(const Monitor& monitor);
  void remove_monitor(const Monitor& monitor) noexcept;

  // The outside

  /// What is simulated around the program in this run; see sim/network.hpp.
  [[nodiscard]] Universe& universe();
  /// On no host's clock.
  [[nodiscard]] Instant true_now() const noexcept { return now_; }
  /// Something happens then that is no task's doing.
  void at(Instant when, std::function<void()> happens);
  /// The tasks of this host stand still from now on, or go on.
  void hold_still(const Host& host, bool on) noexcept;
  /// A job that the outside has begun, until it is complete: at the end of the run, that is.
  void begun(Job& job) { jobs_.push_back(&job); }
  void complete(Job& job) noexcept;

  // Io

  /// On the clock of the calling task's host.
  [[nodiscard]] Instant now() noexcept override;
  [[nodiscard]] Kernel& kernel() noexcept override { return *kernel_; }
  void arm_timer(TimerNode& timer) noexcept override;
  void disarm_timer(TimerNode& timer) noexcept override;
  [[nodiscard]] std::uint32_t choose(std::uint32_t n) noexcept override {
    return n < 2 ? 0 : decide(Kind::select, n);
  }
  [[nodiscard]] const char* kind() const noexcept override { return "sim"; }
  [[nodiscard]] Wait::Flow flow_of_closures() const noexcept override { return Wait::Flow::fiber; }
  [[nodiscard]] Wait::Flow flow_of_coroutines() const noexcept override {
    return Wait::Flow::fiber;
  }
  [[nodiscard]] std::uint64_t next_tid() noexcept override;
  [[nodiscard]] std::uint64_t number_of(ObjectId object) const noexcept override;
  void launch(Task& task) noexcept override;
  void ready(Task& task) noexcept override;
  void block(Task& task) override;
  void retire() noexcept override {
    live_.fetch_sub(1, std::memory_order_relaxed);  // relaxed: one thread
  }
  void interrupt() noexcept override {}

 private:
  /// A task that could go on.
  struct Ready {
    Task* task;
    Candidate candidate;
    const char* what;
    bool at_point = false;    // it stands at one, and says itself when it goes on
    std::uint64_t since = 0;  // the step
    std::uint64_t passed_over = 0;
  };
  class SimWorker final : public Worker {
   public:
    explicit SimWorker(Engine& engine) noexcept : Worker(engine, true), engine_(engine) {}
    using Worker::budget_;
    using Worker::ready_;

   private:
    Task* take_next(std::uint8_t at_least) noexcept override;
    bool wants_forks() const noexcept override;
    void put_back(Task& task) noexcept override { engine_.put_back(task); }
    Engine& engine_;
  };

  void reset(const RunOptions& options);
  void drive();
  bool advance_time();
  void happen();
  void clear_outside();
  void stop_everything() noexcept;
  void put_back(Task& task) noexcept;
  [[nodiscard]] Task* pick_next() noexcept;
  [[nodiscard]] std::uint32_t decide_task(std::span<const Candidate> candidates,
                                          std::uint32_t yielder) noexcept;
  template <class Ask>
  std::uint32_t decide_by(Kind kind, std::uint32_t n, Ask ask);
  void goes_on(const Candidate& candidate, const char* what, std::uint64_t object) noexcept;
  void check_limits() noexcept;
  void count_passes() noexcept;
  void check_monitors() noexcept;
  void check_races() noexcept;
  void give_up(Task& task) noexcept;
  void does_not_fit(const Choice& on_tape, Kind kind, std::uint32_t n);
  [[nodiscard]] std::uint64_t number_of(const Point& point) noexcept;
  [[nodiscard]] static Candidate silent(const Task& task) noexcept;
  [[nodiscard]] Task* take(std::size_t index) noexcept;
  [[nodiscard]] std::optional<std::size_t> left_out() const noexcept;
  void add(Ready ready) noexcept;
  [[nodiscard]] bool stands_still(const Task& task) const noexcept;

  const EngineOptions options_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::unique_ptr<Kernel> kernel_;
  Timeline timeline_;
  SimWorker worker_;

  // Of the current run
  RunOptions run_;
  Run result_;
  std::optional<Failure> failure_;
  std::exception_ptr tape_error_;
  Instant now_{};
  std::uint64_t last_tid_ = 0;
  std::uint64_t first_object_ = 0;  // ids above this are of this run
  std::unordered_map<const void*, std::uint64_t> addresses_;
  std::unordered_map<std::uint64_t, std::uint64_t> older_;  // objects, as they are met
  std::uint64_t last_address_ = 0;
  std::vector<Ready> ready_;  // oldest first
  std::vector<Ready> still_;  // could go on, but for their host
  std::vector<const Host*> still_hosts_;
  std::unordered_map<std::uint64_t, const Host*> host_of_task_;  // if there are any; by tid
  std::vector<Candidate> scratch_;
  std::optional<Ready> left_;  // what the task that leaves its stack will do when it is back
  Task* chosen_ = nullptr;     // to go on next
  std::uint64_t idle_steps_ = 0;
  std::uint64_t steps_after_end_ = 0;
  bool stopping_ = false;
  bool watching_ = false;  // a monitor is being asked
  int points_held_ = 0;
  bool broken_ = false;
  std::uint64_t races_before_ = 0;
  std::vector<const Monitor*> monitors_;
  std::unique_ptr<Universe> universe_;
  std::map<std::pair<Instant, std::uint64_t>, std::function<void()>> events_;  // by time, and order
  std::uint64_t last_event_ = 0;
  std::vector<Job*> jobs_;
  std::unordered_map<std::uint64_t, bool> buggy_;  // sites that are on in this run
};

}  // namespace weft::sim

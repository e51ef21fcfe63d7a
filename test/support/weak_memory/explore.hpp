/// Runs a few logical threads over checked atomics (atomics.hpp) in every way that the memory model
/// (memory.hpp) allows, and looks for a run that breaks a promise.
///
///     struct State { weak::Atomic<int> flag{0}; weak::Cell<int> data; };
///     Report report = explore<State>(
///         {},
///         {[](State& s) { s.data.set(1); s.flag.store(1, Order::release); },
///          [](State& s) { if (s.flag.load(Order::acquire) == 1) check(s.data.get() == 1, "data");
///          }},
///         [](State& s) { /* after all threads, sees everything */ });
///     EXPECT_TRUE(report.proven()) << report.text();
///
/// A violation is a failed check(), a data race on a Cell, or a deadlock on locks. A report is
/// `proven` if there is none and nothing was cut short.
///
/// What is explored. A run is determined by what each load reads and where each store enters the
/// modification order; in which order the operations were executed does not matter otherwise. So
/// threads are not interleaved. A thread goes on until it ends or *waits*: at each load it reads a
/// value that is there, or waits for one that is not there yet and will then read one that is new.
/// While it waits the next thread goes on, in a fixed order. Every run of the model is met exactly
/// once (its loads wait if and only if what they read has not been written yet), besides runs that
/// wait for what never comes, which are dropped. To keep these few, one waits for a location only
/// if a thread could still write it: if it was ever seen to write it more often than it has in this
/// run. When a run teaches something new about that, everything begins again; in the end all
/// writes are known, because a run up to an unknown write needs none.
///
/// The state is made anew for every run; the search is depth first, each run repeats the choices
/// of the one before up to the last that had an alternative. What a thread does must therefore
/// depend on nothing but what it reads. Ghost state (plain variables for bookkeeping) may be
/// written by all if the order does not matter, like sums. Threads must own nothing (no
/// std::vector): a run may be given up in the middle.
#pragma once

#include <weft/stack/strand.hpp>

#include "support/weak_memory/memory.hpp"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#if defined(WEFT_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace weft::test::weak {

/// A place in the source where an atomic is used.
struct Site {
  std::string file{};
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::string operation{};
  Order order = Order::relaxed;
  bool operator==(const Site&) const = default;
};

/// A fault to plant there (mutate.hpp).
struct Fault {
  Site site{};
  Order order = Order::relaxed;  // instead of the one that is written there
  bool split = false;            // a compare-exchange becomes a load and a store
};

struct Options {
  std::size_t most_runs = 20'000'000;
  std::size_t most_steps = 200;  // of one thread in one run
  Fault fault{};
  std::vector<Site>* sites = nullptr;  // if set: collects the places that are reached
};

struct Report {
  std::size_t runs = 0;     // all, including
  std::size_t dropped = 0;  //   those that waited in vain, or have no order S of seq_cst operations
  std::size_t cut = 0;      //   those that were too long
  std::size_t found = 0;    // different complete runs
  bool complete = false;    // everything was explored
  std::string violation{};
  std::string trace{};  // what led to it

  [[nodiscard]] bool proven() const { return complete && cut == 0 && violation.empty(); }
  [[nodiscard]] std::string text() const {
    return (violation.empty() ? std::string(proven() ? "proven" : "not completed") : violation) +
           " (" + std::to_string(found) + " ways in " + std::to_string(runs) + " runs, " +
           std::to_string(cut) + " too long)\n" + trace;
  }
};

/// Tells AddressSanitizer that nothing lives on a stack any more.
inline void forget_frames([[maybe_unused]] void* stack, [[maybe_unused]] std::size_t size) {
#if defined(WEFT_ASAN)
  __asan_unpoison_memory_region(stack, size);
#endif
}

/// Which values an operation can read.
struct Want {
  enum class Kind : std::uint8_t { load, modify, compare, lock } kind = Kind::load;
  std::uint8_t at = 0;
  std::uint64_t expected = 0;

  [[nodiscard]] bool accepts(const Location& location, std::size_t rank) const {
    const bool equal = location.messages[rank].value == expected;
    switch (kind) {
      case Kind::load:
        return true;
      case Kind::modify:
        return location.may_insert_after(rank);
      case Kind::compare:
        return !equal || location.may_insert_after(rank);
      case Kind::lock:
        return equal && location.may_insert_after(rank);
    }
    return false;
  }
};

class Execution;
inline Execution* execution = nullptr;  // the one that runs; a process explores one at a time

class Execution {
 public:
  using Bodies = std::vector<std::function<void()>>;

  explicit Execution(const Options& options) : options_(options) {
    thread_ = stack::ThreadState::capture();
    stack::adopt_thread(home_.sanitizer);
  }
  ~Execution() {
    for (Thread& thread : threads_) {
      if (thread.begun) stack::end_strand(thread.strand.sanitizer);
    }
  }
  Execution(const Execution&) = delete;
  Execution& operator=(const Execution&) = delete;

  /// One run. `setup` makes the state.
  template <class Setup, class Finish>
  void run(const Setup& setup, const Bodies& bodies, const Finish& finish) {
    memory_.reset();
    depth_ = 0;
    over_ = false;
    setup();
    begin(bodies);
    while (!over_) {
      running_ = pick_thread(bodies.size());
      if (running_ == 0) break;
      stack::switch_strand(home_, threads_[running_].strand, thread_, this);
      running_ = 0;
    }
    if (over_) return;
    ++report_.found;
    for (std::size_t i = 1; i <= bodies.size(); ++i) memory_.join(i);
    finish();
  }

  /// Goes back to the last choice that has an alternative. False: there is none.
  bool backtrack() {
    choices_.resize(depth_);
    if (learned_) {
      learned_ = false;
      report_.found = 0;
      choices_.clear();
      return true;
    }
    while (!choices_.empty() && choices_.back().picked + 1 == choices_.back().of) {
      choices_.pop_back();
    }
    if (choices_.empty()) return false;
    ++choices_.back().picked;
    return true;
  }

  /// For the run to be shown: the same choices again, and say what happens.
  void start_trace() { tracing_ = true; }

  [[nodiscard]] std::size_t choose(std::size_t of) {
    if (of <= 1) return 0;
    if (depth_ == choices_.size()) choices_.push_back({0, of});
    return choices_[depth_++].picked;
  }
  /// The rank of the value to be read, maybe after waiting for it.
  [[nodiscard]] std::size_t choose_read(const Want& want);
  /// The rank of the value to be written after.
  [[nodiscard]] std::size_t choose_place(std::uint8_t at);

  /// Every operation ends here.
  void done() {
    if (running_ == 0) return;
    memory_.tick(running_);
    if (!memory_.possible() || somebody_waits_in_vain()) drop();
    if (++threads_[running_].steps > options_.most_steps) {
      ++report_.cut;
      give_up();
    }
  }
  void wrote(std::uint8_t at) {
    if (running_ == 0) return;
    std::uint8_t& now = writes_[running_][at];
    std::uint8_t& most = most_writes_[running_][at];
    if (++now <= most) return;
    most = now;
    learned_ = true;
  }
  /// A compare-exchange that could succeed, if others had not yet gone on to read-modify-write what
  /// it expects: they must know that it wants to.
  void might_write(std::uint8_t at, std::uint64_t expected) {
    if (running_ == 0) return;
    const Location& location = memory_.location(at);
    const auto next = static_cast<std::uint8_t>(writes_[running_][at] + 1);
    if (next <= most_writes_[running_][at]) return;
    for (std::size_t i = memory_.oldest_readable(running_, at); i < location.count; ++i) {
      if (location.messages[i].value != expected) continue;
      most_writes_[running_][at] = next;
      learned_ = true;
      return;
    }
  }
  /// To be followed by give_up(), as a statement of its own: that leaves the thread's stack for
  /// good, and what lies on it then is never freed.
  void blame(const std::string& why) {
    if (report_.violation.empty()) report_.violation = why;
    note("violation: " + why);
  }

  void give_up() {
    over_ = true;
    if (running_ == 0) return;
    stack::switch_strand(threads_[running_].strand, home_, thread_, nullptr);
  }

  [[nodiscard]] bool tracing() const { return tracing_; }
  void note(const std::string& text) {
    if (tracing_) report_.trace += "  thread " + std::to_string(running_) + "  " + text + "\n";
  }

  [[nodiscard]] std::size_t running() const { return running_; }
  [[nodiscard]] Memory& memory() { return memory_; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] Report& report() { return report_; }

 private:
  static constexpr std::size_t stack_size = std::size_t{64} << 10;

  struct Thread {
    std::unique_ptr<std::byte[]> stack;
    stack::Strand strand;
    const std::function<void()>* body = nullptr;
    std::size_t steps = 0;
    Want want{};            // what it waits for
    std::size_t since = 0;  // only what was written since then will do
    bool waits = false;
    bool begun = false;
    bool finished = false;
  };
  struct Choice {
    std::size_t picked;
    std::size_t of;
  };
  using Ranks = std::array<std::size_t, most_messages>;

  void begin(const Bodies& bodies);
  static void thread_main(void* self);
  [[nodiscard]] std::size_t pick_thread(std::size_t count);
  [[nodiscard]] std::size_t candidates(std::size_t thread, const Want& want, std::size_t since,
                                       Ranks& ranks) const;
  [[nodiscard]] bool others_may_write(std::size_t thread, std::uint8_t at) const;
  [[nodiscard]] bool others_can_go_on() const;
  [[nodiscard]] bool somebody_waits_in_vain() const;
  void drop() {
    ++report_.dropped;
    give_up();
  }
  Options options_;
  Report report_;
  Memory memory_;
  std::array<Thread, most_threads> threads_;
  stack::Strand home_;
  stack::ThreadState thread_;
  std::vector<Choice> choices_;
  std::size_t depth_ = 0;    // choices made in this run
  std::size_t running_ = 0;  // the thread that runs; 0: setup, scheduling, and the end
  std::array<std::array<std::uint8_t, most_locations>, most_threads> writes_{};
  std::array<std::array<std::uint8_t, most_locations>, most_threads> most_writes_{};
  bool learned_ = false;  // most_writes_ has grown
  bool over_ = false;     // this run was given up
  bool tracing_ = false;
};

inline void Execution::begin(const Bodies& bodies) {
  writes_ = {};
  for (std::size_t i = 1; i <= bodies.size(); ++i) {
    memory_.fork(i);
    Thread& thread = threads_[i];
    if (thread.stack == nullptr) thread.stack = std::make_unique<std::byte[]>(stack_size);
    // A run that was given up left frames behind, which the sanitizers remember.
    if (thread.begun) stack::end_strand(thread.strand.sanitizer);
    forget_frames(thread.stack.get(), stack_size);
    thread.strand = {};
    stack::begin_strand(thread.strand.sanitizer, thread.stack.get(), stack_size);
    thread.strand.context = stack::make_context(thread.stack.get() + stack_size, &thread_main);
    thread.body = &bodies[i - 1];
    thread.steps = 0;
    thread.begun = true;
    thread.waits = thread.finished = false;
  }
}

inline void Execution::thread_main(void* self) {
  auto& run = *static_cast<Execution*>(self);
  Thread& me = run.threads_[run.running_];
  stack::after_switch(me.strand.sanitizer);
  (*me.body)();
  me.finished = true;
  stack::switch_strand(me.strand, run.home_, run.thread_, nullptr);
}

/// 0: nobody can go on; all have finished, or the run is over.
inline std::size_t Execution::pick_thread(std::size_t count) {
  Ranks ranks;
  bool all_finished = true;
  bool all_locked_out = true;
  for (std::size_t i = 1; i <= count; ++i) {
    const Thread& thread = threads_[i];
    if (thread.finished) continue;
    if (!thread.waits || candidates(i, thread.want, thread.since, ranks) > 0) return i;
    all_finished = false;
    all_locked_out &= candidates(i, thread.want, 0, ranks) == 0;
  }
  if (all_finished) return 0;
  if (all_locked_out) {
    blame("deadlock");
    give_up();
  } else {
    drop();
  }
  return 0;
}

inline std::size_t Execution::candidates(std::size_t thread, const Want& want, std::size_t since,
                                         Ranks& ranks) const {
  const Location& location = memory_.location(want.at);
  const std::size_t oldest = memory_.oldest_readable(thread, want.at);
  std::size_t count = 0;
  for (std::size_t rank = location.count; rank-- > oldest;) {
    const bool is_new = location.messages[rank].time >= since;
    if (is_new && want.accepts(location, rank)) ranks[count++] = rank;
  }
  return count;
}

inline bool Execution::others_may_write(std::size_t thread, std::uint8_t at) const {
  for (std::size_t i = 1; i < most_threads; ++i) {
    if (i == thread || !threads_[i].begun || threads_[i].finished) continue;
    if (writes_[i][at] < most_writes_[i][at]) return true;
  }
  return false;
}

inline bool Execution::others_can_go_on() const {
  Ranks ranks;
  for (std::size_t i = 1; i < most_threads; ++i) {
    const Thread& thread = threads_[i];
    if (i == running_ || !thread.begun || thread.finished) continue;
    if (!thread.waits || candidates(i, thread.want, thread.since, ranks) > 0) return true;
  }
  return false;
}

/// Not for the want of a lock: that may be a deadlock.
inline bool Execution::somebody_waits_in_vain() const {
  Ranks ranks;
  for (std::size_t i = 1; i < most_threads; ++i) {
    const Thread& thread = threads_[i];
    if (!thread.begun || thread.finished || !thread.waits) continue;
    if (others_may_write(i, thread.want.at)) continue;
    if (candidates(i, thread.want, thread.since, ranks) > 0) continue;
    if (candidates(i, thread.want, 0, ranks) > 0) return true;
  }
  return false;
}

inline std::size_t Execution::choose_read(const Want& want) {
  Thread& me = threads_[running_];
  Ranks ranks;
  me.since = 0;
  for (;;) {
    const std::size_t count = candidates(running_, want, me.since, ranks);
    const bool may_wait =
        running_ != 0 &&
        (count == 0 || (others_may_write(running_, want.at) && others_can_go_on()));
    const std::size_t pick = choose(count + (may_wait ? 1 : 0));
    if (pick < count) return ranks[pick];
    me.want = want;
    me.since = memory_.time();
    me.waits = true;
    stack::switch_strand(me.strand, home_, thread_, nullptr);
    me.waits = false;
  }
}

inline std::size_t Execution::choose_place(std::uint8_t at) {
  Ranks ranks;
  const Want want{.kind = Want::Kind::modify, .at = at, .expected = 0};
  return ranks[choose(candidates(running_, want, 0, ranks))];
}

/// In a thread, or at the end: what must hold.
inline void check(bool holds, const char* what) {
  if (holds) return;
  execution->blame(std::string("check failed: ") + what);
  execution->give_up();
}

/// Explores all runs of `threads`, each on one State, with `finish` after them.
template <class State>
Report explore(const Options& options, const std::vector<std::function<void(State&)>>& threads,
               const std::function<void(State&)>& finish) {
  // At one address for all runs: addresses are values.
  alignas(State) static std::array<std::byte, sizeof(State)> storage;
  auto* state = reinterpret_cast<State*>(storage.data());
  Execution::Bodies bodies;
  for (const auto& thread : threads) bodies.push_back([&thread, state] { thread(*state); });
  Execution run(options);
  execution = &run;
  auto once = [&] {
    run.run([&] { new (storage.data()) State; }, bodies, [&] { finish(*state); });
    state->~State();
  };
  Report& report = run.report();
  do {
    ++report.runs;
    once();
    if (!report.violation.empty()) {
      run.start_trace();
      once();
      break;
    }
    report.complete = !run.backtrack();
  } while (!report.complete && report.runs < options.most_runs);
  execution = nullptr;
  return report;
}

}  // namespace weft::test::weak

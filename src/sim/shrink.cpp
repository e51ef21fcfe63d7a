#include "sim/explorer.hpp"

#include <algorithm>
#include <iterator>

namespace weft::sim {

namespace {

// Of all runs together: some seconds.
constexpr std::uint64_t most_steps = 10'000'000;
constexpr std::uint64_t most_steps_for_few = 3'000'000;
// Beyond that, moving stretches about takes too long for what it gives.
constexpr std::size_t most_stretches = 400;

/// A stretch of steps of one task.
struct Stretch {
  std::uint32_t tid;
  std::uint64_t steps;
};

/// Lets tasks go on in stretches, as far as they can. What is not about tasks comes from a list.
/// Unlike a tape it still means the same when something before has been left out.
class Stretches final : public Strategy {
 public:
  Stretches(const std::vector<Stretch>& stretches, const std::vector<Choice>& others)
      : stretches_(stretches), others_(others) {}
  std::string name() const override { return "stretches"; }
  void begin(std::uint64_t /*seed*/, const Profile& /*profile*/) override {}
  std::uint32_t pick(std::span<const Candidate> candidates, std::uint32_t /*yielder*/) override {
    for (; at_ < stretches_.size(); next()) {
      const auto it = std::ranges::find(candidates, stretches_[at_].tid, &Candidate::tid);
      if (it != candidates.end()) return static_cast<std::uint32_t>(it - candidates.begin());
    }
    return 0;
  }
  void goes_on(const Candidate& candidate) override {
    if (at_ < stretches_.size() && stretches_[at_].tid == candidate.tid &&
        ++done_ == stretches_[at_].steps) {
      next();
    }
  }
  std::uint32_t choose(Kind /*kind*/, std::uint32_t n) override {
    const std::uint32_t taken = other_ < others_.size() ? others_[other_++].taken : 0;
    return taken < n ? taken : 0;
  }

 private:
  void next() {
    ++at_;
    done_ = 0;
  }
  const std::vector<Stretch>& stretches_;
  const std::vector<Choice>& others_;
  std::size_t at_ = 0;
  std::uint64_t done_ = 0;
  std::size_t other_ = 0;
};

class Shrinker {
 public:
  Shrinker(Explorer& explorer, Tape tape, const Failure& failure)
      : explorer_(explorer), failure_(failure), best_(std::move(tape)) {
    try_tape(best_);  // how many steps does it take? And: it is the tape of what happens, exactly
  }

  Shrunk run() {
    zero_kinds();
    for (bool better = true; better && time_left();) {
      better = false;
      better |= fewer_stretches();
      better |= cut_tail();
      better |= without(&Shrinker::zero);
      better |= without(&Shrinker::erase);
      better |= smaller_numbers();
    }
    few_edits();
    Shrunk shrunk{.tape = best_, .nearest = {}, .choice = 0};
    find_nearest(shrunk);
    return shrunk;
  }

 private:
  using Edit = Tape (*)(Tape, std::size_t, std::size_t);

  [[nodiscard]] bool time_left() const noexcept { return steps_ < most_steps; }
  bool try_tape(const Tape& tape) { return try_run({.tape = &tape}); }
  /// Does it fail in the same way, and is it plainer?
  bool try_run(const RunOptions& how) {
    Run run = explorer_.once(how);
    steps_ += run.steps;
    if (!run.failure || !run.failure->same_as(failure_)) return false;
    const std::pair<std::size_t, std::uint64_t> cost{run.tape.edits(), run.steps};
    if (cost >= cost_) return false;
    cost_ = cost;
    // What really happened: without what was not used, and with numbers that fit.
    best_.choices = std::move(run.tape.choices);
    best_.hash = run.hash;
    return true;
  }

  /// With one edit, then two, then three, wherever they may be: as long as that is quick. First
  /// among what the test itself and the outside choose, which is little and says much.
  void few_edits() {
    using Wanted = bool (*)(Kind);
    constexpr Wanted kinds[] = {
        [](Kind kind) { return kind == Kind::user || kind == Kind::fault; },
        [](Kind kind) { return kind == Kind::task; },
        [](Kind) { return true; },
    };
    for (const Wanted wanted : kinds) {
      const std::uint64_t until = steps_ + most_steps_for_few;
      for (std::size_t edits = 1; edits <= 3 && edits < best_.edits(); ++edits) {
        if (edit_plain({}, 0, edits, wanted, until)) return;
      }
    }
  }
  /// All plain but for what `tape` has, and `edits` more of them from `from` on.
  bool edit_plain(const Tape& tape, std::size_t from, std::size_t edits, bool (*wanted)(Kind),
                  std::uint64_t until) {
    const Run run = explorer_.once({.tape = &tape});
    steps_ += run.steps;
    const std::vector<Choice>& made = run.tape.choices;
    for (std::size_t i = from; i < made.size(); ++i) {
      if (!wanted(made[i].kind)) continue;
      Tape other;
      other.choices.assign(made.begin(), made.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      for (std::uint32_t taken = 1; taken < made[i].among; ++taken) {
        if (steps_ > until) return false;
        other.choices[i].taken = taken;
        if (edits == 1 ? try_tape(other) : edit_plain(other, i + 1, edits - 1, wanted, until)) {
          return true;
        }
      }
    }
    return false;
  }

  /// Everything of one kind at once: most delays do not matter, say.
  void zero_kinds() {
    for (const Kind kind : {Kind::delay, Kind::select, Kind::fault, Kind::task, Kind::user}) {
      Tape plainer = best_;
      for (Choice& c : plainer.choices) {
        if (c.kind == kind) c.taken = 0;
      }
      try_tape(plainer);
    }
  }

  /// Tasks go on for longer before somebody else does.
  bool fewer_stretches() {
    bool better = false;
    for (bool again = true; again && time_left();) {
      again = false;
      std::vector<Stretch> all;
      for (const Event& e : explorer_.once({.tape = &best_, .trace = true}).events) {
        if (all.empty() || all.back().tid != e.tid) all.push_back({.tid = e.tid, .steps = 0});
        ++all.back().steps;
      }
      std::vector<Choice> others;
      std::ranges::copy_if(best_.choices, std::back_inserter(others),
                           [](const Choice& c) { return c.kind != Kind::task; });
      if (all.size() > most_stretches) return better;
      for (std::size_t i = 0; i < all.size() && !again && time_left(); ++i) {
        const auto later = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end(),
                                        [&](const Stretch& s) { return s.tid == all[i].tid; });
        if (later == all.end()) continue;
        again = try_stretches(joined(all, i, static_cast<std::size_t>(later - all.begin()), true),
                              others) ||
                try_stretches(joined(all, i, static_cast<std::size_t>(later - all.begin()), false),
                              others);
      }
      better |= again;
    }
    return better;
  }
  bool try_stretches(const std::vector<Stretch>& stretches, const std::vector<Choice>& others) {
    Stretches strategy(stretches, others);
    return try_run({.strategy = &strategy});
  }
  /// Two of the same task as one, in the place of the first or of the second.
  static std::vector<Stretch> joined(std::vector<Stretch> all, std::size_t first,
                                     std::size_t second, bool early) {
    all[early ? first : second].steps += all[early ? second : first].steps;
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(early ? second : first));
    return all;
  }

  bool cut_tail() {
    bool better = false;
    for (std::size_t size = best_.choices.size() / 2; size > 0 && time_left(); size /= 2) {
      while (best_.choices.size() > size && time_left()) {
        Tape shorter = best_;
        shorter.choices.resize(best_.choices.size() - size);
        if (!try_tape(shorter)) break;
        better = true;
      }
    }
    return better;
  }

  static Tape zero(Tape tape, std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) tape.choices[i].taken = 0;
    return tape;
  }
  static Tape erase(Tape tape, std::size_t from, std::size_t to) {
    const auto begin = tape.choices.begin();
    tape.choices.erase(begin + static_cast<std::ptrdiff_t>(from),
                       begin + static_cast<std::ptrdiff_t>(to));
    return tape;
  }

  /// In ever smaller pieces, from the end.
  bool without(Edit edit) {
    bool better = false;
    for (std::size_t size = std::max<std::size_t>(best_.choices.size() / 2, 1);; size /= 2) {
      for (std::size_t end = best_.choices.size(); end > 0 && time_left();) {
        const std::size_t from = end > size ? end - size : 0;
        if (has_edits(from, end) && try_tape(edit(best_, from, end))) {
          better = true;
          end = std::min(from, best_.choices.size());
        } else {
          end = from;
        }
      }
      if (size <= 1 || !time_left()) return better;
    }
  }
  [[nodiscard]] bool has_edits(std::size_t from, std::size_t to) const {
    for (std::size_t i = from; i < to; ++i) {
      if (best_.choices[i].taken != 0) return true;
    }
    return false;
  }

  bool smaller_numbers() {
    bool better = false;
    for (std::size_t i = 0; i < best_.choices.size() && time_left(); ++i) {
      while (i < best_.choices.size() && best_.choices[i].taken > 1 && time_left()) {
        Tape tape = best_;
        --tape.choices[i].taken;
        if (!try_tape(tape)) break;
        better = true;
      }
    }
    return better;
  }

  /// The last choice that is not plain, and matters.
  void find_nearest(Shrunk& shrunk) {
    const std::uint64_t until = steps_ + most_steps_for_few;
    for (std::size_t i = best_.choices.size(); i-- > 0 && steps_ < until;) {
      if (best_.choices[i].taken == 0) continue;
      const Tape other = zero(best_, i, i + 1);
      Run run = explorer_.once({.tape = &other});
      steps_ += run.steps;
      if (run.failure) continue;
      shrunk.nearest = other;
      shrunk.nearest.choices = std::move(run.tape.choices);
      shrunk.choice = i;
      return;
    }
  }

  Explorer& explorer_;
  const Failure& failure_;
  Tape best_;
  std::pair<std::size_t, std::uint64_t> cost_{~std::size_t{0}, ~std::uint64_t{0}};
  std::uint64_t steps_ = 0;  // of all tries
};

}  // namespace

Shrunk shrink(Explorer& explorer, const Tape& tape, const Failure& failure) {
  return Shrinker(explorer, tape, failure).run();
}

}  // namespace weft::sim

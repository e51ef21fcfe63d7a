/// Linearizability: is there an order of the operations, one at a time, that explains what each of
/// them gave, and in which none comes before one that had ended when it began?
///
///     Recorder recorder(tasks);
///     recorder.run(task, kind, argument, [&] { return channel.try_recv().value_or(none); });
///     EXPECT_TRUE(linearizable(recorder.history(), QueueModel{...}));
///
/// The search takes any operation that could come next, lets the model say whether its result is
/// right there, and goes back if it gets stuck; states that were a dead end once are not entered
/// again. It is exponential at worst; histories of a few dozen operations take microseconds.
///
/// A model is a value: `bool apply(const Call&)` changes it and says whether the result was right,
/// `std::string key() const` tells states apart.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::test {

struct Call {
  int kind = 0;
  int argument = 0;
  int result = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Each task notes its own calls; one clock for all.
class Recorder {
 public:
  explicit Recorder(std::size_t tasks) : calls_(tasks) {}

  [[nodiscard]] std::uint64_t tick() { return clock_.fetch_add(1) + 1; }
  void note(std::size_t task, Call call) {
    call.end = tick();
    calls_[task].push_back(call);
  }
  [[nodiscard]] std::vector<Call> history() const {
    std::vector<Call> all;
    for (const auto& calls : calls_) all.insert(all.end(), calls.begin(), calls.end());
    return all;
  }

 private:
  std::atomic<std::uint64_t> clock_{0};
  std::vector<std::vector<Call>> calls_;
};

namespace detail {

template <class Model>
class Search {
 public:
  explicit Search(const std::vector<Call>& history) : history_(history) {}

  bool from(const Model& model, std::vector<bool>& done, std::size_t left) {
    if (left == 0) return true;
    std::string here = model.key() + '|';
    for (const bool d : done) here += d ? '1' : '0';
    if (!seen_.insert(std::move(here)).second) return false;
    std::uint64_t first_end = ~std::uint64_t{0};
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (!done[i]) first_end = std::min(first_end, history_[i].end);
    }
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (done[i] || history_[i].begin > first_end) continue;
      Model next = model;
      if (!next.apply(history_[i])) continue;
      done[i] = true;
      if (from(next, done, left - 1)) return true;
      done[i] = false;
    }
    return false;
  }

 private:
  const std::vector<Call>& history_;
  std::set<std::string> seen_;
};

}  // namespace detail

template <class Model>
[[nodiscard]] bool linearizable(const std::vector<Call>& history, const Model& model) {
  std::vector<bool> done(history.size());
  return detail::Search<Model>(history).from(model, done, history.size());
}

}  // namespace weft::test

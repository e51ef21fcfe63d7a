/// Linearizability: is there an order of the calls, one at a time, that explains what each of them
/// gave, and in which none comes before one that had ended when it began?
///
///     struct Call {                       // what was asked, what came of it, and when
///       bool write; int value;
///       std::uint64_t begin, end;
///     };
///     sim::History<Call> history;
///     Call call{.write = true, .value = 7, .begin = history.tick()};
///     if (store(7)) history.note(call); else history.unknown(call);
///
///     struct Register {                   // what it should be like
///       int value = 0;
///       bool apply(const Call& c) { return c.write ? (value = c.value, true) : value == c.value; }
///       std::string key() const { return std::to_string(value); }
///     };
///     sim::check(linearizable(history.calls(), Register{}), "one after the other");
///
/// A model is a value: apply() changes it and says whether the result was right, key() tells states
/// apart. A call of which nobody knows whether it has happened (a time-out, a broken connection)
/// may have, at any time after it began, or not.
///
/// The search takes any call that could come next, lets the model say whether its result is right
/// there, and goes back if it gets stuck; states that were a dead end once are not entered again.
/// It is exponential at worst; histories of a few dozen calls take microseconds.
#pragma once

#include <weft/base/spinlock.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft::sim {

inline constexpr std::uint64_t end_unknown = ~std::uint64_t{0};

/// Who did what, by one clock. From any task or thread.
template <class Call>
class History {
 public:
  /// For Call::begin, before the call.
  [[nodiscard]] std::uint64_t tick() noexcept { return clock_.fetch_add(1) + 1; }
  /// It has ended, now.
  void note(Call call) {
    call.end = tick();
    add(std::move(call));
  }
  /// It may have had its effect, or may have it later, or never.
  void unknown(Call call) {
    call.end = end_unknown;
    add(std::move(call));
  }
  [[nodiscard]] std::vector<Call> calls() const {
    std::lock_guard guard(lock_);
    return calls_;
  }

 private:
  void add(Call call) {
    std::lock_guard guard(lock_);
    calls_.push_back(std::move(call));
  }
  std::atomic<std::uint64_t> clock_{0};
  mutable Spinlock lock_;
  std::vector<Call> calls_;  // under lock_
};

namespace detail {

template <class Call, class Model>
class LinearSearch {
 public:
  explicit LinearSearch(const std::vector<Call>& history) : history_(history) {}

  /// `left`: calls whose end is known, and that have no place yet.
  bool from(const Model& model, std::vector<bool>& done, std::size_t left) {
    if (left == 0) return true;
    std::string here = model.key() + '|';
    for (const bool d : done) here += d ? '1' : '0';
    if (!seen_.insert(std::move(here)).second) return false;
    std::uint64_t first_end = end_unknown;
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (!done[i]) first_end = std::min(first_end, history_[i].end);
    }
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (done[i] || history_[i].begin > first_end) continue;
      Model next = model;
      if (!next.apply(history_[i])) continue;
      done[i] = true;
      if (from(next, done, left - (history_[i].end == end_unknown ? 0 : 1))) return true;
      done[i] = false;
    }
    return false;
  }

 private:
  const std::vector<Call>& history_;
  std::set<std::string> seen_;
};

}  // namespace detail

template <class Call, class Model>
[[nodiscard]] bool linearizable(const std::vector<Call>& history, const Model& model) {
  std::vector<bool> done(history.size());
  const auto known = static_cast<std::size_t>(
      std::ranges::count_if(history, [](const Call& call) { return call.end != end_unknown; }));
  return detail::LinearSearch<Call, Model>(history).from(model, done, known);
}

}  // namespace weft::sim

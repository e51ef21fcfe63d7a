#include <weft/sim/strategy.hpp>

#include "sim/exhaustive.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>
#include <unordered_map>

namespace weft::sim {

bool conflict(const Candidate& a, const Candidate& b) noexcept {
  if (a.silent && b.silent) return false;
  if (a.silent || b.silent) return (a.silent ? b : a).object == 0;
  if (a.object != 0 && b.object != 0 && a.object != b.object) return false;
  return a.access == Access::write || b.access == Access::write;
}

namespace {

/// Draws whatever it has no opinion on.
class Drawing : public Strategy {
 public:
  void begin(std::uint64_t seed, const Profile& /*profile*/) override { rng_ = Rng(seed); }
  std::uint32_t choose(Kind /*kind*/, std::uint32_t n) override { return rng_.below(n); }

 protected:
  Rng rng_{0};
};

class Fifo final : public Strategy {
 public:
  std::string name() const override { return "fifo"; }
  void begin(std::uint64_t /*seed*/, const Profile& /*profile*/) override {}
  std::uint32_t pick(std::span<const Candidate> candidates, std::uint32_t) override {
    const auto most = std::ranges::max_element(candidates, {}, &Candidate::priority);
    return static_cast<std::uint32_t>(most - candidates.begin());
  }
  std::uint32_t choose(Kind /*kind*/, std::uint32_t /*n*/) override { return 0; }
  bool end() override { return false; }
};

class Random final : public Drawing {
 public:
  std::string name() const override { return "random"; }
  std::uint32_t pick(std::span<const Candidate> candidates, std::uint32_t) override {
    return rng_.below(static_cast<std::uint32_t>(candidates.size()));
  }
};

/// Something about each task, by tid. Tids are small and dense.
template <class T>
class ByTask {
 public:
  void clear() { values_.clear(); }
  T& operator[](std::uint32_t tid) {
    if (tid >= values_.size()) values_.resize(tid + 8);
    return values_[tid];
  }

 private:
  std::vector<T> values_;
};

class Pct final : public Drawing {
 public:
  explicit Pct(std::uint32_t depth) : depth_(depth) {}
  std::string name() const override { return "pct:" + std::to_string(depth_); }
  void begin(std::uint64_t seed, const Profile& profile) override {
    Drawing::begin(seed, profile);
    priorities_.clear();
    step_ = 0;
    lowest_ = depth_;
    changes_.clear();
    const auto steps =
        static_cast<std::uint32_t>(std::clamp<std::uint64_t>(profile.steps, 1, 0xffffffff));
    for (std::uint32_t i = 1; i < depth_; ++i) changes_.push_back(rng_.below(steps) + 1);
  }
  std::uint32_t pick(std::span<const Candidate> candidates, std::uint32_t yielder) override {
    // Who yields waits for somebody: it goes behind everybody else.
    if (yielder != 0) priorities_[yielder] = below_all();
    std::uint32_t best = highest(candidates);
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (changes_[i] > step_ + 1) continue;
      changes_[i] = ~std::uint32_t{0};
      priorities_[candidates[best].tid] = static_cast<std::int64_t>(i + 1) - depth_;
      best = highest(candidates);
    }
    return best;
  }
  void goes_on(const Candidate&) override { ++step_; }

 private:
  std::uint32_t highest(std::span<const Candidate> candidates) {
    std::uint32_t best = 0;
    for (std::uint32_t i = 0; i < candidates.size(); ++i) {
      if (priority(candidates[i].tid) > priority(candidates[best].tid)) best = i;
    }
    return best;
  }
  std::int64_t priority(std::uint32_t tid) {
    std::int64_t& p = priorities_[tid];
    if (p == 0) p = 1 + static_cast<std::int64_t>(rng_.next() >> 2);
    return p;
  }
  std::int64_t below_all() { return -static_cast<std::int64_t>(++lowest_); }

  const std::uint32_t depth_;
  std::uint64_t step_ = 0;
  std::uint64_t lowest_ = 0;
  std::vector<std::uint32_t> changes_;
  ByTask<std::int64_t> priorities_;  // 0: not drawn yet
};

class Pos final : public Drawing {
 public:
  std::string name() const override { return "pos"; }
  void begin(std::uint64_t seed, const Profile& profile) override {
    Drawing::begin(seed, profile);
    priorities_.clear();
  }
  std::uint32_t pick(std::span<const Candidate> candidates, std::uint32_t yielder) override {
    if (yielder != 0) priorities_.clear();  // who waits for somebody must not wait for ever
    std::uint32_t best = 0;
    for (std::uint32_t i = 0; i < candidates.size(); ++i) {
      if (priority(candidates[i].tid) > priority(candidates[best].tid)) best = i;
    }
    const Candidate& chosen = candidates[best];
    for (const Candidate& other : candidates) {
      if (other.tid != chosen.tid && conflict(chosen, other)) priorities_[other.tid] = 0;
    }
    return best;
  }
  void goes_on(const Candidate& candidate) override { priorities_[candidate.tid] = 0; }

 private:
  std::uint64_t priority(std::uint32_t tid) {
    std::uint64_t& p = priorities_[tid];
    if (p == 0) p = rng_.next() | 1;
    return p;
  }
  ByTask<std::uint64_t> priorities_;  // of what each will do next; 0: not drawn yet
};

class Surw final : public Drawing {
 public:
  std::string name() const override { return "surw"; }
  void begin(std::uint64_t seed, const Profile& profile) override {
    Drawing::begin(seed, profile);
    intended_ = 0;
    left_.clear();
    unborn_.clear();
    // One in so many runs everything matters.
    const auto shared = static_cast<std::uint32_t>(profile.shared_objects.size());
    const std::uint32_t drawn = rng_.below(shared + 1);
    object_ = drawn < shared ? profile.shared_objects[drawn] : 0;
    for (const auto& [tid, part] : profile.tasks) {
      std::uint32_t count = 0;
      for (const auto& [object, times] : part.touched) {
        if (object_ == 0 || object == object_) count += times;
      }
      left_[tid] = count;
      // Its ancestors stand for it until it is there.
      for (std::uint32_t up = part.parent; up != 0;) {
        unborn_[up] += count;
        const auto it = profile.tasks.find(up);
        up = it == profile.tasks.end() ? 0 : it->second.parent;
      }
    }
    profile_ = &profile;
    seen_.clear();
  }
  std::uint32_t pick(std::span<const Candidate> candidates, std::uint32_t) override {
    for (const Candidate& c : candidates) meet(c.tid);
    if (!can_be_waited_for(candidates)) intend(candidates);
    std::vector<std::uint32_t>& open = scratch_;
    open.clear();
    for (std::uint32_t i = 0; i < candidates.size(); ++i) {
      if (!matters(candidates[i]) || candidates[i].tid == intended_) open.push_back(i);
    }
    if (open.empty()) {
      intend(candidates);
      for (std::uint32_t i = 0; i < candidates.size(); ++i) {
        if (candidates[i].tid == intended_) return i;
      }
      return 0;
    }
    return open[rng_.below(static_cast<std::uint32_t>(open.size()))];
  }
  void goes_on(const Candidate& candidate) override {
    meet(candidate.tid);
    if (!matters(candidate)) return;
    std::uint32_t& left = left_[candidate.tid];
    if (left > 0) --left;
    if (candidate.tid == intended_) intended_ = 0;
  }

 private:
  [[nodiscard]] bool matters(const Candidate& c) const noexcept {
    return !c.silent && (object_ == 0 || c.object == object_);
  }
  /// A task that is there counts for itself from now on.
  void meet(std::uint32_t tid) {
    if (std::exchange(seen_[tid], true)) return;
    const auto it = profile_->tasks.find(tid);
    if (it == profile_->tasks.end()) return;
    const std::uint32_t count = left_[tid];
    for (std::uint32_t up = it->second.parent; up != 0;) {
      std::uint32_t& unborn = unborn_[up];
      unborn -= std::min(unborn, count);
      const auto next = profile_->tasks.find(up);
      up = next == profile_->tasks.end() ? 0 : next->second.parent;
    }
  }
  /// It may be blocked for now; then others must go on anyway.
  [[nodiscard]] bool can_be_waited_for(std::span<const Candidate> candidates) const noexcept {
    return intended_ != 0 && std::ranges::any_of(candidates, [this](const Candidate& c) {
             return c.tid == intended_;
           });
  }
  /// With a probability in proportion to what it has left to do.
  void intend(std::span<const Candidate> candidates) {
    std::uint64_t total = 0;
    for (const Candidate& c : candidates) total += weight(c.tid);
    std::uint64_t at = rng_.below(static_cast<std::uint32_t>(std::min<std::uint64_t>(total, ~0U)));
    for (const Candidate& c : candidates) {
      const std::uint64_t w = weight(c.tid);
      if (at < w) {
        intended_ = c.tid;
        return;
      }
      at -= w;
    }
    intended_ = candidates.back().tid;
  }
  std::uint64_t weight(std::uint32_t tid) {
    return std::max<std::uint64_t>(1, std::uint64_t{left_[tid]} + unborn_[tid]);
  }

  const Profile* profile_ = nullptr;
  std::uint64_t object_ = 0;      // the one that matters; 0: all do
  std::uint32_t intended_ = 0;    // who is to touch it next
  ByTask<std::uint32_t> left_;    // how often it still will, itself
  ByTask<std::uint32_t> unborn_;  // and those it will spawn
  ByTask<char> seen_;
  std::vector<std::uint32_t> scratch_;
};

class Portfolio final : public Strategy {
 public:
  Portfolio() {
    const auto add = [this](std::unique_ptr<Strategy> strategy, int shares) {
      parts_.push_back(std::move(strategy));
      for (int i = 0; i < shares; ++i) shares_.push_back(parts_.back().get());
    };
    add(std::make_unique<Surw>(), 4);
    add(std::make_unique<Pos>(), 2);
    add(std::make_unique<Pct>(3), 1);
    add(std::make_unique<Pct>(2), 1);
    add(std::make_unique<Random>(), 2);
  }
  std::string name() const override { return now_ == nullptr ? "portfolio" : now_->name(); }
  void begin(std::uint64_t seed, const Profile& profile) override {
    now_ = shares_[seed % shares_.size()];
    now_->begin(seed, profile);
  }
  std::uint32_t pick(std::span<const Candidate> candidates, std::uint32_t yielder) override {
    return now_->pick(candidates, yielder);
  }
  void goes_on(const Candidate& candidate) override { now_->goes_on(candidate); }
  std::uint32_t choose(Kind kind, std::uint32_t n) override { return now_->choose(kind, n); }

 private:
  std::vector<std::unique_ptr<Strategy>> parts_;
  std::vector<Strategy*> shares_;
  Strategy* now_ = nullptr;
};

std::optional<std::uint32_t> argument(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  const std::string_view digits = name.substr(prefix.size());
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  constexpr std::uint32_t most = 1'000;
  if (error != std::errc{} || end != digits.data() + digits.size() || value == 0 || value > most) {
    return std::nullopt;
  }
  return value;
}

}  // namespace

std::unique_ptr<Strategy> make_strategy(std::string_view name) {
  if (name == "fifo") return std::make_unique<Fifo>();
  if (name == "random") return std::make_unique<Random>();
  if (name == "pos") return std::make_unique<Pos>();
  if (name == "surw") return std::make_unique<Surw>();
  if (name == "exhaustive") return std::make_unique<Exhaustive>(true);
  if (name == "exhaustive:all") return std::make_unique<Exhaustive>(false);
  if (name == "portfolio" || name.empty()) return std::make_unique<Portfolio>();
  if (name == "pct") return std::make_unique<Pct>(3);
  if (const auto depth = argument(name, "pct:")) return std::make_unique<Pct>(*depth);
  throw std::invalid_argument(
      "no strategy is called '" + std::string(name) +
      "'; there are: fifo, random, pct:d (d from 1 to 1000), pos, surw, exhaustive, "
      "exhaustive:all, portfolio");
}

}  // namespace weft::sim

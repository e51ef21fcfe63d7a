#include "sim/exhaustive.hpp"

#include <algorithm>

namespace weft::sim {

void Exhaustive::begin(std::uint64_t /*seed*/, const Profile& /*profile*/) {
  depth_ = 0;
  asleep_.clear();
  redundant_ = false;
}

bool Exhaustive::sleeps(const std::vector<Candidate>& asleep, const Candidate& c) {
  return std::ranges::any_of(asleep, [&](const Candidate& a) { return a.tid == c.tid; });
}

std::uint32_t Exhaustive::next_awake(const Node& node, std::uint32_t from) const {
  while (from < node.count && !node.candidates.empty() &&
         sleeps(node.asleep, node.candidates[from])) {
    ++from;
  }
  return from;
}

// Those that were tried here before this one.
void Exhaustive::fall_asleep(const Node& node) {
  if (!reduce_) return;
  asleep_ = node.asleep;
  for (std::uint32_t i = 0; i < node.taken; ++i) {
    if (!sleeps(asleep_, node.candidates[i])) asleep_.push_back(node.candidates[i]);
  }
}

std::uint32_t Exhaustive::pick(std::span<const Candidate> candidates, std::uint32_t yielder) {
  if (redundant_) return 0;
  // Who yields could go on, but must not now: that those who sleep will be as well off later, which
  // is what sleeping rests on, does not hold here.
  if (yielder != 0) asleep_.clear();
  if (depth_ == stack_.size()) {
    Node node;
    node.count = static_cast<std::uint32_t>(candidates.size());
    node.candidates.assign(candidates.begin(), candidates.end());
    node.asleep = asleep_;
    node.taken = next_awake(node, 0);
    if (node.taken == node.count) {
      redundant_ = true;
      return 0;
    }
    stack_.push_back(std::move(node));
  }
  const Node& node = stack_[depth_++];
  if (node.count != candidates.size()) return static_cast<std::uint32_t>(candidates.size());
  fall_asleep(node);
  return node.taken;
}

// What it does may matter to those that sleep.
void Exhaustive::goes_on(const Candidate& candidate) {
  std::erase_if(asleep_, [&](const Candidate& a) {
    return a.tid == candidate.tid || conflict(a, candidate);
  });
}

std::uint32_t Exhaustive::choose(Kind /*kind*/, std::uint32_t n) {
  if (redundant_) return 0;
  if (depth_ == stack_.size()) {
    Node node;
    node.count = n;
    node.asleep = asleep_;
    stack_.push_back(std::move(node));
  }
  const Node& node = stack_[depth_++];
  return node.count == n ? node.taken : n;
}

bool Exhaustive::end() {
  while (!stack_.empty()) {
    Node& node = stack_.back();
    node.taken = next_awake(node, node.taken + 1);
    if (node.taken < node.count) return true;
    stack_.pop_back();
  }
  return false;
}

}  // namespace weft::sim

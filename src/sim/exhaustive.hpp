// All schedules, depth first. See sim/strategy.hpp.
//
// The stack holds the choices of the current run, each with what has been tried there already. The
// next run repeats them up to the last one where something is left to try.
//
// Reduction by sleep sets: once a task's next step has been explored at a node, it need not be
// explored after a sibling's step too, as long as nothing has happened that conflicts with it: the
// two orders give the same. So siblings that were tried before sleep until a conflicting step wakes
// them; and a run in which everybody who could go on sleeps is redundant.
#pragma once

#include <weft/sim/strategy.hpp>

#include <vector>

namespace weft::sim {

class Exhaustive final : public Strategy {
 public:
  explicit Exhaustive(bool reduce) : reduce_(reduce) {}
  std::string name() const override { return reduce_ ? "exhaustive" : "exhaustive:all"; }
  void begin(std::uint64_t seed, const Profile& profile) override;
  std::uint32_t pick(std::span<const Candidate> candidates, std::uint32_t yielder) override;
  void goes_on(const Candidate& candidate) override;
  std::uint32_t choose(Kind kind, std::uint32_t n) override;
  bool redundant() const noexcept override { return redundant_; }
  bool end() override;

 private:
  struct Node {
    std::uint32_t count = 0;
    std::uint32_t taken = 0;
    std::vector<Candidate> candidates;  // of a choice about tasks
    std::vector<Candidate> asleep;      // when it was reached
  };
  [[nodiscard]] static bool sleeps(const std::vector<Candidate>& asleep, const Candidate& c);
  [[nodiscard]] std::uint32_t next_awake(const Node& node, std::uint32_t from) const;
  void fall_asleep(const Node& node);

  const bool reduce_;
  std::vector<Node> stack_;
  std::size_t depth_ = 0;
  std::vector<Candidate> asleep_;
  bool redundant_ = false;
};

}  // namespace weft::sim

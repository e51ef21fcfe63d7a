// Everything outside the program in one simulated run: hosts, the network, and what happens there
// by itself. One per run.
#pragma once

#include <weft/io/kernel.hpp>
#include <weft/sim/engine.hpp>
#include <weft/sim/network.hpp>

#include <map>
#include <memory>
#include <string>

namespace weft::sim {

class Universe {
 public:
  explicit Universe(Engine& engine);
  ~Universe();
  Universe(const Universe&) = delete;
  Universe& operator=(const Universe&) = delete;

  [[nodiscard]] Engine& engine() noexcept { return engine_; }
  [[nodiscard]] Network& network() noexcept { return network_; }
  [[nodiscard]] Host& host(std::string_view name);
  [[nodiscard]] Host* find(std::string_view name) noexcept;
  [[nodiscard]] Host* find(std::uint32_t ip) noexcept;
  /// Of the calling task.
  [[nodiscard]] Host& here();
  /// The body has ended: so do all hosts.
  void end();

 private:
  Engine& engine_;
  Network network_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

/// The Kernel of a simulation: what a task asks goes to the world of its host.
class SimKernel final : public Kernel {
 public:
  explicit SimKernel(Engine& engine) noexcept : engine_(engine) {}

  Instant now() noexcept override { return engine_.now(); }
  void wait(Instant) override {}
  void interrupt() noexcept override {}
  bool outside_may_wake(std::size_t) noexcept override { return false; }
  Duration patience() const noexcept override { return Duration::zero(); }
  std::shared_ptr<World> world() override;
  void watch(Source& source) override;
  void unwatch(Source& source) noexcept override;
  void start(Job& job) override;
  void start(SlowCall& call) override;
  Description describe() const override { return {"simulated", "decided by a seed"}; }

 private:
  Engine& engine_;
};

}  // namespace weft::sim

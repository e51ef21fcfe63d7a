#include <weft/net/paced.hpp>

#include <weft/task/io.hpp>

namespace weft::detail {

Pause::Pause() noexcept
    : TimerNode([](TimerNode& node, WakeList& wakes) noexcept {
        auto& self = static_cast<Pause&>(node);
        self.ran_out_ = true;
        if (self.arm_->claim()) wakes.add(*self.arm_);
      }) {}

void Pause::start(Arm& arm, Instant until) noexcept {
  arm_ = &arm;
  io_ = &arm.wait->io();
  deadline = until;
  io_->arm_timer(*this);
}

void Pause::stop() noexcept {
  if (io_ != nullptr) std::exchange(io_, nullptr)->disarm_timer(*this);
}

Instant now_for(const Arm& arm) noexcept {
  return arm.wait->io().now();
}

}  // namespace weft::detail

// Buffers from which the machine takes one when bytes arrive for a receive
// (IORING_REGISTER_PBUF_RING, Linux 5.19). Of the thread that takes the ring's completions, which
// gives each back at once: so a few suffice for any number of streams. They are made when first
// asked for.
#pragma once

#include "io/uring_ring.hpp"

#include <cstddef>
#include <cstdint>

namespace weft::io {

class ReceiveBuffers {
 public:
  static constexpr unsigned count = 256;     // a power of two
  static constexpr std::size_t size = 4096;  // of each
  static constexpr std::uint16_t group = 0;

  explicit ReceiveBuffers(Ring& ring) noexcept : ring_(ring) {}
  ReceiveBuffers(const ReceiveBuffers&) = delete;
  ReceiveBuffers& operator=(const ReceiveBuffers&) = delete;
  /// No receive is under way.
  ~ReceiveBuffers();

  /// False: the machine has no such thing, or no memory.
  [[nodiscard]] bool usable() noexcept { return state_ == State::ready || make(); }
  [[nodiscard]] std::byte* data(std::uint16_t id) const noexcept { return memory_ + id * size; }
  void give(std::uint16_t id) noexcept;

 private:
  enum class State : std::uint8_t { untried, ready, impossible };
  [[nodiscard]] bool make() noexcept;

  Ring& ring_;
  State state_ = State::untried;
  io_uring_buf_ring* entries_ = nullptr;
  std::byte* memory_ = nullptr;
  std::uint16_t tail_ = 0;
};

}  // namespace weft::io

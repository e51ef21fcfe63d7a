/// Those who wait at one end of a channel, in the order in which they came.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/wait/wait.hpp>

namespace weft::detail {

/// Under the channel's lock. Whether there is anybody can be glimpsed without it.
class Line {
 public:
  [[nodiscard]] bool anybody() const noexcept { return anybody_; }
  void push_back(Arm& arm) noexcept {
    arms_.push_back(arm);
    anybody_ = true;
  }
  void remove(Arm& arm) noexcept {
    arm.unlink();
    anybody_ = !arms_.empty();
  }
  /// The first arm that may still be claimed and is not of `self`: a select may offer and ask on
  /// one channel, but not to itself. Passing over claimed peers before we burn our own claim is
  /// what keeps three selects on the two ends of one channel from retrying for ever.
  [[nodiscard]] Arm* first_other(const Wait* self) const noexcept {
    Arm* arm = arms_.front();
    while (arm != nullptr && (arm->wait == self || arm->claimed())) arm = arms_.next(*arm);
    return arm;
  }
  /// Claims the first that can still be claimed; those that cannot have lost interest.
  [[nodiscard, gnu::always_inline]] Arm* claim_other(const Wait* self) noexcept {
    for (Arm* arm = arms_.front(); arm != nullptr;) {
      Arm* const next = arms_.next(*arm);
      if (arm->wait != self) {
        remove(*arm);
        if (arm->claim()) return arm;
      }
      arm = next;
    }
    return nullptr;
  }

 private:
  List<Arm> arms_;
  Relaxed<bool> anybody_ = false;
};

}  // namespace weft::detail

/// One operation being waited for: the arms, and the order of events.
///
///     poll all → open → publish all, in object order → park → disarm the losers → take the winner
///
/// Before it publishes anything it looks whether it has been cancelled. A cancellation that comes
/// later than that is found by park (wait.hpp).
///
/// If the winner was woken by a mere hint (Op::confirm) that proves false, it starts over at open.
///
/// Lives where the waiter lives: on a fiber's or thread's stack, or in a coroutine's frame. The
/// caller does the parking between publish() and finish(), since that is the only thing in which
/// waiters differ.
///
/// Publishing in one global order (object ids) is what makes mutual retry impossible: when two
/// selects meet on several rendezvous, the one that published on the lower object first is found by
/// the other there. In declaration order they can burn each other's waits for ever
/// (test/model/select.pml shows both).
#pragma once

#include <weft/base/check.hpp>
#include <weft/wait/op.hpp>

#include <array>

namespace weft {

template <Op O>
class Suspension {
  static constexpr std::size_t count = branch::count<O>;
  static_assert(count < Wait::by_cancel, "too many cases in one select");

 public:
  Suspension() = default;
  Suspension(const Suspension&) = delete;
  Suspension& operator=(const Suspension&) = delete;

  /// True: published, park now. False: it is over already. Then, once resumed: settled(), finish().
  /// `op` stays where it is until then.
  [[nodiscard, gnu::always_inline]] bool publish(Wait& wait, O& op) {
    for (std::size_t k = 0; k < count; ++k) {
      Arm& arm = arms_[k];
      arm.wait = &wait;
      arm.index = static_cast<std::uint16_t>(k);
      arm.object = branch::object(op, k);
      arm.reason = branch::reason(op, k);
    }
    for (;;) {
      wait.open(arms_.data(), count);
      if (wait.cancelled() && claim_for_cancel(wait)) [[unlikely]]
        return false;
      switch (publish_all(wait, op)) {
        case Armed::waiting:
        case Armed::lost:  // claimed by another case: its commit is on the way
          return true;
        case Armed::won:
          return false;
        [[unlikely]] case Armed::retry:
          disarm_all_but(Wait::by_cancel, op);
          break;
      }
    }
  }

  /// After publish() said false, or after the wait was resumed. False: a false alarm; publish
  /// again.
  [[nodiscard]] bool settled(Wait& wait, O& op) noexcept {
    if constexpr (branch::hints<O>) {
      const std::uint16_t winner = wait.winner();
      if (winner == Wait::by_cancel || branch::confirm(op, winner)) return true;
      disarm_all_but(winner, op);
      return false;
    } else {
      return true;
    }
  }

  /// After settled(): the branch to take().
  std::size_t finish(Wait& wait, O& op) {
    const std::uint16_t winner = wait.winner();
    disarm_all_but(winner, op);
    check_withdrawn();
    wait.close();
    if (winner == Wait::by_cancel) wait.throw_cancelled();
    return winner;
  }

 private:
  Armed publish_all(Wait& wait, O& op) {
    for (const std::size_t k : order()) {
      const Armed armed = arm(wait, op, k);
      if (armed == Armed::won) {
        WEFT_CHECK(wait.claimed(), "an operation (", arms_[k].reason.name,
                   ") says that it has won, and has not claimed its arm");
        wait.set_winner(static_cast<std::uint16_t>(k));
      }
      if (armed != Armed::waiting) return armed;
      arms_[k].published = true;
    }
    return Armed::waiting;
  }

  static bool claim_for_cancel(Wait& wait) noexcept {
    if (!wait.claim()) return false;
    wait.set_winner(Wait::by_cancel);
    return true;
  }

  /// An op that throws while arming (memory, a user's predicate) has not been published; the others
  /// have.
  Armed arm(Wait& wait, O& op, std::size_t k) {
    try {
      return branch::arm(op, k, arms_[k]);
    } catch (...) {
      if (!wait.claim()) return Armed::lost;  // another case has won already; that is what counts
      disarm_all_but(Wait::by_cancel, op);
      check_withdrawn();
      wait.close();
      throw;
    }
  }

  void disarm_all_but(std::uint16_t winner, O& op) noexcept {
    for (std::size_t k = 0; k < count; ++k) {
      if (arms_[k].published && k != winner) branch::disarm(op, k, arms_[k]);
      arms_[k].published = false;
    }
  }

  /// Not left to destructors: perform() has none run.
  void check_withdrawn() const noexcept {
    for (const Arm& arm : arms_) {
      WEFT_CHECK(!arm.linked(), "an operation (", arm.reason.name,
                 ") is over and still in a queue: whoever claims an Arm, and disarm(), unlinks it");
    }
  }

  /// Branch numbers sorted by object.
  [[nodiscard]] std::array<std::size_t, count> order() const noexcept {
    std::array<std::size_t, count> sorted;
    for (std::size_t k = 0; k < count; ++k) {
      std::size_t at = k;
      for (; at > 0 && arms_[sorted[at - 1]].object > arms_[k].object; --at) {
        sorted[at] = sorted[at - 1];
      }
      sorted[at] = k;
    }
    return sorted;
  }

  std::array<Arm, count> arms_;
};

}  // namespace weft

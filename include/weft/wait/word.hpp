/// The word of a Wait (wait.hpp): who may end the suspension, and who goes on with it.
///
///               claim()           commit()
///      open ─────────────▶ claimed ───────▶ done ─────┐
///        │ park()             │ park()                │ park(): the waiter goes on by itself
///        ▼       claim()      ▼           commit()    ▼
///      parked ─────────────▶ over ◀──────────────── (the next suspension is open)
///
/// Each transition is one read-modify-write, so any two of them have an order, and the second sees
/// what the first has done. No fence is needed, nor a second variable.
///
/// One word serves one suspension after another. They are told apart by the *phase*, which is
/// flipped when one is over; usually by the claim itself, if it finds the waiter parked. Whoever
/// comes later, by another arm of the same suspension, finds another phase than the one it was
/// opened in, and fails. One bit is enough, and it need not stand in each arm, because between two
/// suspensions nobody has an arm: one that was forgotten somewhere would end a later suspension.
///
/// A canceller has no arm. cancel() leaves a mark, and ends the suspension if the waiter is parked;
/// else the next park() finds the mark. It is the waiter's to take away (turn_mark()).
///
/// Rejected: a word that is closed by a store between suspensions, and opened by another one. The
/// waiter must then look whether it has been cancelled after opening it, with a fence in between,
/// which costs as much as park(). A leaning lock (leaning_lock.hpp) around plain bits: where tasks
/// meet on one worker no read-modify-write is left, but instructions in their stead, and a select
/// takes a sixth longer.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/sanitized.hpp>

#include <cstdint>

namespace weft {

/// `AnyAtomic`: what it rests on, so that a checker can put in its own.
template <template <class> class AnyAtomic = Atomic>
class WaitWord {
 public:
  enum class Phase : std::uint8_t { even = 0, odd = 16 };
  enum class Parked : std::uint8_t { parked, done, cancelled };

  // The waiter

  /// Of the suspension that begins.
  [[nodiscard]] Phase open() noexcept {
    end_own_claim();
#if defined(WEFT_TSAN)
    // A simulation parks a task on another strand than its own, and to ThreadSanitizer that orders
    // nothing (stack/sanitizer.hpp). Whoever cancels it relies on what it has done before.
    change([](Bits word) { return word; });
#endif
    return static_cast<Phase>(glimpse() & phase_bit);  // nobody else changes it now
  }
  /// It is over, and nobody has an arm any more.
  void close() noexcept { end_own_claim(); }
  /// `parked`: whoever commits goes on with the waiter. Else it is over: the caller goes on.
  [[nodiscard, gnu::always_inline]] Parked park() noexcept {
    Bits word = glimpse();
    while ((word & (claimed_bit | cancelled_bit)) == 0) {
      // release: the saved context; partners are claim() and cancel().
      if (word_.replace(word, with(word, parked_bit), std::memory_order_release)) [[likely]]
        return Parked::parked;
    }
    return park_late();
  }
  [[nodiscard]] bool marked() const noexcept { return (glimpse() & cancelled_bit) != 0; }
  /// While no canceller can come.
  void turn_mark() noexcept {
    change([](Bits word) { return static_cast<Bits>(word ^ cancelled_bit); });
  }

  // Who has an arm of the suspension that was opened in `phase`, and the lock of its object; or the
  // waiter, until it parks

  /// True for one of them.
  [[nodiscard, gnu::always_inline]] bool claim(Phase phase) noexcept {
    Bits word = glimpse();
    while (open_in(phase, word)) {
      const Bits next = (word & parked_bit) != 0 ? after(word) : with(word, claimed_bit);
      // acquire: the saved context; partner is park().
      if (word_.replace(word, next, std::memory_order_acquire)) [[likely]]
        return true;
    }
    return false;
  }
  /// A hint.
  [[nodiscard]] bool claimed(Phase phase) const noexcept { return !open_in(phase, glimpse()); }
  /// The claimant's last word. True: it goes on with the waiter. Else that may be gone.
  [[nodiscard, gnu::always_inline]] bool commit() noexcept {
    // Whether it was claimed before it was parked, the claimant knows. If not, the word has nothing
    // more to do with it.
    return (glimpse() & claimed_bit) == 0 || commit_early();
  }

  // Who holds the lock of the scope that the waiter obeys

  /// True: it was parked, and the caller goes on with it. Else it finds a mark when it parks.
  [[nodiscard]] bool cancel() noexcept {
    const auto wins = [](Bits word) { return (word & (parked_bit | claimed_bit)) == parked_bit; };
    return wins(
        change([&](Bits word) { return with(wins(word) ? after(word) : word, cancelled_bit); }));
  }

 private:
  using Bits = std::uint8_t;
  static constexpr Bits claimed_bit = 1;  // before it was parked; until it is over
  static constexpr Bits done_bit = 2;     // and committed
  static constexpr Bits parked_bit = 4;
  static constexpr Bits cancelled_bit = 8;
  static constexpr Bits phase_bit = 16;

  [[nodiscard, gnu::always_inline]] Bits glimpse() const noexcept {
    return word_.load(std::memory_order_relaxed);  // relaxed: if it matters, replace() decides
  }
  [[nodiscard]] static bool open_in(Phase phase, Bits word) noexcept {
    return (word & (phase_bit | claimed_bit)) == static_cast<Bits>(phase);
  }
  [[nodiscard]] static Bits with(Bits word, Bits bit) noexcept {
    return static_cast<Bits>(word | bit);
  }
  /// What it is when the suspension is over.
  [[nodiscard]] static Bits after(Bits word) noexcept {
    return static_cast<Bits>((word ^ phase_bit) & (phase_bit | cancelled_bit));
  }

  /// Gives the word as it was before.
  template <class F>
  Bits change(F next) noexcept {
    Bits word = glimpse();
    // acq_rel: release the saved context, the result, or that the scope is cancelled; acquire what
    // others have released. Partners are all of these, claim() and park().
    while (!word_.replace(word, next(word), std::memory_order_acq_rel)) {
    }
    return word;
  }

  /// Whoever has claimed its own does not park.
  [[gnu::always_inline]] void end_own_claim() noexcept {
    if ((glimpse() & claimed_bit) != 0) [[unlikely]]
      end();
  }
  [[gnu::noinline]] void end() noexcept {
    change([](Bits word) { return after(word); });  // a canceller may leave its mark meanwhile
  }

  [[gnu::noinline]] bool commit_early() noexcept {
    const auto parked = [](Bits word) { return (word & parked_bit) != 0; };
    return parked(
        change([&](Bits word) { return parked(word) ? after(word) : with(word, done_bit); }));
  }

  [[gnu::noinline]] Parked park_late() noexcept {
    const auto how = [](Bits word) {
      if ((word & done_bit) != 0) return Parked::done;
      // What has been claimed will be committed, also if it is cancelled.
      return (word & claimed_bit) == 0 && (word & cancelled_bit) != 0 ? Parked::cancelled
                                                                      : Parked::parked;
    };
    return how(change([&](Bits word) {
      return how(word) == Parked::parked ? with(word, parked_bit) : after(word);
    }));
  }

  AnyAtomic<Bits> word_{0};
};

}  // namespace weft

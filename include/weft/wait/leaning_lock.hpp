/// A spinlock that is nearly free as long as one worker has it to itself.
///
///     const LeaningGuard guard(lock_);
///
/// Most locks are taken by one worker again and again: tasks that meet at a channel end up on the
/// same worker, and a scope's children where their parent is. An atomic change of a word takes 20
/// cycles even then, which is half of what a value through a channel takes. So a lock that has been
/// used by one worker alone for a while *leans* towards it: that worker then takes it by a store
/// and two loads. Somebody else who wants it straightens it up first. That takes microseconds,
/// since it makes all processors on which this process runs pass a fence (membarrier(2)); from then
/// on it is an ordinary spinlock, until it has been used by one worker alone for four times as long
/// as before. So straightening stays a small part of what the lock costs, whoever uses it how; and
/// while there is much of it in the process, no other lock begins to lean.
///
///             `patience` uses in a row by worker w
///     upright ────────────────────────────────────▶ leaning(w)
///         ◀──────────────────────────────────────────
///             straighten(), by somebody else
///
///     w, if it leans towards w:           somebody else:
///       inside(w) = this lock               held = true                  (an exchange)
///       --- light fence ---                 leans_to = nobody
///       leans_to == w?                      === heavy fence ===
///         yes: it has the lock              wait until inside(w) is something else
///         no:  inside(w) = nothing          has the lock, which is upright now
///
/// Either w's store is visible to the other after the heavy fence, or w sees that the lock leans no
/// more. The light fence is for the compiler only; the heavy one is on all processors at once.
///
/// Invariants:
///   - Whoever has `held` is alone among those who have taken the lock upright. Only they change
///     what is not atomic here, and `leans_to`.
///   - inside(w) belongs to w; others read it. It names one lock at most: a worker that is inside
///     one takes a second one by `held`, also if that leans towards it. (Nobody else is inside a
///     leaning lock but w, who knows.)
///   - What is needed of `inside` to be sure that nobody is in this lock stands in the worker, not
///     in the lock: a worker that looks at `leans_to`, is stopped for long, and then goes on to
///     say that it is inside, would wipe out what another says, towards whom the lock leans by now.
///     (test/wait/leaning_lock_weak_test.cpp has that design as a twin that fails.)
///
/// Threads without a seat (those that run no engine, or only wait; more than 254 workers; builds
/// with ThreadSanitizer, which knows nothing of membarrier; kernels that refuse it; WEFT_LEAN=0)
/// take it upright, and while the process has one thread even that is plain (base/atomic.hpp).
///
/// Rejected: a lock that never leans to anybody but its first user: what is set up in one place and
/// used in another would never gain. Counting inside a worker how many locks it is in, instead of
/// naming one: whoever waits for the count to be zero waits for locks it has no order with.
#pragma once

#include <weft/base/check.hpp>
#include <weft/base/spinlock.hpp>
#include <weft/wait/wait.hpp>

#include <array>

namespace weft {

/// no_seat, if there is none left, or if locks cannot lean here.
[[nodiscard]] Seat take_seat() noexcept;
void give_seat(Seat seat) noexcept;
/// The first time, in a process with several threads, this takes the machine 20 ms: so it is done
/// before work begins.
void prepare_to_lean() noexcept;
/// Why locks do not lean in this process; empty: they do.
[[nodiscard]] const char* why_locks_stand_upright() noexcept;

namespace detail {

struct Leaning {
  /// Of those that are shared; while the process has one thread, none of this is used.
  template <class V>
  class Atomic {
   public:
    constexpr Atomic(V value) noexcept : word_(value) {}  // NOLINT: as std::atomic
    [[gnu::always_inline]] V load(std::memory_order order) const noexcept {
      stall();
      return word_.load(order);
    }
    [[gnu::always_inline]] void store(V value, std::memory_order order) noexcept {
      stall();
      word_.store(value, order);
    }
    [[gnu::always_inline]] V exchange(V value, std::memory_order order) noexcept {
      stall();
      return word_.exchange(value, order);
    }

   private:
    std::atomic<V> word_;
  };
  static constexpr std::uint32_t first_patience = 1'024;
  static constexpr std::uint8_t most_straightened = 2;  // then patience is 16,384

  /// Is the worker with this seat inside a leaning lock, and which one?
  struct alignas(64) Inside {
    Atomic<bool> any{false};
    Atomic<const void*> lock{nullptr};
  };
  static std::array<Inside, 256> seats;

  [[gnu::always_inline]] static Seat seat() noexcept {
    const Current* const here = current();
    return here == nullptr ? no_seat : here->seat;
  }
  [[gnu::always_inline]] static Inside& inside(Seat seat) noexcept { return seats[seat]; }
  [[gnu::always_inline]] static bool alone() noexcept { return only_thread(); }
  /// If another core has the line, it comes once, to be written, and not first to be read.
  [[gnu::always_inline]] static void will_write([[maybe_unused]] const void* what) noexcept {
#if defined(__x86_64__)
    asm volatile("prefetchw (%0)" : : "r"(what));
#endif
  }
  [[gnu::always_inline]] static void light_fence() noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  static void heavy_fence() noexcept;
  /// Not while there are many heavy fences: all processes share what they cost.
  static bool begin_to_lean() noexcept;
  static void stop_leaning() noexcept {}
  static void check_other(bool other) noexcept {
    WEFT_CHECK(other,
               "a worker takes a lock that it is inside of: something under the lock waited, ",
               "or called back");
  }
  static void wait(int look) noexcept { spin_between_looks(look); }
};

/// Of locks that are all taken by whoever goes through a tree, while others wait for those above.
/// Only the first so many lean: to straighten these takes milliseconds.
struct LeaningInTree : Leaning {
  static constexpr std::size_t most = 512;
  static bool begin_to_lean() noexcept;
  static void stop_leaning() noexcept;
};

}  // namespace detail

/// `Policy`: what it rests on, so that a checker can put in its own.
template <class Policy>
class LeaningLockOn {
  template <class V>
  using Atomic = typename Policy::template Atomic<V>;

 public:
  LeaningLockOn() = default;
  /// For tests: it leans already.
  explicit LeaningLockOn(Seat leans_to) noexcept : leans_to_(leans_to) {}
  LeaningLockOn(const LeaningLockOn&) = delete;
  LeaningLockOn& operator=(const LeaningLockOn&) = delete;
  ~LeaningLockOn() {
    if (leans_to() != nobody) Policy::stop_leaning();
  }

  /// What has been set by taking it, and is to be cleared.
  using Hold = Atomic<bool>&;

  [[nodiscard, gnu::always_inline]] Hold take() noexcept {
    if (Policy::alone()) {
      // relaxed, both: there is nobody else. (If it is held, then by a thread that is no more.)
      if (held_.load(std::memory_order_relaxed)) [[unlikely]]
        wait_for_holder();
      held_.store(true, std::memory_order_relaxed);
      return held_;
    }
    const Seat me = Policy::seat();
    Policy::will_write(this);
    if (auto* const hold = enter(me)) [[likely]]
      return *hold;
    take_upright(me);
    return held_;
  }
  /// Null, and not taken, if that took more than a few lines. Else to be given back.
  [[nodiscard, gnu::always_inline]] Atomic<bool>* take_quickly() noexcept {
    if (Policy::alone()) {
      // relaxed, both: as in take().
      if (held_.load(std::memory_order_relaxed)) [[unlikely]]
        return nullptr;
      held_.store(true, std::memory_order_relaxed);
      return &held_;
    }
    const Seat me = Policy::seat();
    Policy::will_write(this);
    if (auto* const hold = enter(me)) [[likely]]
      return hold;
    return take_upright_quickly(me) ? &held_ : nullptr;
  }
  [[gnu::always_inline]] static void give_back(Hold hold) noexcept {
    hold.store(false, std::memory_order_release);  // release: partners are in straighten() and
                                                   // take_upright()
  }

  // For those who cannot remember how.
  void lock() noexcept { static_cast<void>(take()); }
  void unlock() noexcept {
    auto& inside = Policy::inside(Policy::seat());
    // relaxed: our own.
    const bool leaning = inside.any.load(std::memory_order_relaxed) &&
                         inside.lock.load(std::memory_order_relaxed) == this;
    give_back(leaning ? inside.any : held_);
  }

  /// For tests and dumps: a glimpse.
  [[nodiscard]] Seat leans_to() const noexcept { return leans_to_.load(std::memory_order_relaxed); }
  static constexpr Seat nobody = 0;

 private:
  /// Null: it does not lean towards us, or we are inside another one.
  [[nodiscard, gnu::always_inline]] Atomic<bool>* enter(Seat me) noexcept {
    // relaxed, most: the fence orders them; what the lock protects was left by ourselves.
    if (leans_to_.load(std::memory_order_relaxed) == me) [[likely]] {
      auto& inside = Policy::inside(me);
      if (!inside.any.load(std::memory_order_relaxed)) [[likely]] {
        // release: who sees that we are inside another one by now must see what we did in this one;
        // partner is straighten().
        inside.lock.store(this, std::memory_order_release);
        inside.any.store(true, std::memory_order_relaxed);
        Policy::light_fence();
        if (leans_to_.load(std::memory_order_relaxed) == me) [[likely]]
          return &inside.any;
        // release: we did nothing, but before it we may have; partner is straighten().
        inside.any.store(false, std::memory_order_release);
      }
    }
    return nullptr;
  }

  /// Only if it is free, and we were the last, and it is not time for it to lean.
  [[nodiscard, gnu::always_inline]] bool take_upright_quickly(Seat me) noexcept {
    // relaxed: a hint; and then as in take_upright(). acquire: partner is give_back().
    if (leans_to_.load(std::memory_order_relaxed) != nobody ||
        held_.exchange(true, std::memory_order_acquire)) {
      return false;
    }
    if (leans_to_.load(std::memory_order_relaxed) == nobody && last_ == me &&
        (uses_ + 1U) % Policy::first_patience != 0) [[likely]] {
      ++uses_;
      return true;
    }
    give_back(held_);
    return false;
  }

  [[gnu::noinline]] void take_upright(Seat me) noexcept {
    // acquire: partner is the release store in give_back().
    if (held_.exchange(true, std::memory_order_acquire)) [[unlikely]]
      wait_for_holder();
    // Does it lean, or shall it the next time?
    const Seat to = leans_to_.load(std::memory_order_relaxed);  // relaxed: only holders change it
    if (to != nobody) [[unlikely]] {
      to == me ? check_not_inside(me) : straighten(to, me);
    } else if (last_ != me) {
      last_ = me;
      uses_ = 0;
    } else if (++uses_ % Policy::first_patience == 0) [[unlikely]] {
      used_for_long(me);
    }
  }
  [[gnu::noinline]] void used_for_long(Seat me) noexcept {
    if (me == no_seat || uses_ < Policy::first_patience << (2 * straightened_)) return;
    if (Policy::begin_to_lean()) {
      leans_to_.store(me, std::memory_order_relaxed);  // relaxed: others learn of it under `held`
    } else {
      uses_ = 0;
    }
  }
  /// It leans towards us, and we have taken it upright: so we are inside another one.
  [[gnu::noinline]] void check_not_inside(Seat me) const noexcept {
    // relaxed: our own.
    Policy::check_other(Policy::inside(me).lock.load(std::memory_order_relaxed) != this ||
                        !Policy::inside(me).any.load(std::memory_order_relaxed));
  }

  [[gnu::noinline]] void straighten(Seat from, Seat me) noexcept {
    // relaxed: ordered by the fence.
    leans_to_.store(nobody, std::memory_order_relaxed);
    Policy::heavy_fence();
    auto& inside = Policy::inside(from);
    // acquire, both: partners are give_back() and enter().
    for (int look = 0; inside.any.load(std::memory_order_acquire) &&
                       inside.lock.load(std::memory_order_acquire) == this;
         ++look) {
      Policy::wait(look);
    }
    Policy::stop_leaning();
    if (straightened_ < Policy::most_straightened) ++straightened_;
    last_ = me;
    uses_ = 0;
  }

  [[gnu::noinline]] void wait_for_holder() noexcept {
    for (int look = 0;; ++look) {
      // relaxed: the exchange decides. acquire: as in take_upright().
      if (!held_.load(std::memory_order_relaxed) &&
          !held_.exchange(true, std::memory_order_acquire)) {
        return;
      }
      Policy::wait(look);
    }
  }

  Atomic<Seat> leans_to_{nobody};
  Atomic<bool> held_{false};
  // Under `held`.
  Seat last_ = nobody;             // who took it upright the last time
  std::uint8_t straightened_ = 0;  // so often, up to a limit
  std::uint16_t uses_ = 0;         // by that one, in a row; wraps
};

using LeaningLock = LeaningLockOn<detail::Leaning>;
using LeaningTreeLock = LeaningLockOn<detail::LeaningInTree>;

class [[nodiscard]] LeaningGuard {
 public:
  template <class Policy>
  [[gnu::always_inline]] explicit LeaningGuard(LeaningLockOn<Policy>& lock) noexcept
      : hold_(lock.take()) {}
  LeaningGuard(const LeaningGuard&) = delete;
  LeaningGuard& operator=(const LeaningGuard&) = delete;
  [[gnu::always_inline]] ~LeaningGuard() { LeaningLock::give_back(hold_); }

 private:
  LeaningLock::Hold hold_;  // of whichever kind
};

}  // namespace weft

/// The waist: one suspension of one waiter.
///
/// A `Wait` is the single place where a waiter (fiber, coroutine or plain thread) and everything
/// that could end its suspension meet: wakers, timers, cancellation. It is one atomic word
/// (word.hpp):
///
///               claim()           commit()
///      open ─────────────▶ claimed ───────▶ done ─────┐
///        │ park()             │ park()                │ park(): the waiter goes on by itself
///        ▼       claim()      ▼           commit()    ▼
///      parked ─────────────▶ over ◀──────────────── (the next suspension is open)
///
///   1. claim() succeeds at most once per suspension; the claimant alone writes the result, then
///   commits.
///   2. commit() and park() are read-modify-writes on the same word: whichever comes second resumes
///   the waiter. So no wake-up is lost, and there is no second variable to fence against.
///   3. Claim under the object's lock, write, unlock, *then* commit (WakeList does this). No lock
///   is held while waking or switching; a woken waiter may destroy the object.
///   4. park() only once the waiter's context is saved, off its stack; or while nobody but the very
///   thread that parks could go on with it (a loop's), which will have saved it by then.
///   5. A value or a lock moves only to a wait that has been claimed: nothing is received and then
///   dropped.
///
/// Each waiter owns one Wait and uses it for one suspension after another. This is what lets
/// cancellation reach a waiter through the waiter itself: cancelling is setting a sticky flag, then
/// cancel(), which ends the wait of a waiter that is parked and leaves any other a mark for its
/// next park(). (It looks at the flag before it publishes itself, and so spares itself the way.)
/// The mark is taken away when the waiter no longer obeys a scope that is cancelled.
///
/// Rejected: a Wait on the waiter's stack with a pointer to it in the task. The pointer then needs
/// a lock of its own against the waiter returning while the canceller looks (two more
/// read-modify-writes per suspension); and since cancellation is sticky, hitting a later suspension
/// of the same waiter is just as right.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/list.hpp>
#include <weft/base/outcome.hpp>
#include <weft/wait/word.hpp>

#include <atomic>
#include <coroutine>
#include <cstdint>

namespace weft {

class BlockCache;
class Io;
class Wait;

/// Identity of a thing waited on: a creation number, not an address, so that a simulated run is the
/// same every time. A select publishes itself in this order.
enum class ObjectId : std::uint64_t { none = 0 };

/// A fresh identity for an object on which others will wait.
[[nodiscard]] ObjectId new_object_id() noexcept;

/// What a waiter is waiting for, as dumps show it: a short static word such as "sleep", "join",
/// "channel".
struct Reason {
  const char* name;
};

/// The sticky mark of a cancelled scope.
class CancelFlag {
 public:
  [[nodiscard]] CancelReason reason() const noexcept {
    // acquire: partner is the store in set(); what the canceller did before is visible to who sees
    // the flag.
    return reason_.load(std::memory_order_acquire);
  }
  void set(CancelReason reason) noexcept {
    reason_.store(reason, std::memory_order_release);  // release: partner is reason()
  }

 private:
  Atomic<CancelReason> reason_{CancelReason::none};
};

/// One published intent: "wake this wait as its case number `index` when the object is ready".
/// Lives in the waiter's frame and is linked into the object's queue, under the object's lock.
struct Arm : ListNode<> {
  Wait* wait = nullptr;
  void* slot = nullptr;  // the object's: where the claimant writes, or what it reads
  ObjectId object{};     // for dumps
  Reason reason{"wait"};
  std::uint16_t index = 0;
  bool published = false;

  [[nodiscard]] bool claim() noexcept;
  /// Has somebody else got it? A hint: only claim() decides.
  [[nodiscard]] bool claimed() const noexcept;
};

/// Asked before a resumed coroutine goes on: was what woke it real? A fiber asks this itself; a
/// coroutine cannot suspend a second time in one co_await, so the engine asks for it.
struct Recheck {
  /// False: it was not, and the wait has been published again: park again.
  bool (*really)(Recheck&) noexcept;
};

class Wait {
 public:
  enum class Flow : std::uint8_t { fiber, coroutine, thread };
  static constexpr std::uint16_t by_cancel = 0xffff;

  explicit Wait(Flow flow) noexcept : flow_(flow) {}
  Wait(const Wait&) = delete;
  Wait& operator=(const Wait&) = delete;

  // Called by the waiter

  /// Starts a suspension described by `arms`.
  void open(const Arm* arms, std::size_t count) noexcept {
    arms_ = arms;
    arm_count_ = static_cast<std::uint8_t>(count < 255 ? count : 255);
    phase_ = word_.open();
  }
  /// Ends it, when all arms have been withdrawn.
  void close() noexcept {
    arm_count_ = 0;
    word_.close();
  }
  /// Who won; valid when the suspension is over.
  [[nodiscard]] std::uint16_t winner() const noexcept { return winner_; }
  void set_winner(std::uint16_t index) noexcept { winner_ = index; }

  /// By the flag, which others look at too; the mark comes a moment later.
  [[nodiscard]] bool cancelled() const noexcept { return cancel_reason() != CancelReason::none; }
  [[nodiscard]] CancelReason cancel_reason() const noexcept { return obeyed()->reason(); }
  [[gnu::always_inline]] void throw_if_cancelled() const {
    if (cancelled()) [[unlikely]]
      throw_cancelled();
  }
  [[noreturn]] void throw_cancelled() const;

  /// Blocks the calling flow until somebody has committed. Only for flows that own a stack, and for
  /// coroutines in destructors (see Task::let_wait_on_stack).
  virtual void suspend() = 0;
  /// Lets everybody else who is ready run first. Only for flows that own a stack.
  virtual void give_way() = 0;
  /// For coroutines: the engine parks this wait, and later resumes `handle`, if `recheck` (may be
  /// null) agrees. Gives what to go on with; the coroutine may be gone by then.
  [[nodiscard]] virtual std::coroutine_handle<> suspend_coroutine(std::coroutine_handle<> handle,
                                                                  Recheck* recheck) noexcept = 0;
  /// The same without a wait: it is resumed when everybody else who is ready has run.
  virtual void requeue_coroutine(std::coroutine_handle<> handle, Recheck* recheck) noexcept = 0;

  // Called by whoever ends the wait

  /// By one of its arms, under the lock of the object; or by the waiter itself, until it parks.
  /// True for exactly one caller per suspension.
  [[nodiscard, gnu::always_inline]] bool claim() noexcept { return word_.claim(phase_); }
  /// A hint, for those who may claim.
  [[nodiscard]] bool claimed() const noexcept { return word_.claimed(phase_); }

  /// The claimant's last word: the waiter may be gone afterwards.
  [[gnu::always_inline]] void commit(std::uint16_t index) noexcept {
    winner_ = index;
    if (word_.commit()) resume();
  }

  /// For whoever holds the lock of the scope that the waiter obeys, and has marked that. True: the
  /// caller commits `by_cancel`. Else the waiter will find out when it next parks.
  [[nodiscard]] bool cancel() noexcept { return word_.cancel(); }

  // Called by the engine, as rule 4 says

  /// True: parked, the committer will resume. False: over already, the caller must resume it.
  [[nodiscard, gnu::always_inline]] bool park() noexcept {
    const Word::Parked how = word_.park();
    if (how == Word::Parked::parked) [[likely]]
      return true;  // and may be gone
    if (how == Word::Parked::cancelled) winner_ = by_cancel;
    return false;
  }

  /// Makes the waiter runnable again. Called once per suspension, by whoever came second.
  virtual void resume() noexcept = 0;

  [[nodiscard]] virtual Io& io() const noexcept = 0;

  // Facts

  [[nodiscard]] Flow flow() const noexcept { return flow_; }
  /// What the current suspension waits for; for dumps, while the waiter cannot run.
  [[nodiscard]] const Arm* arms() const noexcept { return arms_; }
  [[nodiscard]] std::size_t arm_count() const noexcept { return arm_count_; }

  /// The cancel flag this waiter obeys now: that of its innermost scope. Only the waiter changes
  /// it, and only under the lock of the scope it leaves or returns to, so that a canceller that
  /// holds the lock of a scope knows exactly whether the waiter obeys that scope. The mark follows.
  void obey(const CancelFlag& flag) noexcept {
    if ((flag.reason() != CancelReason::none) != word_.marked()) [[unlikely]]
      word_.turn_mark();
    cancel_.store(&flag, std::memory_order_relaxed);  // relaxed: ordered by that lock
  }
  [[nodiscard]] const CancelFlag* obeyed() const noexcept {
    return cancel_.load(std::memory_order_relaxed);  // relaxed: see obey()
  }

 protected:
  virtual ~Wait() = default;

 private:
  friend class WakeList;
  using Word = WaitWord<>;
  static const CancelFlag never_cancelled;

  Word word_;
  Word::Phase phase_{};       // the waiter's; whoever has an arm reads it under that object's lock
  std::uint16_t winner_ = 0;  // written by the claimant before commit
  const Flow flow_;
  std::uint8_t arm_count_ = 0;  // waiter only, like arms_; for dumps, which stop at 255
  const Arm* arms_ = nullptr;
  std::atomic<const CancelFlag*> cancel_{&never_cancelled};
  Wait* next_ = nullptr;  // the claimant's, between claim and commit
};

inline bool Arm::claim() noexcept {
  return wait->claim();
}
inline bool Arm::claimed() const noexcept {
  return wait->claimed();
}

/// Claimed waits on their way to being committed. Filled under the object's lock, committed after
/// it:
///
///     WakeList wakes;                       // declared before the guard, so destroyed after it
///     std::lock_guard guard(lock_);
///     while (Arm* arm = waiters_.pop_front()) if (arm->claim()) wakes.add(*arm);
class WakeList {
 public:
  WakeList() = default;
  WakeList(const WakeList&) = delete;
  WakeList& operator=(const WakeList&) = delete;
  [[gnu::always_inline]] ~WakeList() {
    if (first_ != nullptr) commit();
  }

  /// `arm` has been claimed by the caller and its result is written.
  void add(Arm& arm) noexcept { add(*arm.wait, arm.index); }
  [[gnu::always_inline]] void add(Wait& wait, std::uint16_t index) noexcept {
    wait.winner_ = index;
    wait.next_ = nullptr;
    (last_ == nullptr ? first_ : last_->next_) = &wait;
    last_ = &wait;
  }
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }

  /// Resumes everybody, in the order added. No lock may be held.
  void commit() noexcept {
    while (first_ != nullptr) {
      Wait* wait = first_;
      first_ = wait->next_;  // before the commit: afterwards the waiter may be gone
      wait->commit(wait->winner_);
    }
    last_ = nullptr;
  }

 private:
  Wait* first_ = nullptr;
  Wait* last_ = nullptr;
};

/// What a lock can lean towards (leaning_lock.hpp). Each worker has one, if there are enough.
using Seat = std::uint8_t;
inline constexpr Seat no_seat = 255;

/// What the calling thread runs at the moment. The only thread-local of the library. Relaxed: used
/// by one task after the other, and no lock orders these; where races between them are looked for
/// (stack/sanitizer.hpp) this is none.
struct Current {
  Wait* wait = nullptr;                     // null: between tasks
  Relaxed<void*> hop;                       // the coroutine to continue with, see transfer_to()
  Relaxed<std::uintptr_t> coroutines_from;  // the frame that runs them, see there
  BlockCache* blocks = nullptr;             // the worker's, see task/blocks.hpp
  Relaxed<std::uint32_t> turns;             // see turn_is_over()
  Seat seat = no_seat;                      // the worker's

  /// Called once per operation on the outside world. A task whose socket always has more to read
  /// would never wait, and nobody else would run: now and then it has to give way.
  [[nodiscard]] bool turn_is_over() noexcept {
    turns = turns + 1;
    return turns % turns_in_a_row == 0;
  }
  static constexpr std::uint32_t turns_in_a_row = 64;
};

/// Null on a thread that runs no engine. Never cached across a switch: a fiber may continue on
/// another thread, and compilers keep the address of a thread-local, and even its value, in a
/// register. They know nothing of what volatile assembly reads; elsewhere it takes a call.
#if defined(__x86_64__)
[[nodiscard, gnu::always_inline]] inline Current* current() noexcept {
  Current* here;
  asm volatile(
      "movq weft_this_thread@GOTTPOFF(%%rip), %0\n\t"
      "movq %%fs:(%0), %0"
      : "=r"(here)
      :
      : "memory");
  return here;
}
#else
[[nodiscard]] Current* current() noexcept;
#endif
void set_current(Current* current) noexcept;

/// A number in [0, n) that is left open by the contract of the caller (where a select starts to
/// poll). The Io answers: cheaply in production, from the seed in simulation.
[[nodiscard]] std::uint32_t choose(std::uint32_t n) noexcept;

}  // namespace weft

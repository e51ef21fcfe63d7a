/// A worker's run queue: its owner takes from both ends, thieves take the older half at once.
///
///     StealQueue<Task> queue;                         // one per worker
///     if (!queue.push(task)) overflow(queue, task);   // owner: full
///     Task* next = queue.pop();                       // owner: the oldest
///     Task* warm = queue.pop_newest();                // owner: what was pushed last
///     Task* loot = victim.steal_half(queue);          // another worker, with its own queue
///
/// A ring of pointers, and one atomic word that says which part of the ring is in use. Whoever puts
/// in or takes does it by one read-modify-write of the whole word, so that every operation is one
/// step: it happened or it did not, and all agree on the order.
///
///                first busy slot       head                 tail
///     ───────────────┼───── lag ────────┼── can be taken ────┼──────────────▶ positions
///                    └ a thief copies   └ pop, steal_half    └ push, pop_newest
///
///     word = tail (24 bits) | head (24 bits) | lag (16 bits)       lag == 0: no thief is at work
///
/// A thief claims first and copies afterwards, so the claimed slots must not be pushed over yet:
/// the lag says how many slots before the head that are. Meanwhile other thieves pass on, and what
/// the owner takes at the head adds to the lag. When the thief is done it clears the lag, and
/// everything before the head is free again, whatever the owner has taken meanwhile.
///
/// Positions count modulo 2^24, a multiple of every capacity. No field runs over into another: the
/// tail is on top and falls out of the word, the head is masked (past()), and the lag is never more
/// than the capacity. A word can come back: pop_newest and another push do it at once, 2^24 pushes
/// and pops do it too. That is harmless. A claim says which slots, by a word that holds at this
/// moment; what is in them is only read once they are claimed.
///
/// Sleep. Each push takes its place in the order of all seq_cst operations, and so does empty().
/// Of an owner who pushes and then looks for sleepers by a seq_cst load, and a worker who declares
/// itself a sleeper (seq_cst) and then asks empty(), at least one sees the other. No fence is
/// needed. The same is true of the loot that arrives in a thief's own queue; while it is copied it
/// is in neither, therefore a thief has to look for sleepers afterwards, like one who has pushed.
///
/// Who may call what: push, pop, pop_newest, front, drain_half and room: the owner. steal_half: the
/// owner of another queue, who passes his own. empty and size: anybody.
///
/// Invariants: first busy <= head <= tail <= first busy + Capacity. Only the owner moves the tail.
/// The first busy slot never goes back, so that an old word shows no room that is not there. The
/// owner alone writes slots, and only outside [first busy, tail). A slot in [head, tail) holds an
/// item. The word is changed by read-modify-writes only: who acquires it sees what any of the
/// changes before has released.
///
/// Rejected: head and tail in a word each (our former version): the owner must not take the newest,
/// as nothing but a fence in every pop tells it of the claims of thieves; and with the fence, as in
/// a Chase-Lev deque, a thief can take one item at a time only. Copying before claiming (Go): the
/// owner's next pop voids the copy, so that a queue of short tasks is hardly ever robbed, and after
/// a pop_newest and a push the copy is wrong although the word is the same. A lock: a thief that is
/// preempted would stop the owner.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/spinlock.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// What the lock-free parts of an engine are made of. A test may put in a checker's own.
struct StdAtomics {
  template <class V>
  using Atomic = weft::Atomic<V>;

  /// A plain variable, which the algorithm must protect from concurrent use.
  template <class V>
  class Cell {
   public:
    [[nodiscard]] V get() const noexcept { return value_; }
    void set(V value) noexcept { value_ = value; }

   private:
    V value_{};
  };

  using Lock = Spinlock;
};

template <class T, std::size_t Capacity = 256, class Atomics = StdAtomics>
class StealQueue {
  static_assert(std::has_single_bit(Capacity) && Capacity <= (std::size_t{1} << 15));
  using Word = std::uint64_t;

 public:
  static constexpr std::size_t capacity = Capacity;

  /// `start`: the first position, for tests of what happens when positions wrap.
  explicit StealQueue(std::uint64_t start = 0) noexcept
      : word_(start << tail_shift | (start << head_shift & head_field)) {}
  StealQueue(const StealQueue&) = delete;
  StealQueue& operator=(const StealQueue&) = delete;

  /// Owner. False: no room, nothing was done.
  [[nodiscard]] bool push(T* item) noexcept {
    const Word word = look_for_room();
    if (room_in(word) == 0) return false;
    slot(tail_of(word)).set(item);
    publish(1);
    return true;
  }

  /// Owner. The oldest item; null: empty.
  T* pop() noexcept {
    // relaxed: to be checked by the claim below.
    Word word = word_.load(std::memory_order_relaxed);
    do {
      if (count_in(word) == 0) return nullptr;
      // relaxed: the owner wrote the slot itself, and will itself push over it.
    } while (!word_.compare_exchange_weak(word, without(word, 1), std::memory_order_relaxed));
    return slot(head_of(word)).get();
  }

  /// Owner. The item pushed last; null: empty, or it is not `wanted`.
  T* pop_newest(const T* wanted = nullptr) noexcept {
    // relaxed, here and in the claim: as in pop().
    Word word = word_.load(std::memory_order_relaxed);
    do {
      if (count_in(word) == 0) return nullptr;
      if (wanted != nullptr && slot(tail_of(word) - 1).get() != wanted) return nullptr;
    } while (!word_.compare_exchange_weak(word, word - one_tail, std::memory_order_relaxed));
    return slot(tail_of(word) - 1).get();
  }

  /// Owner. What pop() would return if no thief comes first. Not to be dereferenced: a thief may
  /// have run and freed it already.
  [[nodiscard]] T* front() const noexcept {
    // relaxed: a hint.
    const Word word = word_.load(std::memory_order_relaxed);
    return count_in(word) == 0 ? nullptr : slot(head_of(word)).get();
  }

  /// Owner. How many pushes will succeed, at least.
  [[nodiscard]] std::size_t room() const noexcept {
    return static_cast<std::size_t>(room_in(look_for_room()));
  }

  /// Owner. Takes the older half (rounded down, at most out.size()), for instance to move it
  /// elsewhere when the queue is full. Returns the items, oldest first, in `out`.
  std::span<T*> drain_half(std::span<T*> out) noexcept {
    // relaxed, here and in the claim: as in pop().
    Word word = word_.load(std::memory_order_relaxed);
    std::uint64_t count = 0;
    do {
      count = std::min<std::uint64_t>(count_in(word) / 2, out.size());
      if (count == 0) return {};
    } while (!word_.compare_exchange_weak(word, without(word, count), std::memory_order_relaxed));
    for (std::uint64_t i = 0; i < count; ++i) out[i] = slot(head_of(word) + i).get();
    return out.first(count);
  }

  /// Any thread but the owner: takes the older half (rounded up), returns the oldest and puts the
  /// others into `mine`, the caller's own queue, as far as it has room. Null: empty, or others are
  /// at work here. Never waits.
  T* steal_half(StealQueue& mine) noexcept {
    const std::uint64_t most = mine.room() + 1;  // can only grow: we alone push there
    // relaxed: to be checked by the claim below.
    Word word = word_.load(std::memory_order_relaxed);
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      const std::uint64_t count = count_in(word);
      if (count == 0 || lag_of(word) != 0) return nullptr;
      const std::uint64_t taken = std::min(count - count / 2, most);
      // acquire: partner is the push in publish(); the claimed slots are written. The look above
      // would be too early for that: the newest may have been replaced, with the same word again.
      // relaxed if it fails: we look again, with what is there now.
      if (word_.compare_exchange_strong(word, past(word, taken) + taken, std::memory_order_acquire,
                                        std::memory_order_relaxed)) {
        return copy(head_of(word), taken, mine);
      }
    }
    return nullptr;
  }

  /// Anybody. Exact, at its place in the order of all seq_cst operations: everything was taken
  /// whose push comes before.
  [[nodiscard]] bool empty() const noexcept { return count_in(word_.load()) == 0; }

  /// Anybody. What it was a moment ago.
  [[nodiscard]] std::size_t size() const noexcept {
    // relaxed: a hint.
    return static_cast<std::size_t>(count_in(word_.load(std::memory_order_relaxed)));
  }

 private:
  static constexpr unsigned head_shift = 16;
  static constexpr unsigned tail_shift = 40;
  static constexpr Word position_mask = (Word{1} << 24) - 1;
  static constexpr Word head_field = position_mask << head_shift;
  static constexpr Word lag_mask = (Word{1} << head_shift) - 1;
  static constexpr Word one_tail = Word{1} << tail_shift;
  static constexpr int most_attempts = 4;  // each is lost to somebody who has got something done

  [[nodiscard]] static Word lag_of(Word word) noexcept { return word & lag_mask; }
  [[nodiscard]] static Word head_of(Word word) noexcept {
    return word >> head_shift & position_mask;
  }
  [[nodiscard]] static Word tail_of(Word word) noexcept { return word >> tail_shift; }
  [[nodiscard]] static Word count_in(Word word) noexcept {
    return (tail_of(word) - head_of(word)) & position_mask;
  }
  [[nodiscard]] static Word room_in(Word word) noexcept {
    return Capacity - count_in(word) - lag_of(word);
  }
  /// The head moved on by `count`, without a carry into the tail.
  [[nodiscard]] static Word past(Word word, std::uint64_t count) noexcept {
    return (word & ~head_field) | ((word + (count << head_shift)) & head_field);
  }
  /// The word after the owner has taken the `count` oldest: while a thief copies, they are behind
  /// its slots and add to the lag.
  [[nodiscard]] static Word without(Word word, std::uint64_t count) noexcept {
    return past(word, count) + (lag_of(word) != 0 ? count : 0);
  }

  [[nodiscard]] auto& slot(std::uint64_t position) noexcept {
    return slots_[static_cast<std::size_t>(position) & (Capacity - 1)];
  }
  [[nodiscard]] const auto& slot(std::uint64_t position) const noexcept {
    return slots_[static_cast<std::size_t>(position) & (Capacity - 1)];
  }

  /// Owner, before it writes slots.
  [[nodiscard]] Word look_for_room() const noexcept {
    // acquire: partner is the release in copy(). The thief has read the slots that it frees.
    return word_.load(std::memory_order_acquire);
  }
  /// Owner, having written so many slots from the tail on. An addition, because thieves may change
  /// the rest of the word meanwhile. seq_cst: partners are the claim in steal_half(), which sees
  /// the slots, and empty(): see "Sleep".
  void publish(std::uint64_t count) noexcept { word_.fetch_add(count << tail_shift); }

  /// The thief, having claimed `count` slots.
  T* copy(std::uint64_t head, std::uint64_t count, StealQueue& mine) noexcept {
    T* first = slot(head).get();
    // relaxed: only we, the owner of that queue, move its tail.
    const std::uint64_t tail = tail_of(mine.word_.load(std::memory_order_relaxed));
    for (std::uint64_t i = 1; i < count; ++i) mine.slot(tail + i - 1).set(slot(head + i).get());
    if (count > 1) mine.publish(count - 1);
    // release: partner is the acquire load in look_for_room(). We have read the slots.
    word_.fetch_and(~lag_mask, std::memory_order_release);
    return first;
  }

  alignas(64) typename Atomics::template Atomic<Word> word_;         // changed by RMW only
  std::array<typename Atomics::template Cell<T*>, Capacity> slots_;  // written by the owner
};

}  // namespace weft

/// A worker's run queue: its owner pushes and pops, thieves take half of it at once.
///
///     StealQueue<Task> queue;                                 // one per worker
///     if (!queue.push(task)) overflow(queue, task);           // owner: full
///     Task* next = queue.pop();                               // owner: the oldest
///     Task* loot = victim.steal_half(queue);                  // another worker, with its own
///     queue
///
/// A ring of pointers, first in, first out. `tail_` counts the pushes and is written by the owner
/// alone. `head_` counts the items taken, by the owner or by thieves, and a claim is one
/// compare-and-swap of it. A thief claims first and copies afterwards, so the claimed slots must
/// not be pushed over yet; the same word therefore says how many slots before the head are still
/// being copied (the lag):
///
///                first busy slot       head                 tail
///     ───────────────┼───── lag ────────┼── can be taken ────┼──────────────▶ positions
///                    └ a thief copies   └ pop, steal         └ push
///
///     head_ = head << 16 | lag      lag == 0: no thief is at work
///
/// One thief at a time: with a lag, others pass on. When the thief is done it clears the lag, and
/// everything before the head is free again, whatever the owner has popped meanwhile.
///
/// Who may call what: push, pop, front, drain_half and room: the owner. steal_half: the owner of
/// another queue, who passes his own. empty and size: anybody.
///
/// Invariants: first busy <= head <= tail <= first busy + Capacity. The owner alone writes slots,
/// and only outside [first busy, tail). A slot in [head, tail) holds an item.
///
/// Rejected: copying before claiming (Go): needs no lag, but the owner's next pop voids the whole
/// copy, so that a queue of short tasks is hardly ever robbed. A Chase-Lev deque: last in, first
/// out, and needs a fence in pop. Two 32-bit positions in a word (Tokio): they return to the same
/// value after 2^32 pops, less than a minute, while a thief may be preempted between looking and
/// claiming; 48 bits are enough for days.
#pragma once

#include <weft/base/spinlock.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// What the lock-free parts of an engine are made of. A test may put in a checker's own.
struct StdAtomics {
  template <class V>
  using Atomic = std::atomic<V>;

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

 public:
  static constexpr std::size_t capacity = Capacity;

  /// `start`: the first position, for tests of what happens when positions wrap.
  explicit StealQueue(std::uint64_t start = 0) noexcept : head_(start << lag_bits), tail_(start) {}
  StealQueue(const StealQueue&) = delete;
  StealQueue& operator=(const StealQueue&) = delete;

  /// Owner. False: no room, nothing was done.
  [[nodiscard]] bool push(T* item) noexcept {
    const std::uint64_t tail = own_tail();
    if (room(tail) == 0) return false;
    put(tail, item);
    return true;
  }

  /// Owner. The oldest item; null: empty.
  T* pop() noexcept {
    const std::uint64_t tail = own_tail();
    // relaxed: to be checked by the claim below.
    std::uint64_t word = head_.load(std::memory_order_relaxed);
    do {
      if (distance(head_of(word), tail) == 0) return nullptr;
      // relaxed: the owner wrote the slot itself, and will itself push over it. What a thief has
      // released by clearing the lag stays released, because this is a read-modify-write.
    } while (!head_.compare_exchange_weak(word, advanced(word, 1), std::memory_order_relaxed));
    return slot(head_of(word)).get();
  }

  /// Owner. What pop() would return if no thief comes first. Not to be dereferenced: a thief may
  /// have run and freed it already.
  [[nodiscard]] T* front() const noexcept {
    // relaxed: a hint.
    const std::uint64_t head = head_of(head_.load(std::memory_order_relaxed));
    return distance(head, own_tail()) == 0 ? nullptr : slot(head).get();
  }

  /// Owner. How many pushes will succeed, at least.
  [[nodiscard]] std::size_t room() const noexcept { return room(own_tail()); }

  /// Owner. Takes the older half (rounded down, at most out.size()), for instance to move it
  /// elsewhere when the queue is full. Returns the items, oldest first, in `out`.
  std::span<T*> drain_half(std::span<T*> out) noexcept {
    const std::uint64_t tail = own_tail();
    // relaxed, here and in the claim: as in pop().
    std::uint64_t word = head_.load(std::memory_order_relaxed);
    std::uint64_t count = 0;
    do {
      count = std::min<std::uint64_t>(distance(head_of(word), tail) / 2, out.size());
      if (count == 0) return {};
    } while (!head_.compare_exchange_weak(word, advanced(word, count), std::memory_order_relaxed));
    for (std::uint64_t i = 0; i < count; ++i) out[i] = slot(head_of(word) + i).get();
    return out.first(count);
  }

  /// Any thread but the owner: takes the older half (rounded up), returns the oldest and puts the
  /// others into `mine`, the caller's own queue, as far as it has room. Null: empty, or others are
  /// at work here. Never waits.
  T* steal_half(StealQueue& mine) noexcept {
    for (int attempt = 0; attempt < most_attempts; ++attempt) {
      // relaxed: to be checked by the claim below.
      std::uint64_t word = head_.load(std::memory_order_relaxed);
      if (lag_of(word) != 0) return nullptr;
      // acquire: partner is the release store in put(). The slots before tail are written.
      const std::uint64_t tail = tail_.load(std::memory_order_acquire);
      const std::uint64_t count = distance(head_of(word), tail);
      if (count == 0) return nullptr;
      if (count > Capacity) continue;  // the two do not belong together: one of them is old
      const std::uint64_t taken = std::min<std::uint64_t>(count - count / 2, mine.room() + 1);
      // relaxed: nothing is read or written here that the owner or another thief would look at
      // before the lag is cleared; the slots were made visible by tail.
      if (head_.compare_exchange_strong(word, word + (taken << lag_bits) + taken,
                                        std::memory_order_relaxed)) {
        return copy(head_of(word), taken, mine);
      }
    }
    return nullptr;
  }

  /// Anybody. In the order of all seq_cst operations: true only if everything was taken whose push
  /// comes before. A push alone has no place in that order; a seq_cst fence after it gives it one.
  [[nodiscard]] bool empty() const noexcept {
    const std::uint64_t tail = tail_.load();
    // relaxed: an old head makes the queue look fuller than it is, no more.
    const std::uint64_t ahead = distance(head_of(head_.load(std::memory_order_relaxed)), tail);
    return ahead == 0 || ahead > Capacity;  // the head went on past the tail we saw
  }

  /// Anybody; a hint.
  [[nodiscard]] std::size_t size() const noexcept {
    // relaxed: a hint.
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    const std::uint64_t count = distance(head_of(head_.load(std::memory_order_relaxed)), tail);
    return count > Capacity ? 0 : static_cast<std::size_t>(count);
  }

 private:
  static constexpr unsigned lag_bits = 16;
  static constexpr std::uint64_t lag_mask = (std::uint64_t{1} << lag_bits) - 1;
  static constexpr int most_attempts = 4;  // each is lost to somebody who has taken something

  [[nodiscard]] static std::uint64_t head_of(std::uint64_t word) noexcept {
    return word >> lag_bits;
  }
  [[nodiscard]] static std::uint64_t lag_of(std::uint64_t word) noexcept { return word & lag_mask; }
  /// Positions are equal if their lower 48 bits are.
  [[nodiscard]] static std::uint64_t distance(std::uint64_t from, std::uint64_t to) noexcept {
    return (to - from) << lag_bits >> lag_bits;
  }
  /// The word after the owner has taken `count` items: while a thief copies, what the owner takes
  /// is behind the thief's slots and adds to the lag.
  [[nodiscard]] static std::uint64_t advanced(std::uint64_t word, std::uint64_t count) noexcept {
    return word + (count << lag_bits) + (lag_of(word) != 0 ? count : 0);
  }

  [[nodiscard]] auto& slot(std::uint64_t position) noexcept {
    return slots_[static_cast<std::size_t>(position) & (Capacity - 1)];
  }
  [[nodiscard]] const auto& slot(std::uint64_t position) const noexcept {
    return slots_[static_cast<std::size_t>(position) & (Capacity - 1)];
  }

  [[nodiscard]] std::uint64_t own_tail() const noexcept {
    return tail_.load(std::memory_order_relaxed);  // relaxed: only we, the owner, write it
  }
  [[nodiscard]] std::size_t room(std::uint64_t tail) const noexcept {
    // acquire: partner is the release in copy(). The thief has read the slots that it frees.
    const std::uint64_t word = head_.load(std::memory_order_acquire);
    return Capacity - static_cast<std::size_t>(distance(head_of(word), tail) + lag_of(word));
  }
  void put(std::uint64_t tail, T* item) noexcept {
    slot(tail).set(item);
    // release: partner is the acquire load in steal_half().
    tail_.store(tail + 1, std::memory_order_release);
  }

  /// The thief, having claimed `count` slots.
  T* copy(std::uint64_t head, std::uint64_t count, StealQueue& mine) noexcept {
    T* first = slot(head).get();
    const std::uint64_t tail = mine.own_tail();
    for (std::uint64_t i = 1; i < count; ++i) mine.slot(tail + i - 1).set(slot(head + i).get());
    // release: partner is the acquire load in steal_half(), of whoever robs us in turn.
    if (count > 1) mine.tail_.store(tail + count - 1, std::memory_order_release);
    // release: partner is the acquire load in room(). We have read the slots.
    head_.fetch_and(~lag_mask, std::memory_order_release);
    return first;
  }

  // One line for both words: whoever looks at one looks at the other.
  alignas(64) typename Atomics::template Atomic<std::uint64_t> head_;  // by RMW only
  typename Atomics::template Atomic<std::uint64_t> tail_;              // written by the owner
  std::array<typename Atomics::template Cell<T*>, Capacity> slots_;    // written by the owner
};

}  // namespace weft

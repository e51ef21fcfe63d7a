/// The queue that all workers share: where work arrives from outside, and where a full worker puts
/// what it cannot hold.
///
///     Injector<Task, NextReady> injector;         // NextReady: how tasks are linked, see below
///     injector.push(task);                        // any thread; never fails or waits for room
///     Task* task = injector.pop();                // any thread; null: empty
///     Task* mine = injector.pop_some(queue, 8);   // a fair share: one to run, the rest queued
///
/// A ring of slots, and a list under a lock for what does not fit into it. As long as the list is
/// not empty, new items join the list, and pop() looks at the ring first. Items never move from one
/// to the other. So:
///
/// Order. Let push(a) happen before push(b). Then a is taken before b, unless one pop() runs beside
/// both pushes: it may find the ring empty just before a comes, and b in the list afterwards.
/// Between pushes of which none happens before the other there is no order. Nothing waits in the
/// list for ever: only who has not heard of it yet still puts items into the ring.
///
/// Emptiness. A completed push can be popped at once: no other thread, wherever it was preempted,
/// has to do something first. (Except one that is preempted while it holds the list's lock, for a
/// few instructions; it is waited for.) For empty() see there.
///
/// The ring. Positions count pushes and pops; position p lies in slot p % Ring, in lap p / Ring.
/// A slot goes through these values, each tagged with its lap, so that nobody mistakes one for
/// another; of an item the parity of its lap is enough, as its neighbours are an odd number away:
///
///     empty(0) ──push──▶ item(0) ──pop──▶ empty(1) ──push──▶ item(1) ──pop──▶ empty(2) ...
///
/// push() puts its item by one compare-and-swap of the slot at the tail: from then on it is in the
/// queue. Then it moves the tail on, or finds that somebody has done it. pop() claims by one
/// compare-and-swap of the head, and then empties the slot. A popper preempted in between blocks
/// nobody: when the ring comes round to its slot, the ring counts as full.
///
/// Rejected: claiming a slot by the tail and filling it later (Vyukov's ring): a producer preempted
/// in between hides all items that come after. A lock for everything (Tokio): fine until a burst
/// from outside meets many idle workers. Refilling the ring from the list: then an item can be
/// missed by somebody who looks at both.
#pragma once

#include <weft/sched/steal_queue.hpp>

#include <mutex>

namespace weft {

/// `Next` says how items are linked while they are in the list:
///     struct NextReady { static Task* get(const Task&); static void set(Task&, Task* next); };
template <class T, class Next, std::size_t Ring = 4096, class Atomics = StdAtomics>
class Injector {
  static_assert(std::has_single_bit(Ring));

 public:
  Injector() noexcept {
    for (auto& slot : slots_) slot.store(empty_in(0), std::memory_order_relaxed);  // before sharing
  }
  Injector(const Injector&) = delete;
  Injector& operator=(const Injector&) = delete;

  void push(T& item) noexcept {
    if (list_in_use() || !push_to_ring(item)) push_to_list(item, item, 1);
  }

  /// All of them, in this order, together if they go to the list.
  void push_all(std::span<T* const> items) noexcept {
    std::size_t done = 0;
    if (!list_in_use()) {
      while (done < items.size() && push_to_ring(*items[done])) ++done;
    }
    if (done == items.size()) return;
    for (std::size_t i = done; i + 1 < items.size(); ++i) Next::set(*items[i], items[i + 1]);
    push_to_list(*items[done], *items.back(), items.size() - done);
  }

  T* pop() noexcept {
    std::uint64_t first = 0;
    if (claim_in_ring(1, first) == 1) return take_from_ring(first);
    T* item = nullptr;
    pop_from_list(1, [&](T* taken) { item = taken; });
    return item;
  }

  /// For one of `sharers` (at least one) workers: the oldest item to run at once, and with it so
  /// many more, for its own queue `mine`, as make up its share.
  template <std::size_t N>
  T* pop_some(StealQueue<T, N, Atomics>& mine, std::size_t sharers) noexcept {
    const std::size_t share = size() / sharers + 1;
    const std::size_t most = std::min({share, N / 2, mine.room() + 1});
    T* first = nullptr;
    auto keep = [&](T* item) {
      if (first == nullptr) {
        first = item;
      } else {
        static_cast<void>(mine.push(item));  // there is room: we alone push
      }
    };
    std::uint64_t position = 0;
    const std::size_t claimed = claim_in_ring(most, position);
    for (std::size_t i = 0; i < claimed; ++i) keep(take_from_ring(position + i));
    if (claimed == 0) pop_from_list(most, keep);
    return first;
  }

  /// In the order of all seq_cst operations: true only if everything was taken whose push comes
  /// before; a push takes its place in that order before it returns. So, of a thread that pushes
  /// and then looks for sleepers, and a thread that declares itself a sleeper and then looks here
  /// (all seq_cst), at least one sees the other.
  [[nodiscard]] bool empty() const noexcept {
    const std::uint64_t tail = tail_.load();
    // relaxed: an old head makes the queue look fuller than it is, no more.
    return behind(head_.load(std::memory_order_relaxed), tail) <= 0 && list_size_.load() == 0;
  }

  /// A hint.
  [[nodiscard]] std::size_t size() const noexcept {
    // relaxed: a hint.
    const std::uint64_t tail = tail_.load(std::memory_order_relaxed);
    const std::int64_t in_ring = behind(head_.load(std::memory_order_relaxed), tail);
    return static_cast<std::size_t>(std::max<std::int64_t>(in_ring, 0)) +
           list_size_.load(std::memory_order_relaxed);
  }

 private:
  // A slot's value: an item's address with the parity of its lap in bit 1, or, with bit 0 set, the
  // number of the lap in which it is to be filled.
  using Word = std::uintptr_t;
  static_assert(alignof(T) >= 4 && sizeof(Word) >= sizeof(std::uint64_t));
  static constexpr std::uint64_t lap_of(std::uint64_t position) { return position / Ring; }
  static constexpr Word empty_in(std::uint64_t lap) { return lap << 1 | 1; }
  static constexpr Word parity(std::uint64_t lap) { return (lap & 1) << 1; }
  static Word item_in(std::uint64_t lap, T& item) {
    return reinterpret_cast<Word>(&item) | parity(lap);
  }
  static bool is_item_of(Word word, std::uint64_t lap) { return (word & 3) == parity(lap); }
  static T* to_item(Word word) { return reinterpret_cast<T*>(word & ~Word{3}); }
  static std::int64_t behind(std::uint64_t head, std::uint64_t tail) {
    return static_cast<std::int64_t>(tail - head);
  }
  [[nodiscard]] auto& slot(std::uint64_t position) noexcept {
    return slots_[static_cast<std::size_t>(position) & (Ring - 1)];
  }

  [[nodiscard]] bool list_in_use() const noexcept {
    // relaxed: what happened before us we see, by coherence; about anything else nothing was
    // promised.
    return list_size_.load(std::memory_order_relaxed) != 0;
  }

  /// False: full, or a popper has not emptied the slot yet.
  bool push_to_ring(T& item) noexcept {
    for (;;) {
      // acquire: partner is move_tail(). Who moved the tail here saw this slot's last item, so that
      // below we see that or something newer, and an equal parity is our own lap's.
      const std::uint64_t position = tail_.load(std::memory_order_acquire);
      const std::uint64_t lap = lap_of(position);
      // relaxed: decides nothing that is not checked by an exchange.
      Word word = slot(position).load(std::memory_order_relaxed);
      if (word == empty_in(lap)) {
        // release: partner is the acquire load in claim_in_ring(). relaxed if it fails: somebody
        // filled it, and we look again.
        if (slot(position).compare_exchange_strong(
                word, item_in(lap, item), std::memory_order_release, std::memory_order_relaxed)) {
          move_tail(position);
          return true;
        }
      } else if (is_item_of(word, lap) || word == empty_in(lap + 1)) {
        move_tail(position);  // filled (and taken, maybe), and its pusher has not come to this yet
      } else if (tail_.load(std::memory_order_relaxed) == position) {  // relaxed: a hint
        return false;
      }
    }
  }
  /// The slot at `position` is filled. seq_cst, also if somebody else was faster: see empty().
  void move_tail(std::uint64_t position) noexcept {
    tail_.compare_exchange_strong(position, position + 1);
  }

  /// Claims up to `most` filled slots, from `first` on; returns how many.
  std::size_t claim_in_ring(std::size_t most, std::uint64_t& first) noexcept {
    // acquire, in all three places: partner is the release of an earlier claim. Who claimed the
    // item before ours in this slot had read it, so that we see that or something newer, and an
    // equal parity is our own lap's.
    first = head_.load(std::memory_order_acquire);
    for (;;) {
      std::size_t count = 0;
      while (count < most) {
        // acquire: partner is the release in push_to_ring(); the item is what its pusher left.
        const Word word = slot(first + count).load(std::memory_order_acquire);
        if (!is_item_of(word, lap_of(first + count))) break;
        ++count;
      }
      if (count == 0) {
        const std::uint64_t head = head_.load(std::memory_order_acquire);
        if (head == first) return 0;
        first = head;
      } else if (head_.compare_exchange_strong(first, first + count, std::memory_order_release,
                                               std::memory_order_acquire)) {
        return count;
      }
    }
  }
  /// `position` is claimed by us.
  T* take_from_ring(std::uint64_t position) noexcept {
    // relaxed: claim_in_ring() has seen the item, and it stays until we take it.
    const Word word = slot(position).load(std::memory_order_relaxed);
    // release: partner is the acquire load in claim_in_ring(). Who sees this, or what is pushed
    // over it, comes too late, and then also sees that the head has gone on.
    slot(position).store(empty_in(lap_of(position) + 1), std::memory_order_release);
    return to_item(word);
  }

  void push_to_list(T& first, T& last, std::size_t count) noexcept {
    const std::lock_guard guard(lock_);
    Next::set(last, nullptr);
    if (list_last_.get() == nullptr) {
      list_first_.set(&first);
    } else {
      Next::set(*list_last_.get(), &first);
    }
    list_last_.set(&last);
    // relaxed: written under the lock only.
    list_size_.store(list_size_.load(std::memory_order_relaxed) + count);  // seq_cst: see empty()
  }
  template <class Keep>
  void pop_from_list(std::size_t most, Keep keep) noexcept {
    // relaxed: as in list_in_use().
    if (list_size_.load(std::memory_order_relaxed) == 0) return;
    const std::lock_guard guard(lock_);
    T* item = list_first_.get();
    std::size_t count = 0;
    while (item != nullptr && count < most) {
      T* next = Next::get(*item);
      keep(item);
      item = next;
      ++count;
    }
    list_first_.set(item);
    if (item == nullptr) list_last_.set(nullptr);
    // relaxed: written under the lock only; who sees it too late looks in vain.
    list_size_.store(list_size_.load(std::memory_order_relaxed) - count, std::memory_order_relaxed);
  }

  // Three lines, for producers, consumers and the list.
  alignas(64) typename Atomics::template Atomic<std::uint64_t> tail_{0};
  alignas(64) typename Atomics::template Atomic<std::uint64_t> head_{0};
  alignas(64) typename Atomics::Lock lock_;
  typename Atomics::template Atomic<std::size_t> list_size_{0};  // written under lock_
  typename Atomics::template Cell<T*> list_first_;               // under lock_
  typename Atomics::template Cell<T*> list_last_;                // under lock_
  alignas(64) std::array<typename Atomics::template Atomic<Word>, Ring> slots_;
};

}  // namespace weft

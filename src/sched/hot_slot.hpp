// The task that a worker will run next: put there by itself, taken by itself, or by a thief who has
// seen it wait for long.
//
// It is filled and emptied with every wake, so both are plain as long as no thief comes: what
// replaces or takes a task is done under a lock that leans towards the owner. A task is put into
// an empty slot without it: only the owner fills, and a thief only ever takes what it sees.
#pragma once

#include <weft/wait/leaning_lock.hpp>

namespace weft {

template <class T, class Lock = LeaningLock, class Policy = detail::Leaning>
class HotSlot {
 public:
  /// A hint.
  [[nodiscard]] bool full() const noexcept {
    return item_.load(std::memory_order_relaxed) != nullptr;
  }

  /// Owner. What was in it before, or null.
  [[gnu::always_inline]] T* put(T& item) noexcept {
    if (!full()) {                                    // only we fill it: so it stays
      item_.store(&item, std::memory_order_release);  // release: partner is exchange()
      return nullptr;
    }
    return exchange(&item);
  }
  /// Owner, or a thief: who may wait in the machine for a barrier, and hold the owner up as long.
  [[gnu::always_inline]] T* take() noexcept { return full() ? exchange(nullptr) : nullptr; }

 private:
  [[gnu::always_inline]] T* exchange(T* item) noexcept {
    auto& hold = lock_.take();
    // acquire: partner is put().
    T* const before = item_.load(std::memory_order_acquire);
    // relaxed: whoever takes it will have the lock. (And a thief who finds nothing after all must
    // not write over what is put in without it.)
    if (before != item) item_.store(item, std::memory_order_relaxed);
    lock_.give_back(hold);
    return before;
  }

  Lock lock_;
  typename Policy::template Atomic<T*> item_{nullptr};
};

}  // namespace weft

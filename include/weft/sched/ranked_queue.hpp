/// Tasks by priority: the highest first, and first in, first out among equals.
///
///     scope.spawn(f, {.priority = priority::urgent});
///
/// Priorities are strict: as long as a higher one is ready, a lower one does not begin. Most
/// programs have one priority, and should not pay for others: engines keep ordinary tasks elsewhere
/// until somebody spawns one that is not.
#pragma once

#include <weft/task/worker.hpp>

#include <array>
#include <bit>
#include <mutex>

namespace weft {

/// For its owner only.
class RankedQueue {
 public:
  static constexpr int none = -1;

  /// Of the task that pop() would give; none if there is none.
  [[nodiscard]] int highest() const noexcept {
    for (std::size_t word = used_.size(); word-- > 0;) {
      if (used_[word] != 0) {
        return static_cast<int>(word * 64 + 63) - std::countl_zero(used_[word]);
      }
    }
    return none;
  }
  [[nodiscard]] bool empty() const noexcept { return highest() == none; }
  void push(Task& task) noexcept {
    const std::size_t rank = task.priority();
    ranks_[rank].push(task);
    used_[rank / 64] |= std::uint64_t{1} << (rank % 64);
  }
  /// Null: there is none of this priority or above.
  Task* pop(int at_least = 0) noexcept {
    const int top = highest();
    if (top == none || top < at_least) return nullptr;
    const auto rank = static_cast<std::size_t>(top);
    Task* const task = ranks_[rank].pop();
    if (ranks_[rank].empty()) used_[rank / 64] &= ~(std::uint64_t{1} << (rank % 64));
    return task;
  }

 private:
  std::array<ReadyQueue, 256> ranks_;
  std::array<std::uint64_t, 4> used_{};
};

/// The same for many threads.
class SharedRanks {
 public:
  [[nodiscard]] int highest() const noexcept {
    return highest_.load();  // seq_cst: who goes to sleep looks here after he has said so
  }
  /// For a look between two tasks, which may come a little late.
  [[nodiscard]] int about_highest() const noexcept {
    return highest_.load(std::memory_order_relaxed);  // relaxed: see above
  }
  void push(Task& task) noexcept {
    std::lock_guard guard(lock_);
    queue_.push(task);
    highest_.store(queue_.highest());
  }
  Task* pop(int at_least = 0) noexcept {
    if (about_highest() < at_least || about_highest() == RankedQueue::none) return nullptr;
    std::lock_guard guard(lock_);
    Task* const task = queue_.pop(at_least);
    highest_.store(queue_.highest());
    return task;
  }

 private:
  Spinlock lock_;
  RankedQueue queue_;  // under lock_
  Atomic<int> highest_{RankedQueue::none};
};

}  // namespace weft

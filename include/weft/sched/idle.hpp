/// Who of a pool's workers searches for work, who sleeps, and who of the sleepers attends to the
/// outside. Modelled in test/model/idle.pml.
///
///              start_searching           announce
///     working ────────────────▶ searching ───────▶ asleep        asleep: one of them is the poller
///        ▲    ◀────────────────     ▲                │           and sleeps in the kernel, the
///        │      stop_searching      └──── wake_one ──┤           others on their own word
///        └───────────────────────────── wake, leave ─┘
///
/// No wake-up is lost, because both sides declare before they look: a producer publishes its task,
/// then looks whether anybody searches or sleeps; a worker announces that it sleeps, then looks
/// once more at every queue (all sequentially consistent: at least one sees the other).
///
/// No herd: a producer wakes one, and none while somebody is searching, who will see the task as
/// well. Whoever stops searching as the last one therefore looks again, and wakes the next if there
/// is more. A woken worker counts as searching from the moment it was chosen. And only so many
/// search at a time; the others wait for their turn a little, and go to sleep.
///
/// The poller leaves for a task and nobody takes its place at once (it would cost a second wake-up
/// per event): workers that run look outside between tasks when there is no poller, and the monitor
/// sees to it when none of them gets to it.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/list.hpp>
#include <weft/base/spinlock.hpp>
#include <weft/io/kernel.hpp>

#include <cstddef>
#include <cstdint>

namespace weft {

/// A worker's part in it.
struct Idler : ListNode<> {
  Atomic<std::uint32_t> asleep{0};  // cleared by whoever takes the worker out of sleep
  bool searching = false;           // the worker's own; its waker's while it sleeps
};

class Idlers {
 public:
  /// `virtual_time`: the clock jumps when somebody waits for it. So only the last one to fall
  /// asleep, of `everybody`, may be the poller.
  Idlers(Kernel& kernel, std::size_t most_searching, bool virtual_time) noexcept
      : kernel_(kernel), most_searching_(most_searching), virtual_time_(virtual_time) {}
  Idlers(const Idlers&) = delete;
  Idlers& operator=(const Idlers&) = delete;

  /// How many workers there are. They change with spare workers.
  void joined() noexcept { everybody_.fetch_add(1); }
  void left() noexcept { everybody_.fetch_sub(1); }
  [[nodiscard]] std::size_t everybody() const noexcept { return everybody_.load(); }

  // Producers. Any thread

  /// There is something to do, published by a sequentially consistent operation: wakes one sleeper,
  /// unless somebody searches.
  void wake_one() noexcept {
    const std::uint64_t word = word_.load();
    if (searching(word) == 0 && sleeping(word) != 0) wake_one_slow();
  }
  /// There is something that this one must do.
  void wake(Idler& idler) noexcept;

  // The worker

  /// False: enough others do.
  [[nodiscard]] bool start_searching(Idler& self) noexcept;
  /// It has found something. True: it was the last one, and must look for more.
  [[nodiscard]] bool stop_searching(Idler& self) noexcept;
  /// From here on it counts as asleep. It looks once more everywhere, then sleeps: in the kernel if
  /// it is the poller.
  void announce(Idler& self) noexcept;
  /// It has seen something after all: back to searching, if nobody has woken it for that, and not
  /// enough others search (who will see it too).
  void search_again(Idler& self) noexcept;
  /// Awake on its own account, if it was not woken; and the poller no more.
  void leave(Idler& self) noexcept;
  /// Sleeps until it is woken; not for the poller.
  static void sleep(Idler& self) noexcept { self.asleep.wait(1); }

  [[nodiscard]] Idler* poller() const noexcept { return poller_.load(); }
  [[nodiscard]] std::size_t sleepers() const noexcept { return sleeping(word_.load()); }
  [[nodiscard]] std::size_t searchers() const noexcept { return searching(word_.load()); }

 private:
  static constexpr std::uint64_t one_sleeping = 1;
  static constexpr std::uint64_t one_searching = std::uint64_t{1} << 32;
  [[nodiscard]] static std::size_t searching(std::uint64_t word) noexcept { return word >> 32; }
  [[nodiscard]] static std::size_t sleeping(std::uint64_t word) noexcept {
    return word & (one_searching - 1);
  }

  void wake_one_slow() noexcept;
  [[nodiscard]] Idler* choose() noexcept;
  [[nodiscard]] bool count_searcher(std::uint64_t limit, std::uint64_t also) noexcept;
  void rouse(Idler& idler) noexcept;

  Kernel& kernel_;
  const std::size_t most_searching_;
  const bool virtual_time_;
  Atomic<std::size_t> everybody_{0};
  // How many search (upper half) and sleep. Changed by one read-modify-write per step.
  alignas(64) Atomic<std::uint64_t> word_{0};
  Atomic<Idler*> poller_{nullptr};  // written under lock_; given up by itself alone
  alignas(64) Spinlock lock_;
  List<Idler> sleepers_;  // under lock_; the first one fell asleep last
};

}  // namespace weft

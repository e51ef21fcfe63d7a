/// What a leaning lock rests on, under the checker: LeaningLockOn<weak::Leaning<>>. A thread's
/// number is its seat. A State that has such locks has Seats too, before them.
#pragma once

#include <weft/wait/leaning_lock.hpp>

#include "support/weak_memory/atomics.hpp"

namespace weft::test::weak {

enum class Without { nothing, light_fence, heavy_fence, own_inside };

template <Without without = Without::nothing>
struct Leaning {
  template <class V>
  using Atomic = weak::Atomic<V>;
  static constexpr std::uint32_t first_patience = 1;
  static constexpr std::uint8_t most_straightened = 0;

  struct Inside {
    Atomic<bool> any{false};
    Atomic<const void*> lock{nullptr};
  };
  struct Seats {
    Seats() { here = this; }
    std::array<Inside, 4> seats;
  };
  static inline Seats* here = nullptr;  // this run's

  static Seat seat() {
    return execution->running() == 0 ? no_seat : static_cast<Seat>(execution->running());
  }
  static Inside& inside(Seat seat) {
    if (without == Without::own_inside) return here->seats[0];  // as if it stood in the lock
    return here->seats[seat % here->seats.size()];
  }
  static bool alone() { return false; }
  static bool begin_to_lean() { return true; }
  static void stop_leaning() {}
  static void check_other(bool other) {
    if (without != Without::own_inside) check(other, "it is not inside of what it takes");
  }
  static void will_write(const void* /*what*/) {}
  static void light_fence() {
    if (without != Without::light_fence) weak::light_fence();
  }
  static void heavy_fence() {
    if (without != Without::heavy_fence) weak::heavy_fence();
  }
  // Loads wait for what is not there yet, so runs in which it takes a second look show nothing new.
  static void wait(int /*look*/) { execution->give_up(); }
};

}  // namespace weft::test::weak

/// The lowest level: one waiter parks, anybody unparks it. For building primitives that need no
/// queue.
///
///     Parker idle;
///     idle.park_if([&] { return queue.empty(); });    // the consumer
///     queue.push(x); idle.unpark();                   // any producer
///
/// The predicate is evaluated at the commit point, under the parker's lock, after which an unpark()
/// cannot be missed. An unpark() that finds nobody parked leaves one token, which the next
/// park_if() consumes; several tokens are one. So it is harmless to unpark a waiter that sleeps, is
/// about to sleep, or runs. Spurious wake-ups do not exist. One waiter at a time (checked); the
/// predicate must not wait.
#pragma once

#include <weft/wait/leaning_lock.hpp>
#include <weft/wait/perform.hpp>

namespace weft {

class Parker {
 public:
  template <class Pred>
  class ParkOp {
   public:
    using Result = bool;
    static constexpr Reason reason{"parked"};

    ParkOp(Parker& parker, Pred should_park) : parker_(parker), should_park_(should_park) {}
    ObjectId object() const noexcept { return parker_.id_; }
    bool try_now() {
      const LeaningGuard guard(parker_.lock_);
      const detail::NoPoints here;
      return parker_.consume_token() || !should_park_();
    }
    Armed arm(Arm& arm) {
      const LeaningGuard guard(parker_.lock_);
      const detail::NoPoints here;
      if (parker_.token_ || !should_park_()) {
        if (!arm.claim()) return Armed::lost;
        parker_.consume_token();
        return Armed::won;
      }
      WEFT_CHECK(parker_.parked_ == nullptr, "two waiters park on one Parker");
      parker_.parked_ = &arm;
      waited_ = true;
      return Armed::waiting;
    }
    void disarm(Arm& arm) noexcept {
      const LeaningGuard guard(parker_.lock_);
      if (parker_.parked_ == &arm) parker_.parked_ = nullptr;
    }
    /// True if it had to park.
    bool take() noexcept { return waited_; }

   private:
    Parker& parker_;
    Pred should_park_;
    bool waited_ = false;
  };

  template <class Pred>
  [[nodiscard]] ParkOp<Pred> park_op(Pred should_park) {
    return ParkOp<Pred>(*this, std::move(should_park));
  }

  /// Parks while no token is there and `should_park()` holds. True if it had to park.
  template <class Pred>
  bool park_if(Pred should_park) {
    return perform(park_op(std::move(should_park)));
  }

  void unpark() noexcept {
    detail::point(id_, Access::write, "unpark");
    WakeList wakes;
    const LeaningGuard guard(lock_);
    Arm* arm = std::exchange(parked_, nullptr);
    if (arm != nullptr && arm->claim()) {
      wakes.add(*arm);
    } else {
      token_ = true;
    }
  }

 private:
  bool consume_token() noexcept { return std::exchange(token_, false); }

  const ObjectId id_ = new_object_id();
  LeaningLock lock_;
  bool token_ = false;     // under lock_
  Arm* parked_ = nullptr;  // under lock_
};

}  // namespace weft

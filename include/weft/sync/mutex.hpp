/// Mutex and Condition.
///
///     weft::Mutex mutex;
///     auto guard = mutex.lock();                         // co_await mutex.lock_op() in coroutines
///     auto got = perform(timeout(mutex.lock_op(), 1s));  // std::optional<Mutex::Guard>
///
///     weft::Condition changed;
///     changed.wait(guard, [&] { return !queue.empty(); });
///     co_await changed.co_wait(guard, [&] { return !queue.empty(); });
///     changed.notify_one();
///
/// The lock may be held across waits, and be released on another thread than it was taken on: it
/// belongs to the Guard. Those who wait are woken in the order in which they came. Whoever runs may
/// be faster, a limited number of times (try_lock: any), so that a lock that many want stays in the
/// cache it is in; and a waiter that was woken and found it taken gets it before all who have not
/// been. A waiter that has got it cannot be cancelled any more. Two that are taken in different
/// orders: sync/lock_watch finds them.
///
/// A wait on a condition gives the lock up and takes it again before it returns, also when it ends
/// by a cancellation. As an operation, for select and timeout, it does only the first half:
///
///     while (!ready) {
///       select(changed.wait_op(guard), sleep_op(1s));
///       guard.relock();                                  // does nothing if it was not given up
///     }
#pragma once

#include <weft/sync/lock_watch.hpp>
#include <weft/sync/turnstile.hpp>
#include <weft/task/scope.hpp>

#include <optional>

namespace weft {

class Mutex : public Turnstile<Mutex> {
 public:
  Mutex() = default;
  ~Mutex() = default;

  class Guard {
   public:
    Guard() = default;
    Guard(Guard&& other) noexcept
        : mutex_(std::exchange(other.mutex_, nullptr)), held_(std::exchange(other.held_, false)) {}
    Guard& operator=(Guard&& other) noexcept {
      if (this != &other) {
        unlock();
        mutex_ = std::exchange(other.mutex_, nullptr);
        held_ = std::exchange(other.held_, false);
      }
      return *this;
    }
    ~Guard() { unlock(); }

    [[nodiscard]] bool held() const noexcept { return held_; }
    /// Before its time. Idempotent.
    void unlock() noexcept {
      if (std::exchange(held_, false)) mutex_->unlock();
    }
    /// After unlock(), or after an operation that gave it up. Idempotent.
    void relock() {
      if (!held_) *this = mutex().lock();
    }
    /// The same in a coroutine: co_await guard.co_relock().
    Coro<void> co_relock();

   private:
    friend class Mutex;
    explicit Guard(Mutex& mutex) noexcept : mutex_(&mutex), held_(true) {}
    Mutex& mutex() const noexcept {
      WEFT_CHECK(mutex_ != nullptr, "an empty Guard has no lock to take again");
      return *mutex_;
    }
    Mutex* mutex_ = nullptr;
    bool held_ = false;
  };

  struct Request : Overtaken {};
  struct Lock {
    using Result = Guard;
    static constexpr Reason reason{"mutex"};
    static Guard result(Mutex& mutex, const Request&) noexcept { return mutex.guard(); }
  };
  using LockOp = PassOp<Mutex, Lock>;
  [[nodiscard]] LockOp lock_op() {
    detail::lock_asked(id());
    return {*this, {}};
  }
  [[nodiscard, gnu::always_inline]] Guard lock() { return perform(lock_op()); }
  [[nodiscard]] std::optional<Guard> try_lock() {
    Request request;
    if (!try_pass(request)) return std::nullopt;
    return guard();
  }
  [[nodiscard]] bool locked() const noexcept {
    return look([&] { return taken(); });
  }

 private:
  friend Turnstile;
  static constexpr bool overtaking = true;
  Guard guard() noexcept {
    detail::lock_taken(id());
    return Guard(*this);
  }
  void unlock() noexcept {
    detail::lock_released(id());
    give_back("unlock");
  }
};

class Condition {
 public:
  Condition() = default;
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  /// Gives the lock up once it is in the queue, so that no notification is missed; and then waits
  /// for one.
  class WaitOp {
   public:
    using Result = void;
    static constexpr Reason reason{"condition"};

    WaitOp(Condition& condition, Mutex::Guard& guard) noexcept
        : condition_(&condition), guard_(&guard) {}
    ObjectId object() const noexcept { return condition_->id_; }
    bool try_now() const noexcept {
      WEFT_CHECK(guard_->held(), "waiting on a Condition without holding its lock");
      return false;
    }
    Armed arm(Arm& arm) noexcept {
      // Published again, and a notification may have come in between: so this is one.
      if (!guard_->held()) return arm.claim() ? Armed::won : Armed::lost;
      {
        std::lock_guard guard(condition_->lock_);
        condition_->line_.push_back(arm);
      }
      guard_->unlock();
      return Armed::waiting;
    }
    void disarm(Arm& arm) noexcept {
      std::lock_guard guard(condition_->lock_);
      arm.unlink();
    }
    void take() const noexcept {}

   private:
    Condition* condition_;
    Mutex::Guard* guard_;
  };
  [[nodiscard]] WaitOp wait_op(Mutex::Guard& guard) noexcept { return {*this, guard}; }

  void wait(Mutex::Guard& guard) {
    const Relock relock{guard};
    perform(wait_op(guard));
  }
  template <class Predicate>
  void wait(Mutex::Guard& guard, Predicate holds) {
    while (!holds()) wait(guard);
  }
  Coro<void> co_wait(Mutex::Guard& guard);
  template <class Predicate>
  Coro<void> co_wait(Mutex::Guard& guard, Predicate holds) {
    while (!holds()) co_await co_wait(guard);
  }

  void notify_one() noexcept { notify(false); }
  void notify_all() noexcept { notify(true); }

 private:
  struct Relock {
    Mutex::Guard& guard;
    ~Relock() {
      const Shield shield;
      guard.relock();
    }
  };
  void notify(bool all) noexcept;

  const ObjectId id_ = new_object_id();
  Spinlock lock_;
  List<Arm> line_;  // under lock_
};

}  // namespace weft

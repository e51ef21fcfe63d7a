/// OwnedPool: a bounded number of things that are expensive to make, lent out one by one.
///
///     weft::OwnedPool<Connection> connections({
///         .create = [&] { return connect(address); },
///         .reset = [](Connection& c) { c.rollback(); },       // when it comes back
///         .healthy = [](Connection& c) { return c.alive(); }, // before it goes out again
///         .most = 16});
///     auto c = connections.acquire();         // waits if all are out; co_await acquire_op()
///     c->query("...");                        // comes back at the end of the block
///     c.discard();                            // or does not: it is broken
///
/// Things are made when they are needed, and the one that came back last goes out first. They are
/// made, reset, checked and destroyed by whoever acquires or gives back, outside of any lock; so
/// these functions may wait, except in a coroutine. A thing that fails its check, or whose reset
/// throws, is destroyed, and another takes its place. If making one throws, acquire() does.
///
/// All must have come back before the pool ends.
#pragma once

#include <weft/sync/semaphore.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace weft {

template <class T>
struct OwnedPoolOptions {
  std::function<T()> create;
  std::function<void(T&)> reset{};    // default: nothing
  std::function<bool(T&)> healthy{};  // default: always
  std::function<void(T&)> destroy{};  // before its destructor
  std::size_t most = 16;              // alive at a time, out or in
};

struct OwnedPoolStats {
  std::uint64_t created = 0;
  std::uint64_t destroyed = 0;
  std::uint64_t lent = 0;
  std::size_t idle = 0;
  std::size_t out = 0;
};

template <class T>
class OwnedPool {
 public:
  explicit OwnedPool(OwnedPoolOptions<T> options)
      : options_(std::move(options)), permits_(options_.most) {
    WEFT_CHECK(options_.create != nullptr, "an OwnedPool needs a function that creates a T");
    WEFT_CHECK(options_.most > 0, "an OwnedPool of nothing");
    idle_.reserve(options_.most);
  }
  OwnedPool(const OwnedPool&) = delete;
  OwnedPool& operator=(const OwnedPool&) = delete;
  ~OwnedPool() {
    const std::size_t out = stats().out;
    WEFT_CHECK(out == 0, "an OwnedPool ends while ", out, " of its things are out");
    while (std::unique_ptr<T> thing = pop()) destroy(std::move(thing));
  }

  /// One that is out. Gives it back when it dies.
  class Lent {
   public:
    Lent(Lent&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          thing_(std::move(other.thing_)),
          permit_(std::move(other.permit_)) {}
    Lent& operator=(Lent&& other) noexcept {
      if (this != &other) {
        give_back();
        pool_ = std::exchange(other.pool_, nullptr);
        thing_ = std::move(other.thing_);
        permit_ = std::move(other.permit_);
      }
      return *this;
    }
    ~Lent() { give_back(); }

    T& operator*() const noexcept { return *thing_; }
    T* operator->() const noexcept { return thing_.get(); }
    explicit operator bool() const noexcept { return pool_ != nullptr; }
    /// Before its time. Idempotent.
    void give_back() noexcept {
      if (pool_ != nullptr) {
        std::exchange(pool_, nullptr)->take_back(std::move(thing_), std::move(permit_));
      }
    }
    /// It is not to be used again.
    void discard() noexcept {
      if (pool_ != nullptr) {
        std::exchange(pool_, nullptr)->drop(std::move(thing_), std::move(permit_));
      }
    }

   private:
    friend class OwnedPool;
    Lent(OwnedPool& pool, std::unique_ptr<T> thing, Semaphore::Permit permit) noexcept
        : pool_(&pool), thing_(std::move(thing)), permit_(std::move(permit)) {}
    OwnedPool* pool_;
    std::unique_ptr<T> thing_;
    Semaphore::Permit permit_;
  };

  [[nodiscard]] auto acquire_op() {
    return map(permits_.acquire_op(),
               [this](Semaphore::Permit permit) { return lend(std::move(permit)); });
  }
  [[nodiscard]] Lent acquire() { return perform(acquire_op()); }
  /// Nothing if all are out.
  [[nodiscard]] std::optional<Lent> try_acquire() {
    auto permit = permits_.try_acquire();
    if (!permit) return std::nullopt;
    return lend(std::move(*permit));
  }
  /// Destroys those that are not out.
  void clear() noexcept {
    detail::point({.what = "clear", .address = this});
    while (std::unique_ptr<T> thing = pop()) destroy(std::move(thing));
  }
  [[nodiscard]] OwnedPoolStats stats() const noexcept {
    std::lock_guard guard(lock_);
    OwnedPoolStats stats = stats_;
    stats.idle = idle_.size();
    return stats;
  }

 private:
  Lent lend(Semaphore::Permit permit) {
    std::unique_ptr<T> thing = pop();
    while (thing && !healthy(thing)) {
      destroy(std::move(thing));
      thing = pop();
    }
    const bool fresh = thing == nullptr;
    if (fresh) thing = std::make_unique<T>(options_.create());
    std::lock_guard guard(lock_);
    if (fresh) ++stats_.created;
    ++stats_.lent;
    ++stats_.out;
    return Lent(*this, std::move(thing), std::move(permit));
  }
  bool healthy(std::unique_ptr<T>& thing) {
    try {
      return !options_.healthy || options_.healthy(*thing);
    } catch (...) {
      destroy(std::move(thing));
      throw;
    }
  }
  void take_back(std::unique_ptr<T> thing, Semaphore::Permit permit) noexcept {
    try {
      if (options_.reset) options_.reset(*thing);
    } catch (...) {
      drop(std::move(thing), std::move(permit));
      return;
    }
    {
      std::lock_guard guard(lock_);
      idle_.push_back(std::move(thing));  // there is room: see the constructor
    }
    is_back(permit);
  }
  void drop(std::unique_ptr<T> thing, Semaphore::Permit permit) noexcept {
    destroy(std::move(thing));
    is_back(permit);
  }
  /// Once the last one is back the pool may end: so this comes last.
  void is_back(Semaphore::Permit& permit) noexcept {
    permit.release();
    std::lock_guard guard(lock_);
    --stats_.out;
  }
  void destroy(std::unique_ptr<T> thing) noexcept {
    try {
      if (options_.destroy) options_.destroy(*thing);
    } catch (...) {  // it is being destroyed anyway
    }
    thing.reset();
    std::lock_guard guard(lock_);
    ++stats_.destroyed;
  }
  std::unique_ptr<T> pop() noexcept {
    std::lock_guard guard(lock_);
    if (idle_.empty()) return nullptr;
    std::unique_ptr<T> thing = std::move(idle_.back());
    idle_.pop_back();
    return thing;
  }

  const OwnedPoolOptions<T> options_;
  Semaphore permits_;
  mutable Spinlock lock_;
  std::vector<std::unique_ptr<T>> idle_;  // under lock_
  OwnedPoolStats stats_;                  // under lock_
};

}  // namespace weft

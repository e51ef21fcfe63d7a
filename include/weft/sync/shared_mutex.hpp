/// SharedMutex: many readers, or one writer.
///
///     weft::SharedMutex mutex;
///     { auto reading = mutex.lock_shared(); ... }
///     { auto writing = mutex.lock(); ... }
///     auto got = perform(timeout(mutex.lock_op(), 1s));
///
/// First come, first served: readers that come after a waiting writer wait behind it, so writers
/// are not starved; readers that stand one behind the other pass together.
#pragma once

#include <weft/sync/lock_watch.hpp>
#include <weft/sync/turnstile.hpp>

#include <cstddef>
#include <optional>

namespace weft {

class SharedMutex : public Turnstile<SharedMutex> {
 public:
  SharedMutex() = default;
  ~SharedMutex() = default;

  struct Request {
    bool shared;
  };

  template <bool shared>
  class BasicGuard {
   public:
    BasicGuard() = default;
    BasicGuard(BasicGuard&& other) noexcept : mutex_(std::exchange(other.mutex_, nullptr)) {}
    BasicGuard& operator=(BasicGuard&& other) noexcept {
      if (this != &other) {
        unlock();
        mutex_ = std::exchange(other.mutex_, nullptr);
      }
      return *this;
    }
    ~BasicGuard() { unlock(); }

    [[nodiscard]] bool held() const noexcept { return mutex_ != nullptr; }
    /// Before its time. Idempotent.
    void unlock() noexcept {
      if (mutex_ != nullptr) std::exchange(mutex_, nullptr)->unlock(shared);
    }

   private:
    friend class SharedMutex;
    explicit BasicGuard(SharedMutex& mutex) noexcept : mutex_(&mutex) {}
    SharedMutex* mutex_ = nullptr;
  };
  using Guard = BasicGuard<false>;
  using SharedGuard = BasicGuard<true>;

  template <bool shared>
  struct Lock {
    using Result = BasicGuard<shared>;
    static constexpr Reason reason{shared ? "mutex, shared" : "mutex"};
    static Result result(SharedMutex& mutex, const Request&) noexcept {
      return mutex.taken<shared>();
    }
  };
  [[nodiscard]] auto lock_op() { return ask<false>(); }
  [[nodiscard]] auto lock_shared_op() { return ask<true>(); }
  [[nodiscard]] Guard lock() { return perform(lock_op()); }
  [[nodiscard]] SharedGuard lock_shared() { return perform(lock_shared_op()); }
  [[nodiscard]] std::optional<Guard> try_lock() { return try_to<false>(); }
  [[nodiscard]] std::optional<SharedGuard> try_lock_shared() { return try_to<true>(); }

 private:
  friend Turnstile;
  [[nodiscard]] bool may_pass(const Request& request) const noexcept {
    return !writing_ && (request.shared || readers_ == 0);
  }
  void let_pass(const Request& request) noexcept {
    if (request.shared) {
      ++readers_;
    } else {
      writing_ = true;
    }
  }
  template <bool shared>
  PassOp<SharedMutex, Lock<shared>> ask() {
    detail::lock_asked(id(), shared);
    return {*this, {shared}};
  }
  template <bool shared>
  BasicGuard<shared> taken() noexcept {
    detail::lock_taken(id(), shared);
    return BasicGuard<shared>(*this);
  }
  void unlock(bool shared) noexcept {
    detail::lock_released(id());
    change([&] {
      if (shared) {
        --readers_;
      } else {
        writing_ = false;
      }
    });
  }
  template <bool shared>
  std::optional<BasicGuard<shared>> try_to() {
    Request request{shared};
    if (!try_pass(request)) return std::nullopt;
    return taken<shared>();
  }

  std::size_t readers_ = 0;
  bool writing_ = false;
};

}  // namespace weft

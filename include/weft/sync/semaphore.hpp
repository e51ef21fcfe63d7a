/// Semaphore: so many permits, for so many at a time.
///
///     weft::Semaphore slots(8);
///     auto permit = slots.acquire();             // waits; given back at the end of the block
///     auto some = slots.acquire(3);              // all of them at once, or none
///     auto got = perform(timeout(slots.acquire_op(), 1s));   // std::optional<Permit>
///     slots.release(2);                          // adds permits, from anywhere
///
/// First come, first served: a request for many is not overtaken by requests for few.
#pragma once

#include <weft/sync/turnstile.hpp>

#include <cstddef>
#include <optional>

namespace weft {

class Semaphore : public Turnstile<Semaphore> {
 public:
  explicit Semaphore(std::size_t permits) noexcept : permits_(permits) {}
  ~Semaphore() = default;

  /// Gives its permits back when it dies. Movable.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept
        : semaphore_(std::exchange(other.semaphore_, nullptr)), count_(other.count_) {}
    Permit& operator=(Permit&& other) noexcept {
      if (this != &other) {
        release();
        semaphore_ = std::exchange(other.semaphore_, nullptr);
        count_ = other.count_;
      }
      return *this;
    }
    ~Permit() { release(); }

    [[nodiscard]] std::size_t count() const noexcept { return semaphore_ == nullptr ? 0 : count_; }
    explicit operator bool() const noexcept { return semaphore_ != nullptr; }
    /// Before its time. Idempotent.
    void release() noexcept {
      if (semaphore_ != nullptr) std::exchange(semaphore_, nullptr)->release(count_);
    }
    /// It will not be given back: the permits are used up.
    void keep() noexcept { semaphore_ = nullptr; }

   private:
    friend class Semaphore;
    Permit(Semaphore& semaphore, std::size_t count) noexcept
        : semaphore_(&semaphore), count_(count) {}
    Semaphore* semaphore_ = nullptr;
    std::size_t count_ = 0;
  };

  struct Request {
    std::size_t count = 1;
  };
  struct Acquire {
    using Result = Permit;
    static constexpr Reason reason{"semaphore"};
    static Permit result(Semaphore& semaphore, const Request& request) noexcept {
      return Permit(semaphore, request.count);
    }
  };
  [[nodiscard]] auto acquire_op(std::size_t count = 1) {
    return PassOp<Semaphore, Acquire>(*this, {count});
  }
  [[nodiscard]] Permit acquire(std::size_t count = 1) { return perform(acquire_op(count)); }
  /// Nothing if it would have to wait.
  [[nodiscard]] std::optional<Permit> try_acquire(std::size_t count = 1) {
    Request request{count};
    if (!try_pass(request)) return std::nullopt;
    return Permit(*this, count);
  }
  void release(std::size_t count = 1) noexcept {
    change([&] { permits_ += count; }, "release");
  }
  /// Now; others may change it at any time.
  [[nodiscard]] std::size_t available() const noexcept {
    return look([&] { return permits_; });
  }

 private:
  friend Turnstile;
  [[nodiscard]] bool may_pass(const Request& request) const noexcept {
    return permits_ >= request.count;
  }
  void let_pass(const Request& request) noexcept { permits_ -= request.count; }

  std::size_t permits_;
};

}  // namespace weft

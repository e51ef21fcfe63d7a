/// Broadcast: everything that is sent reaches everybody who has subscribed.
///
///     weft::Broadcast<Quote> quotes(1024);
///     auto mine = quotes.subscribe();              // sees what is sent from now on
///     quotes.send(quote);                          // never waits
///     while (auto got = mine.recv()) {             // co_await mine.recv_op()
///       if (got->missed > 0) resynchronise();
///       use(**got);
///     }
///
/// The last `capacity` values are kept, for all together. A subscriber that falls further behind is
/// told how many it has missed, and goes on with the oldest that is still there; a slow one costs
/// the others nothing. After close() all get what is left, then nothing.
///
/// A value is shared, not copied: a `Got` keeps it as long as it is needed.
#pragma once

#include <weft/sync/turnstile.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace weft {

template <class T>
class Broadcast : public Turnstile<Broadcast<T>> {
 public:
  /// At least one.
  explicit Broadcast(std::size_t capacity) : ring_(capacity) {
    WEFT_CHECK(capacity > 0, "a Broadcast must have room for one value");
  }
  ~Broadcast() { WEFT_CHECK(subscribers_ == 0, "a Broadcast ends before its subscriptions"); }

  struct Got {
    std::shared_ptr<const T> value;
    std::uint64_t missed;  // between this one and the one before
    const T& operator*() const noexcept { return *value; }
    const T* operator->() const noexcept { return value.get(); }
  };

  /// False: closed.
  bool send(T value) {
    auto shared = std::make_shared<const T>(std::move(value));
    return this->change([&] {
      if (closed_) return false;
      slot(sent_).swap(shared);  // what was there dies after the lock
      ++sent_;
      return true;
    });
  }
  void close() noexcept {
    this->change([&] { closed_ = true; });
  }
  [[nodiscard]] std::size_t subscribers() const noexcept {
    return this->look([&] { return subscribers_; });
  }
  [[nodiscard]] std::uint64_t sent() const noexcept {
    return this->look([&] { return sent_; });
  }

  /// How far somebody has read. Must not outlive the Broadcast; one task at a time.
  class Subscription;
  [[nodiscard]] Subscription subscribe() { return Subscription(*this); }

  static constexpr bool in_order = false;
  struct Request {
    Subscription* subscription;
    std::shared_ptr<const T> value{};
    std::uint64_t missed = 0;
  };
  struct Receive {
    using Result = std::optional<Got>;
    static constexpr Reason reason{"broadcast"};
    static Result result(Broadcast&, Request& request) noexcept {
      if (!request.value) return std::nullopt;
      return Got{std::move(request.value), request.missed};
    }
  };

 private:
  friend Turnstile<Broadcast>;
  [[nodiscard]] bool may_pass(const Request& request) const noexcept {
    return request.subscription->next_ < sent_ || closed_;
  }
  void let_pass(Request& request) noexcept {
    std::uint64_t& next = request.subscription->next_;
    if (next == sent_) return;  // closed
    const std::uint64_t oldest = sent_ < ring_.size() ? 0 : sent_ - ring_.size();
    if (next < oldest) request.missed = oldest - std::exchange(next, oldest);
    request.value = slot(next++);
  }
  std::shared_ptr<const T>& slot(std::uint64_t number) noexcept {
    return ring_[number % ring_.size()];
  }

  std::vector<std::shared_ptr<const T>> ring_;
  std::uint64_t sent_ = 0;
  std::size_t subscribers_ = 0;
  bool closed_ = false;
};

template <class T>
class Broadcast<T>::Subscription {
 public:
  Subscription(Subscription&& other) noexcept
      : broadcast_(std::exchange(other.broadcast_, nullptr)), next_(other.next_) {}
  Subscription& operator=(Subscription&&) = delete;
  ~Subscription() {
    if (broadcast_ != nullptr) broadcast_->change([&] { --broadcast_->subscribers_; });
  }

  [[nodiscard]] auto recv_op() { return PassOp<Broadcast, Receive>(*broadcast_, {this}); }
  /// Nothing: closed, and all read.
  std::optional<Got> recv() { return perform(recv_op()); }
  /// Nothing: nothing new now.
  std::optional<Got> try_recv() {
    Request request{this};
    if (!broadcast_->try_pass(request)) return std::nullopt;
    return Receive::result(*broadcast_, request);
  }

 private:
  friend class Broadcast;
  explicit Subscription(Broadcast& broadcast)
      : broadcast_(&broadcast), next_(broadcast.change([&] {
          ++broadcast.subscribers_;
          return broadcast.sent_;
        })) {}

  Broadcast* broadcast_;
  std::uint64_t next_;  // under the broadcast's lock while it is subscribed
};

}  // namespace weft

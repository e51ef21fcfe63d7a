/// A channel: a queue of values on which tasks and threads meet.
///
///     weft::Channel<Job> jobs(64);
///     scope.spawn([&] { for (auto& j : plan) jobs.send(j); jobs.close(); });
///     for (Job& job : jobs) work(job);                 // or: while (auto job = jobs.recv())
///
///     Channel<int> rendezvous;                         // capacity 0: send returns when a receiver
///                                                      // has the value
///     Channel<int> endless(unbounded);                 // send never waits
///     Channel<Frame> video({.capacity = 8, .overflow = Overflow::drop_old});
///
/// Any task or plain thread may call any member. A value is handed only to a receiver that has won
/// its wait, so cancelling or timing out a receive never loses one; a send that is cancelled was
/// not received. What a send could not deliver is in its result.
///
/// After close() sends fail and receivers drain what is left, then get nothing. close_with(error),
/// by either side, does the same with an error: senders at once, and receivers after draining,
/// throw it.
///
/// Rejected: a lock-free ring. It cannot withdraw a waiter in O(1), and select needs that.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/rng.hpp>
#include <weft/base/slots.hpp>
#include <weft/sync/line.hpp>
#include <weft/wait/leaning_lock.hpp>
#include <weft/wait/perform.hpp>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>

namespace weft {

/// What a send does when the channel is full.
enum class Overflow : std::uint8_t {
  block,     // waits
  drop_new,  // the value is dropped
  drop_old,  // the oldest in the channel is dropped
  sample,    // the channel keeps a fair sample of all that was sent since it became full
};

inline constexpr std::size_t unbounded = ~std::size_t{0};

struct ChannelOptions {
  std::size_t capacity = 0;
  Overflow overflow = Overflow::block;  // others need a capacity
};

struct ChannelStats {
  std::uint64_t sent = 0;  // among them those that were dropped later
  std::uint64_t received = 0;
  std::uint64_t dropped = 0;
  std::size_t waiting = 0;  // values in the channel
};

/// Of a send: true, or false and the value that could not be delivered because the channel is
/// closed.
template <class T>
class Sent {
 public:
  Sent(bool sent) noexcept : sent_(sent) {}  // so that value_or(false) works
  explicit Sent(std::optional<T> back) noexcept : sent_(!back), back_(std::move(back)) {}
  operator bool() const noexcept { return sent_; }
  [[nodiscard]] std::optional<T>& returned() noexcept { return back_; }

 private:
  bool sent_;
  std::optional<T> back_;
};

template <class T>
class Channel {
  static_assert(std::is_nothrow_move_constructible_v<T>,
                "Channel<T>: values change hands under a lock, between a claim and its commit, so "
                "moving a T must not throw; use Channel<std::unique_ptr<T>>");

 public:
  /// Room for `capacity` values, rounded up to a power of two, is made at once; unless it is
  /// unbounded.
  explicit Channel(std::size_t capacity = 0) : Channel(ChannelOptions{.capacity = capacity}) {}
  explicit Channel(ChannelOptions options)
      : capacity_(options.capacity),
        overflow_(options.overflow),
        room_(capacity_ == unbounded ? 0 : capacity_),
        slots_(room_) {
    WEFT_CHECK(overflow_ == Overflow::block || capacity_ > 0,
               "a Channel that drops values must have room for one");
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel() {
    while (count_ > 0) {
      // So that it dies when it is no longer in the channel, which it may know.
      [[maybe_unused]] const T last(std::move(slots_[0]));
      drop_first(count_);
    }
  }

  class RecvOp {
   public:
    using Result = std::optional<T>;  // empty: closed and drained
    static constexpr Reason reason{"channel recv"};

    explicit RecvOp(Channel& channel) noexcept : channel_(channel) {}
    ObjectId object() const noexcept { return channel_.id_; }
    [[gnu::always_inline]] bool looks_ready() const noexcept {
      return channel_.count_ > 0 || channel_.senders_.anybody() || channel_.closed_;
    }
    [[gnu::always_inline]] bool quick() noexcept { return channel_.take_quickly(value_); }
    [[gnu::always_inline]] bool try_now() {
      Channel& channel = channel_;
      WakeList wakes;
      const LeaningGuard guard(channel.lock_);
      return channel.take_locked(value_, nullptr, wakes);
    }
    [[gnu::always_inline]] Armed arm(Arm& arm) {
      Channel& channel = channel_;
      WakeList wakes;
      const LeaningGuard guard(channel.lock_);
      if (channel.could_recv(arm.wait)) [[unlikely]] {
        // Ourselves first, then the peer: a sender in a select of its own may be gone in the
        // meantime.
        if (!arm.claim()) return Armed::lost;
        return channel.take_after_all(value_, *arm.wait, wakes) ? Armed::won : Armed::retry;
      }
      arm.slot = &value_;
      channel.receivers_.push_back(arm);
      return Armed::waiting;
    }
    void disarm(Arm& arm) noexcept { channel_.withdraw(channel_.receivers_, arm); }
    Result take() {
      if (value_) [[likely]]
        return Result(std::in_place, std::move(*value_));
      channel_.throw_if_failed();
      return std::nullopt;
    }

   private:
    Channel& channel_;
    std::optional<T> value_;
  };

  class SendOp {
   public:
    using Result = Sent<T>;
    static constexpr Reason reason{"channel send"};

    SendOp(Channel& channel, T value) : channel_(channel), offer_{std::move(value), true} {}
    ObjectId object() const noexcept { return channel_.id_; }
    [[gnu::always_inline]] bool looks_ready() const noexcept {
      return channel_.count_ < channel_.capacity_ || channel_.receivers_.anybody() ||
             channel_.closed_ || channel_.overflow_ != Overflow::block;
    }
    [[gnu::always_inline]] bool quick() noexcept { return channel_.give_quickly(offer_.value); }
    [[gnu::always_inline]] bool try_now() {
      Channel& channel = channel_;
      WakeList wakes;
      const LeaningGuard guard(channel.lock_);
      channel.make_room();
      return channel.give_locked(offer_.value, nullptr, wakes, offer_.accepted);
    }
    [[gnu::always_inline]] Armed arm(Arm& arm) {
      Channel& channel = channel_;
      WakeList wakes;
      const LeaningGuard guard(channel.lock_);
      if (channel.could_send(arm.wait)) [[unlikely]] {
        channel.make_room();  // may throw, so before the claim
        if (!arm.claim()) return Armed::lost;
        return channel.give_after_all(offer_, *arm.wait, wakes) ? Armed::won : Armed::retry;
      }
      arm.slot = &offer_;
      channel.senders_.push_back(arm);
      return Armed::waiting;
    }
    void disarm(Arm& arm) noexcept { channel_.withdraw(channel_.senders_, arm); }
    Result take() {
      if (offer_.accepted) [[likely]]
        return true;
      channel_.throw_if_failed();
      return Sent<T>(std::optional<T>(std::move(offer_.value)));
    }

   private:
    friend class Channel;
    Channel& channel_;
    struct Offer {
      T value;
      bool accepted;
    } offer_;
  };

  [[nodiscard]] RecvOp recv_op() noexcept { return RecvOp(*this); }
  [[nodiscard]] SendOp send_op(T value) { return SendOp(*this, std::move(value)); }

  /// The next value; nothing once the channel is closed and empty.
  std::optional<T> recv() { return perform(recv_op()); }
  /// False if the channel is closed; the value is then in the result.
  Sent<T> send(T value) { return perform(send_op(std::move(value))); }

  /// The next value if there is one now, or somebody who waits to send one.
  std::optional<T> try_recv() {
    detail::point(id_, Access::write, "try_recv");
    std::optional<T> value;
    WakeList wakes;
    const LeaningGuard guard(lock_);
    static_cast<void>(take_locked(value, nullptr, wakes));
    return value;
  }
  /// True: sent; `value` is moved from, or what was dropped for it. False: full, or closed.
  bool try_send(T&& value) {
    detail::point(id_, Access::write, "try_send");
    bool accepted = true;
    WakeList wakes;
    const LeaningGuard guard(lock_);
    make_room();
    return give_locked(value, nullptr, wakes, accepted) && accepted;
  }
  bool try_send(const T& value) {
    T copy(value);
    return try_send(std::move(copy));
  }

  /// Ends it: waiting senders fail, waiting receivers get nothing. Idempotent.
  void close() noexcept { close_with(nullptr); }
  /// Ends it by an error. The first one counts.
  void close_with(std::exception_ptr error) noexcept {
    detail::point(id_, Access::write, "close");
    WakeList wakes;
    const LeaningGuard guard(lock_);
    if (closed_) return;
    closed_ = true;
    error_ = std::move(error);
    while (Arm* arm = receivers_.claim_other(nullptr)) wakes.add(*arm);
    while (Arm* arm = senders_.claim_other(nullptr)) {
      offer_of(*arm).accepted = false;
      wakes.add(*arm);
    }
  }
  [[nodiscard]] bool closed() const noexcept {
    detail::point(id_, Access::read, "closed?");
    const LeaningGuard guard(lock_);
    return closed_;
  }

  [[nodiscard]] std::size_t size() const noexcept {
    detail::point(id_, Access::read, "size");
    const LeaningGuard guard(lock_);
    return count_;
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] ChannelStats stats() const noexcept {
    detail::point(id_, Access::read, "stats");
    const LeaningGuard guard(lock_);
    return {.sent = sent_,
            .received = sent_ - dropped_ - count_,
            .dropped = dropped_,
            .waiting = count_};
  }

  /// for (T& value : channel): receives until the channel is closed and empty.
  class Iterator {
   public:
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(Channel& channel) : channel_(&channel), value_(channel.recv()) {}
    T& operator*() noexcept { return *value_; }
    Iterator& operator++() {
      value_ = channel_->recv();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const noexcept { return !value_.has_value(); }

   private:
    Channel* channel_;
    std::optional<T> value_;
  };
  [[nodiscard]] Iterator begin() { return Iterator(*this); }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }

 private:
  using Offer = typename SendOp::Offer;
  static Offer& offer_of(Arm& sender) noexcept { return *static_cast<Offer*>(sender.slot); }

  bool could_recv(const Wait* self) noexcept {
    return count_ > 0 || closed_ || senders_.first_other(self) != nullptr;
  }
  bool could_send(const Wait* self) noexcept {
    return closed_ || count_ < capacity_ || overflow_ != Overflow::block ||
           receivers_.first_other(self) != nullptr;
  }

  // What concerns nobody else: there is a value, or room for one, and nobody waits for it.
  [[gnu::always_inline]] bool take_quickly(std::optional<T>& into) noexcept {
    if (count_ == 0) return false;
    auto* const hold = lock_.take_quickly();
    if (hold == nullptr) return false;
    const std::size_t count = count_;
    const bool may = count > 0 && !senders_.anybody();
    if (may) [[likely]] {
      into.emplace(std::move(slots_[0]));
      drop_first(count);
    }
    lock_.give_back(*hold);
    return may;
  }
  [[gnu::always_inline]] bool give_quickly(T& value) noexcept {
    if (count_ >= room_ || receivers_.anybody()) return false;
    auto* const hold = lock_.take_quickly();
    if (hold == nullptr) return false;
    const std::size_t count = count_;
    const bool may = count < room_ && !receivers_.anybody() && !closed_;
    if (may) [[likely]] {
      push(std::move(value), count);
      ++sent_;
    }
    lock_.give_back(*hold);
    return may;
  }

  // Whoever did not find anything when it tried, and does so when it is about to wait: rarely.
  [[gnu::noinline]] bool take_after_all(std::optional<T>& into, const Wait& self, WakeList& wakes) {
    return take_locked(into, &self, wakes);
  }
  [[gnu::noinline]] bool give_after_all(Offer& offer, const Wait& self, WakeList& wakes) {
    return give_locked(offer.value, &self, wakes, offer.accepted);
  }

  [[gnu::always_inline]] bool take_locked(std::optional<T>& into, const Wait* self,
                                          WakeList& wakes) {
    if (const std::size_t count = count_; count > 0) {
      into.emplace(std::move(slots_[0]));
      drop_first(count);
      if (senders_.anybody()) [[unlikely]]
        accept_one(self, wakes);  // there is room again
      return true;
    }
    if (Arm* sender = senders_.claim_other(self)) {
      into.emplace(std::move(offer_of(*sender).value));
      wakes.add(*sender);
      ++sent_;
      return true;
    }
    return closed_;
  }

  /// What a full channel drops is then in `value`: it must not die under the lock.
  [[gnu::always_inline]] bool give_locked(T& value, const Wait* self, WakeList& wakes,
                                          bool& accepted) {
    if (closed_) {
      accepted = false;
      return true;
    }
    if (Arm* receiver = receivers_.claim_other(self)) {
      static_cast<std::optional<T>*>(receiver->slot)->emplace(std::move(value));
      wakes.add(*receiver);
    } else if (const std::size_t count = count_; count < capacity_) {
      push(std::move(value), count);
    } else if (overflow_ == Overflow::block) {
      return false;
    } else {
      squeeze_in(value);
    }
    ++sent_;
    return true;
  }
  /// From a sender that waited for room.
  [[gnu::noinline]] void accept_one(const Wait* self, WakeList& wakes) noexcept {
    Arm* const sender = senders_.claim_other(self);
    if (sender == nullptr) return;
    push(std::move(offer_of(*sender).value), count_);
    ++sent_;
    wakes.add(*sender);
  }
  /// Into a full channel, in exchange for another value or for nothing.
  [[gnu::noinline]] void squeeze_in(T& value) noexcept {
    ++dropped_;
    if (const std::uint64_t gone = sent_ - dropped_; gone != gone_when_over_) {
      over_ = 0;  // somebody has taken one since
      gone_when_over_ = gone;
    }
    ++over_;
    if (overflow_ == Overflow::drop_old) {
      T oldest = std::move(slots_[0]);
      drop_first(count_);
      push(std::move(value), count_);
      replace(value, std::move(oldest));
    } else if (overflow_ == Overflow::sample) {
      // Of the n values since it was full, each stays with the same probability, capacity / n.
      const auto n = static_cast<std::uint32_t>(std::min<std::uint64_t>(capacity_ + over_, ~0U));
      // A plain thread has no Io that chooses.
      const std::uint64_t at = current() != nullptr ? choose(n) : mix(sent_) % n;
      if (at >= capacity_) return;
      T other = std::move(slots_[at]);
      replace(slots_[at], std::move(value));
      replace(value, std::move(other));
    }
  }
  /// Of a value that was moved from. Not every T can be assigned to.
  static void replace(T& old, T&& value) noexcept {
    std::destroy_at(&old);
    std::construct_at(&old, std::move(value));
  }

  /// Of an unbounded channel; may throw.
  void make_room() {
    if (capacity_ == unbounded && count_ == slots_.size()) [[unlikely]]
      grow();
  }
  [[gnu::noinline]] void grow() {
    Slots<T> larger(std::max<std::size_t>(slots_.size() * 2, 16));
    for (std::size_t i = 0; i < count_; ++i) {
      larger.push(std::move(slots_[0]), i);
      slots_.drop_first();
    }
    slots_ = std::move(larger);
    room_ = slots_.size();
  }
  void push(T&& value, std::size_t count) noexcept {
    slots_.push(std::move(value), count);
    count_ = count + 1;
  }
  void drop_first(std::size_t count) noexcept {
    slots_.drop_first();
    count_ = count - 1;
  }

  void withdraw(detail::Line& line, Arm& arm) noexcept {
    const LeaningGuard guard(lock_);
    line.remove(arm);
  }
  [[gnu::noinline]] void throw_if_failed() const {
    std::exception_ptr error;
    {
      const LeaningGuard guard(lock_);
      error = error_;
    }
    if (error) std::rethrow_exception(error);
  }

  const std::size_t capacity_;
  const Overflow overflow_;
  Relaxed<bool> closed_ = false;  // changed under lock_, like all below
  mutable LeaningLock lock_;      // here, so that what each use needs is 64 bytes in a row
  Relaxed<std::size_t> count_ = 0;
  std::uint64_t sent_ = 0;
  Relaxed<std::size_t> room_;  // for so many values; of an unbounded one it grows
  Slots<T> slots_;
  detail::Line receivers_;
  detail::Line senders_;
  std::uint64_t dropped_ = 0;
  // Sends since it was full and somebody took one; how many had left it by then.
  std::uint64_t over_ = 0;
  std::uint64_t gone_when_over_ = 0;
  std::exception_ptr error_;
  const ObjectId id_ = new_object_id();
};

}  // namespace weft

/// A channel: a queue of values on which tasks and threads meet.
///
///     weft::Channel<Job> jobs(64);
///     scope.spawn([&] { for (auto& j : plan) jobs.send(j); jobs.close(); });
///     while (auto job = jobs.recv()) work(*job);
///
/// Capacity 0 is a rendezvous: send returns when a receiver has the value. Any task or plain thread
/// may call any member. A value is handed only to a receiver that has won its wait, so cancelling
/// or timing out a receive never loses one; a send that is cancelled was not received. After
/// close() sends give false and receivers drain what is left, then get nothing.
///
/// Rejected: a lock-free ring. It cannot withdraw a waiter in O(1), and select needs that.
#pragma once

#include <weft/base/spinlock.hpp>
#include <weft/wait/perform.hpp>

#include <mutex>
#include <optional>
#include <vector>

namespace weft {

template <class T>
class Channel {
  static_assert(std::is_nothrow_move_constructible_v<T>,
                "Channel<T>: values change hands under a lock, between a claim and its commit, so "
                "moving a T must "
                "not throw; use Channel<std::unique_ptr<T>>");

 public:
  /// Room for `capacity` values is made at once.
  explicit Channel(std::size_t capacity = 0) : ring_(capacity) {}
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  class RecvOp {
   public:
    using Result = std::optional<T>;  // empty: closed and drained
    static constexpr Reason reason{"channel recv"};

    explicit RecvOp(Channel& channel) noexcept : channel_(channel) {}
    ObjectId object() const noexcept { return channel_.id_; }
    bool try_now() {
      WakeList wakes;
      std::lock_guard guard(channel_.lock_);
      return channel_.take_locked(value_, nullptr, wakes);
    }
    Armed arm(Arm& arm) {
      WakeList wakes;
      std::lock_guard guard(channel_.lock_);
      if (channel_.could_recv(arm.wait)) {
        // Ourselves first, then the peer: a sender in a select of its own may be gone in the
        // meantime.
        if (!arm.claim()) return Armed::lost;
        return channel_.take_locked(value_, arm.wait, wakes) ? Armed::won : Armed::retry;
      }
      arm.slot = &value_;
      channel_.receivers_.push_back(arm);
      return Armed::waiting;
    }
    void disarm(Arm& arm) noexcept { channel_.withdraw(arm); }
    Result take() { return std::move(value_); }

   private:
    Channel& channel_;
    std::optional<T> value_;
  };

  class SendOp {
   public:
    using Result = bool;  // false: closed, not sent
    static constexpr Reason reason{"channel send"};

    SendOp(Channel& channel, T value) : channel_(channel), offer_{std::move(value), true} {}
    ObjectId object() const noexcept { return channel_.id_; }
    bool try_now() {
      WakeList wakes;
      std::lock_guard guard(channel_.lock_);
      return channel_.give_locked(offer_, nullptr, wakes);
    }
    Armed arm(Arm& arm) {
      WakeList wakes;
      std::lock_guard guard(channel_.lock_);
      if (channel_.could_send(arm.wait)) {
        if (!arm.claim()) return Armed::lost;
        return channel_.give_locked(offer_, arm.wait, wakes) ? Armed::won : Armed::retry;
      }
      arm.slot = &offer_;
      channel_.senders_.push_back(arm);
      return Armed::waiting;
    }
    void disarm(Arm& arm) noexcept { channel_.withdraw(arm); }
    Result take() const noexcept { return offer_.accepted; }

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
  /// False if the channel is closed.
  bool send(T value) { return perform(send_op(std::move(value))); }

  /// Ends it: waiting senders get false, waiting receivers nothing. Idempotent.
  void close() noexcept {
    WakeList wakes;
    std::lock_guard guard(lock_);
    closed_ = true;
    while (Arm* arm = receivers_.pop_front()) {
      if (arm->claim()) wakes.add(*arm);
    }
    while (Arm* arm = senders_.pop_front()) {
      if (!arm->claim()) continue;
      offer_of(*arm).accepted = false;
      wakes.add(*arm);
    }
  }

  [[nodiscard]] std::size_t size() const noexcept {
    std::lock_guard guard(lock_);
    return count_;
  }

 private:
  using Offer = typename SendOp::Offer;
  static Offer& offer_of(Arm& arm) noexcept { return *static_cast<Offer*>(arm.slot); }

  /// The first arm in the queue that may still be claimed and is not ours: a select may offer and
  /// ask on one channel, but not to itself. Passing over claimed peers before we burn our own claim
  /// is what keeps three selects on the two ends of one channel from retrying for ever.
  static Arm* first_other(List<Arm>& queue, const Wait* self) noexcept {
    Arm* arm = queue.front();
    while (arm != nullptr && (arm->wait == self || arm->claimed())) arm = queue.next(*arm);
    return arm;
  }
  bool could_recv(const Wait* self) noexcept {
    return count_ > 0 || closed_ || first_other(senders_, self) != nullptr;
  }
  bool could_send(const Wait* self) noexcept {
    return closed_ || count_ < ring_.size() || first_other(receivers_, self) != nullptr;
  }

  /// Claims the first waiting peer that can still be claimed; those that cannot have lost interest.
  static Arm* claim_other(List<Arm>& queue, const Wait* self) noexcept {
    while (Arm* arm = first_other(queue, self)) {
      arm->unlink();
      if (arm->claim()) return arm;
    }
    return nullptr;
  }

  bool take_locked(std::optional<T>& into, const Wait* self, WakeList& wakes) {
    if (count_ > 0) {
      into.emplace(std::move(*ring_[first_]));
      ring_[first_].reset();
      first_ = (first_ + 1) % ring_.size();
      --count_;
      if (Arm* sender = claim_other(senders_, self)) {  // there is room again
        push(std::move(offer_of(*sender).value));
        wakes.add(*sender);
      }
      return true;
    }
    if (Arm* sender = claim_other(senders_, self)) {
      into.emplace(std::move(offer_of(*sender).value));
      wakes.add(*sender);
      return true;
    }
    return closed_;
  }

  bool give_locked(Offer& offer, const Wait* self, WakeList& wakes) {
    if (closed_) {
      offer.accepted = false;
      return true;
    }
    if (Arm* receiver = claim_other(receivers_, self)) {
      static_cast<std::optional<T>*>(receiver->slot)->emplace(std::move(offer.value));
      wakes.add(*receiver);
      return true;
    }
    if (count_ == ring_.size()) return false;
    push(std::move(offer.value));
    return true;
  }

  void push(T value) noexcept {
    ring_[(first_ + count_) % ring_.size()].emplace(std::move(value));
    ++count_;
  }

  void withdraw(Arm& arm) noexcept {
    std::lock_guard guard(lock_);
    arm.unlink();
  }

  const ObjectId id_ = new_object_id();
  mutable Spinlock lock_;
  bool closed_ = false;  // all below under lock_
  std::vector<std::optional<T>> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  List<Arm> receivers_;
  List<Arm> senders_;
};

}  // namespace weft

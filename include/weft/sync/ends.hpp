/// The two ends of a channel, each with a right of its own.
///
///     auto [out, in] = weft::ends<Job>(64);
///     scope.spawn([out = std::move(out)] { for (auto& j : plan) out.send(j); });   // closes it
///     while (auto job = in.recv()) work(*job);
///
/// A Sender can only send, a Receiver only receive, and both can be copied. When the last Sender is
/// gone the channel is closed: receivers drain what is left, then get nothing. When the last
/// Receiver is gone senders fail, and get their values back.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/sync/channel.hpp>

#include <memory>
#include <utility>

namespace weft {

namespace detail {

template <class T>
struct ChannelWithEnds {
  explicit ChannelWithEnds(ChannelOptions options) : channel(options) {}
  Channel<T> channel;
  Atomic<std::size_t> senders{0};
  Atomic<std::size_t> receivers{0};
};

/// One of `count` ends; the last one of its kind closes the channel.
template <class T, Atomic<std::size_t> ChannelWithEnds<T>::* count>
class ChannelEnd {
 public:
  ChannelEnd() = default;
  explicit ChannelEnd(std::shared_ptr<ChannelWithEnds<T>> shared) noexcept
      : shared_(std::move(shared)) {
    enter();
  }
  ChannelEnd(const ChannelEnd& other) noexcept : ChannelEnd(other.shared_) {}
  ChannelEnd(ChannelEnd&& other) noexcept : shared_(std::move(other.shared_)) {}
  ChannelEnd& operator=(ChannelEnd other) noexcept {
    shared_.swap(other.shared_);
    return *this;
  }
  ~ChannelEnd() { leave(); }

  /// Before its time. Idempotent.
  void leave() noexcept {
    if (shared_ && ((*shared_).*count).fetch_sub(1) == 1) shared_->channel.close();
    shared_.reset();
  }
  void close() const noexcept { channel().close(); }
  void close_with(std::exception_ptr error) const noexcept {
    channel().close_with(std::move(error));
  }
  [[nodiscard]] bool closed() const noexcept { return channel().closed(); }
  [[nodiscard]] std::size_t size() const noexcept { return channel().size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return channel().capacity(); }
  [[nodiscard]] ChannelStats stats() const noexcept { return channel().stats(); }

 protected:
  [[nodiscard]] Channel<T>& channel() const noexcept {
    WEFT_CHECK(shared_ != nullptr, "this end of a channel was moved from, or has left");
    return shared_->channel;
  }

 private:
  void enter() noexcept {
    if (shared_) ((*shared_).*count).fetch_add(1);
  }
  std::shared_ptr<ChannelWithEnds<T>> shared_;
};

}  // namespace detail

template <class T>
class Sender : public detail::ChannelEnd<T, &detail::ChannelWithEnds<T>::senders> {
 public:
  using detail::ChannelEnd<T, &detail::ChannelWithEnds<T>::senders>::ChannelEnd;
  [[nodiscard]] auto send_op(T value) const { return this->channel().send_op(std::move(value)); }
  Sent<T> send(T value) const { return this->channel().send(std::move(value)); }
  bool try_send(T&& value) const { return this->channel().try_send(std::move(value)); }
  bool try_send(const T& value) const { return this->channel().try_send(value); }
};

template <class T>
class Receiver : public detail::ChannelEnd<T, &detail::ChannelWithEnds<T>::receivers> {
 public:
  using detail::ChannelEnd<T, &detail::ChannelWithEnds<T>::receivers>::ChannelEnd;
  [[nodiscard]] auto recv_op() const { return this->channel().recv_op(); }
  std::optional<T> recv() const { return this->channel().recv(); }
  std::optional<T> try_recv() const { return this->channel().try_recv(); }
  [[nodiscard]] auto begin() const { return this->channel().begin(); }
  [[nodiscard]] std::default_sentinel_t end() const noexcept { return {}; }
};

template <class T>
[[nodiscard]] std::pair<Sender<T>, Receiver<T>> ends(ChannelOptions options) {
  auto shared = std::make_shared<detail::ChannelWithEnds<T>>(options);
  return {Sender<T>(shared), Receiver<T>(shared)};
}
template <class T>
[[nodiscard]] std::pair<Sender<T>, Receiver<T>> ends(std::size_t capacity = 0) {
  return ends<T>(ChannelOptions{.capacity = capacity});
}

}  // namespace weft

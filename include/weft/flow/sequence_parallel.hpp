/// Sequences that work ahead: buffer, merge, parallel_map. See sequence.hpp.
///
///     | buffer(n)                  up to n values are made before they are asked for
///     | parallel_map(n, f)         f on up to n values at a time; results in the values' order
///     | parallel_map_any(n, f)     the same, in the order in which they are done
///     merge(a, b, ...)             values of all, as they come
///
/// The work is done by tasks in the scope around whoever first asks for a value. (If that is inside
/// of a timeout(), they end with it.) They hold what they need, and are told to stop when the
/// sequence goes; the scope joins them. Each has room for so many results and no more: whoever
/// reads slowly slows them down. They need a Loop or a Pool.
#pragma once

#include <weft/flow/sequence.hpp>
#include <weft/sync/future.hpp>
#include <weft/sync/mutex.hpp>
#include <weft/sync/ordered.hpp>
#include <weft/task/within.hpp>

namespace weft {

namespace flow_detail {

/// Throws std::logic_error on an inline Io and on a plain thread, where a task runs to its end
/// before its reader goes on.
void check_tasks_run_beside_us();

/// A sequence whose values are made by tasks. `Shared` is held by them and by the sequence.
template <class T, class Shared>
class Ahead : public Source<T> {
 public:
  explicit Ahead(std::shared_ptr<Shared> shared) noexcept : shared_(std::move(shared)) {}
  ~Ahead() override {
    shared_->stop();
    for (const Future<void>& task : tasks_) task.cancel(CancelReason::requested);
  }
  Coro<std::optional<T>> next() override {
    if (!std::exchange(started_, true)) {
      check_tasks_run_beside_us();
      Shared::start(shared_, tasks_);
    }
    return shared_->next();
  }

 private:
  std::shared_ptr<Shared> shared_;
  std::vector<Future<void>> tasks_;
  bool started_ = false;
};

/// In the closure of a task that works for others: tells them when it is through, also if it was
/// cancelled before it began.
template <class Shared>
class Duty {
 public:
  explicit Duty(std::shared_ptr<Shared> shared) noexcept : shared_(std::move(shared)) {}
  Duty(Duty&&) noexcept = default;
  Duty& operator=(Duty&&) = delete;
  ~Duty() {
    if (shared_) shared_->one_is_through();
  }
  Shared* operator->() const noexcept { return shared_.get(); }

 private:
  std::shared_ptr<Shared> shared_;
};

/// Some tasks fill a channel; the last one closes it, or the first that does not come to the end.
template <class T>
class Gathered {
 public:
  Gathered(std::size_t room, std::size_t tasks) : channel_(room), working_(tasks), left_(tasks) {
    if (tasks == 0) channel_.close();
  }

  Coro<std::optional<T>> next() { co_return co_await channel_.recv_op(); }
  void stop() noexcept { channel_.close(); }
  void one_is_through() noexcept {
    if (left_.fetch_sub(1) > 1) return;
    if (working_.load() == 0) {
      channel_.close();
    } else {
      channel_.close_with(std::make_exception_ptr(CancelledError(CancelReason::requested)));
    }
  }

 protected:
  /// What one of them does: `body` sends until there is nothing more.
  Coro<void> work(Coro<void> body) {
    try {
      co_await std::move(body);
    } catch (const Cancelled& c) {
      channel_.close_with(std::make_exception_ptr(CancelledError(c.reason())));
      throw;
    } catch (...) {
      channel_.close_with(std::current_exception());
    }
    working_.fetch_sub(1);
  }
  /// False: nobody reads any more.
  [[nodiscard]] auto send_op(T value) { return channel_.send_op(std::move(value)); }

 private:
  Channel<T> channel_;
  Atomic<std::size_t> working_;  // not at their end
  Atomic<std::size_t> left_;     // tasks
};

/// One task for each of several sequences.
template <class T>
class Merged : public Gathered<T> {
 public:
  Merged(std::vector<Sequence<T>> inputs, std::size_t room)
      : Gathered<T>(room, inputs.size()), inputs_(std::move(inputs)) {}

  static void start(const std::shared_ptr<Merged>& self, std::vector<Future<void>>& tasks) {
    for (std::size_t i = 0; i < self->inputs_.size(); ++i) {
      tasks.push_back(
          async([duty = Duty(self), i] { return duty->work(duty->pass_on(duty->inputs_[i])); }));
    }
  }

 private:
  Coro<void> pass_on(Sequence<T>& input) {
    while (auto value = co_await input.co_next()) {
      if (!co_await this->send_op(*std::move(value))) break;
    }
  }

  std::vector<Sequence<T>> inputs_;
};

/// Several tasks for one sequence, in whatever order they are done.
template <class T, class U, class F>
class MappedAny : public Gathered<U> {
 public:
  MappedAny(Sequence<T> input, std::size_t tasks, F f)
      : Gathered<U>(tasks, tasks), input_(std::move(input)), tasks_(tasks), f_(std::move(f)) {}

  static void start(const std::shared_ptr<MappedAny>& self, std::vector<Future<void>>& tasks) {
    for (std::size_t i = 0; i < self->tasks_; ++i) {
      tasks.push_back(async([duty = Duty(self)] { return duty->work(duty->map_all()); }));
    }
  }

 private:
  Coro<void> map_all() {
    for (;;) {
      std::optional<T> value;
      {
        const Mutex::Guard guard = co_await mutex_.lock_op();
        value = co_await input_.co_next();
      }
      if (!value) break;
      if (!co_await this->send_op(co_await produce(f_, *std::move(value)))) break;
    }
  }

  Mutex mutex_;
  Sequence<T> input_;  // under mutex_
  const std::size_t tasks_;
  F f_;
};

/// One task hands out the values of a sequence; results in their order.
template <class T, class U, class F>
class MappedInOrder {
 public:
  MappedInOrder(Sequence<T> input, std::size_t most, F f)
      : input_(std::move(input)), results_(most), f_(std::move(f)) {}

  Coro<std::optional<U>> next() {
    std::optional<Outcome<U>> outcome = co_await results_.recv_op();
    if (!outcome) co_return std::nullopt;
    co_return std::move(*outcome).value();
  }
  void stop() noexcept { results_.close(); }

  static void start(const std::shared_ptr<MappedInOrder>& self, std::vector<Future<void>>& tasks) {
    tasks.push_back(async([duty = Duty(self)] { return duty->hand_out(); }));
  }
  void one_is_through() noexcept {
    // If it came to its end the results are closed already.
    results_.close_with(std::make_exception_ptr(CancelledError(CancelReason::requested)));
  }

 private:
  Coro<void> hand_out() {
    try {
      // Who stops this task stops its children too.
      const std::function<Coro<void>(Scope&)> body = [this](Scope& s) { return hand_out_to(s); };
      auto outcome = co_await within({.name = "parallel_map"}, body);
      outcome.value();
      results_.close_with(input_error_);
    } catch (const Cancelled& c) {
      results_.close_with(std::make_exception_ptr(CancelledError(c.reason())));
      throw;
    } catch (...) {
      results_.close_with(std::current_exception());
    }
  }
  Coro<void> hand_out_to(Scope& scope) {
    while (auto value = co_await next_input()) {
      auto job = [this, value = *std::move(value)]() mutable {
        return produce(f_, std::move(value));
      };
      if (!co_await results_.send_task_op(scope, std::move(job))) break;
    }
  }
  /// An error there does not stop what is under way: it comes after that.
  Coro<std::optional<T>> next_input() {
    try {
      co_return co_await input_.co_next();
    } catch (const Cancelled&) {
      throw;
    } catch (...) {
      input_error_ = std::current_exception();
    }
    co_return std::nullopt;
  }

  Sequence<T> input_;
  std::exception_ptr input_error_;
  Ordered<U> results_;
  F f_;
};

template <class T, class Shared, class... Args>
Sequence<T> ahead(Args&&... args) {
  return Sequence<T>(
      std::make_unique<Ahead<T, Shared>>(std::make_shared<Shared>(std::forward<Args>(args)...)));
}

}  // namespace flow_detail

namespace seq {

template <class T>
[[nodiscard]] Sequence<T> merge(std::vector<Sequence<T>> inputs) {
  const std::size_t room = inputs.size();
  return flow_detail::ahead<T, flow_detail::Merged<T>>(std::move(inputs), room);
}
template <class T, class... Ts>
[[nodiscard]] Sequence<T> merge(Sequence<T> first, Ts... others) {
  std::vector<Sequence<T>> inputs;
  inputs.push_back(std::move(first));
  (inputs.push_back(std::move(others)), ...);
  return merge(std::move(inputs));
}
[[nodiscard]] inline auto buffer(std::size_t n) {
  WEFT_CHECK(n > 0, "buffer(0) would not work ahead");
  return flow_detail::Operator{[n]<class T>(Sequence<T>&& input) {
    std::vector<Sequence<T>> inputs;
    inputs.push_back(std::move(input));
    return flow_detail::ahead<T, flow_detail::Merged<T>>(std::move(inputs), n);
  }};
}
/// f is called by several tasks at a time.
template <class F>
[[nodiscard]] auto parallel_map(std::size_t n, F f) {
  WEFT_CHECK(n > 0, "parallel_map(0, f) would never call f");
  return flow_detail::Operator{[n, f = std::move(f)]<class T>(Sequence<T>&& input) mutable {
    using U = flow_detail::ProducedBy<std::invoke_result_t<F&, T>>;
    return flow_detail::ahead<U, flow_detail::MappedInOrder<T, U, F>>(std::move(input), n,
                                                                      std::move(f));
  }};
}
template <class F>
[[nodiscard]] auto parallel_map_any(std::size_t n, F f) {
  WEFT_CHECK(n > 0, "parallel_map_any(0, f) would never call f");
  return flow_detail::Operator{[n, f = std::move(f)]<class T>(Sequence<T>&& input) mutable {
    using U = flow_detail::ProducedBy<std::invoke_result_t<F&, T>>;
    return flow_detail::ahead<U, flow_detail::MappedAny<T, U, F>>(std::move(input), n,
                                                                  std::move(f));
  }};
}

}  // namespace seq
}  // namespace weft

/// Flows and time: delay, timeout, retry. See flow.hpp.
#pragma once

#include <weft/flow/flow.hpp>
#include <weft/task/within.hpp>
#include <weft/time/sleep.hpp>

namespace weft {

/// How often to try, and how long to wait in between:
///
///     {.most = 5, .delay = 10ms}        after 10, 20, 40 and 80 ms, each shortened at random by up
///                                       to a half, so that many do not come back at once
struct RetryPolicy {
  std::uint32_t most = 3;  // attempts in all, the first one included
  Duration delay{};        // after the first
  double factor = 2;       // from one delay to the next
  Duration longest = std::chrono::seconds(30);
  double jitter = 0.5;  // by how much of it a delay may be shortened
  /// Which errors are worth another attempt; default: all.
  std::function<bool(const std::exception_ptr&)> when{};
  /// Told of each failure that is followed by another attempt.
  std::function<void(const std::exception_ptr&, std::uint32_t attempt)> on_retry{};

  /// After so many attempts have failed. Draws from the Io's choices.
  [[nodiscard]] Duration delay_after(std::uint32_t failed) const;
  /// Is there another attempt after this error (null: a timeout), which was the `failed`-th? If so,
  /// on_retry has been told.
  [[nodiscard]] bool again(const std::exception_ptr& error, std::uint32_t failed) const;
};

namespace flow_detail {
[[nodiscard]] Coro<void> run_with_deadline(const Node& input, Slot& slot, Duration limit);
[[nodiscard]] Coro<void> pause(Duration d);
}  // namespace flow_detail

namespace flow {

[[nodiscard]] inline Flow<void> delay(Duration d) {
  return call([d] { return sleep_op(d); });
}

[[nodiscard]] inline auto timeout(Duration limit) {
  return flow_detail::Operator{[limit]<class T>(const Flow<T>& input) {
    return flow_detail::leaf<T>(
        [limit](flow_detail::Slot& slot, const flow_detail::NodeRef& node) {
          return flow_detail::Step::after(flow_detail::run_with_deadline(*node.get(), slot, limit));
        },
        input.node());
  }};
}

/// A timeout (inside of it: `f | timeout(1s) | retry(policy)`) counts as an error here.
[[nodiscard]] inline auto retry(RetryPolicy policy) {
  WEFT_CHECK(policy.most > 0, "retry() with no attempts at all");
  return flow_detail::Operator{[policy = std::move(policy)]<class T>(const Flow<T>& input) {
    return flow_detail::after<T>(input, [policy](flow_detail::Slot& slot, flow_detail::Frame& frame,
                                                 const flow_detail::NodeRef& input_again) {
      if (!slot.can_be_mended()) return flow_detail::Step::done();
      const auto failed = static_cast<std::uint32_t>(++frame.times);
      const std::exception_ptr error = slot.failed() ? slot.error() : nullptr;
      if (!policy.again(error, failed)) return flow_detail::Step::done();
      flow_detail::Step step = flow_detail::Step::first(input_again);
      if (const Duration d = policy.delay_after(failed); d > Duration::zero()) {
        step.wait = flow_detail::pause(d);
      }
      return step;
    });
  }};
}

}  // namespace flow
}  // namespace weft

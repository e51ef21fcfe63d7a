#include <weft/flow/timing.hpp>

#include <algorithm>
#include <cmath>

namespace weft {

Duration RetryPolicy::delay_after(std::uint32_t failed) const {
  constexpr std::uint32_t grains = 1024;
  if (delay <= Duration::zero() || longest <= Duration::zero()) return Duration::zero();
  const double grown = static_cast<double>(delay.count()) *
                       std::pow(factor, failed == 0 ? 0.0 : static_cast<double>(failed - 1));
  // Not the other way round: what has become infinite, or no number, is too long.
  const Duration bounded = grown < static_cast<double>(longest.count())
                               ? Duration(static_cast<Duration::rep>(grown))
                               : longest;
  if (jitter <= 0) return bounded;
  const auto cut = static_cast<std::uint32_t>(std::min(jitter, 1.0) * choose(grains));
  return bounded - bounded / grains * cut;
}

bool RetryPolicy::again(const std::exception_ptr& error, std::uint32_t failed) const {
  if (failed >= most || (error && when && !when(error))) return false;
  if (on_retry) on_retry(error, failed);
  return true;
}

namespace flow_detail {

Coro<void> pause(Duration d) {
  co_await sleep_op(d);
}

Coro<void> run_with_deadline(const Node& input, Slot& slot, Duration limit) {
  const ScopeOptions options{.deadline = now() + limit, .name = "timeout"};
  const auto outcome =
      co_await within(options, [&](Scope&) -> Coro<void> { co_await run(input, slot); });
  if (outcome.failed()) std::rethrow_exception(outcome.error());
  if (outcome.cancelled()) slot.cancel(outcome.reason());
}

}  // namespace flow_detail
}  // namespace weft

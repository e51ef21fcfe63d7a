/// Waiting for time to pass, on the clock of the Io the waiter runs on.
///
///     sleep(10ms);                                     co_await sleep_op(10ms);
///     auto answer = perform(timeout(ch.recv_op(), 1s));   // std::optional: empty if time ran out
///
/// timeout() makes any operation timed, so no primitive has a timed variant of its own. If the
/// operation and the deadline are both ready, the operation wins. A sleep that loses or is
/// cancelled withdraws its timer at once.
#pragma once

#include <weft/wait/perform.hpp>
#include <weft/wait/timer.hpp>

namespace weft {

class SleepOp {
 public:
  using Result = void;
  static constexpr Reason reason{"sleep"};

  /// `lasting`: from the moment the wait begins.
  explicit SleepOp(Duration lasting) noexcept : lasting_(lasting) {}
  explicit SleepOp(Instant until) noexcept : until_(until), absolute_(true) {}
  SleepOp(const SleepOp& other) noexcept
      : lasting_(other.lasting_), until_(other.until_), absolute_(other.absolute_) {}
  SleepOp& operator=(const SleepOp&) = delete;

  ObjectId object() const noexcept { return ObjectId::none; }
  bool try_now() const;
  Armed arm(Arm& arm) noexcept;
  void disarm(Arm& arm) noexcept;
  void take() const noexcept {}

 private:
  struct Timer : TimerNode {
    Timer() noexcept;
    Arm* arm = nullptr;
  };

  Duration lasting_{};
  Instant until_{};
  bool absolute_ = false;
  Timer timer_;
};

[[nodiscard]] inline SleepOp sleep_op(Duration lasting) noexcept {
  return SleepOp(lasting);
}
[[nodiscard]] inline SleepOp sleep_until_op(Instant until) noexcept {
  return SleepOp(until);
}

inline void sleep(Duration lasting) {
  perform(sleep_op(lasting));
}
inline void sleep_until(Instant until) {
  perform(sleep_until_op(until));
}

/// The operation if it completes within `limit`: a std::optional of its result (for void: bool).
template <Op O>
[[nodiscard]] auto timeout(O op, Duration limit) {
  using R = ResultOf<O>;
  auto raced = first_of(std::move(op), sleep_op(limit));
  if constexpr (std::is_void_v<R>) {
    return map(std::move(raced), [](auto&& result) { return result.index() == 0; });
  } else {
    return map(std::move(raced), [](auto&& result) -> std::optional<R> {
      if (result.index() == 0) return std::get<0>(std::move(result));
      return std::nullopt;
    });
  }
}

}  // namespace weft

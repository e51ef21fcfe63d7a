// The machine's clocks. With src/io as a whole, the only place that reads them.
#pragma once

#include <weft/base/time.hpp>

#include <algorithm>
#include <ctime>
#include <thread>

namespace weft::io {

inline Instant monotonic_now() noexcept {
  timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return Instant(std::chrono::seconds(t.tv_sec) + Duration(t.tv_nsec));
}

inline timespec to_timespec(Duration d) noexcept {
  const auto s = std::chrono::duration_cast<std::chrono::seconds>(d);
  return timespec{static_cast<time_t>(s.count()), static_cast<long>((d - s).count())};
}

/// How long to wait for deadlines. One that comes alone is met as exactly as the machine can. Those
/// that come thick and fast are met together, a little late: being woken for each of them takes
/// more than all they have to do (of 100,000 sleeps in a second: 680 ms of a processor, instead of
/// 140).
class Naps {
 public:
  static constexpr Duration least = std::chrono::microseconds(200);

  /// Nothing: it has passed.
  timespec until(Instant deadline) noexcept {
    const Instant now = monotonic_now();
    if (deadline <= now) return {};
    const bool just_woken = now >= woken_ && now - woken_ < least;
    woken_ = just_woken ? std::max(deadline, now + least) : deadline;
    return to_timespec(woken_ - now);
  }

 private:
  Instant woken_{};  // by the last deadline, if nothing came before it
};

/// Threads of this process, without the calling one, those a sanitizer keeps and io_uring's.
[[nodiscard]] std::size_t other_threads() noexcept;

/// The time that a thread of this process has spent on a processor; zero if it cannot be told.
[[nodiscard]] Duration cpu_time_of(const std::thread& thread) noexcept;
/// Does this thread of the process run, or would it if it got a processor?
[[nodiscard]] bool is_runnable(int tid) noexcept;

}  // namespace weft::io

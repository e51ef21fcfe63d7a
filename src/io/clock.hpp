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

/// What is left until `deadline`, not less than nothing.
inline timespec time_left(Instant deadline) noexcept {
  return to_timespec(std::max(deadline - monotonic_now(), Duration::zero()));
}

/// Threads of this process, without the calling one, those a sanitizer keeps and io_uring's.
[[nodiscard]] std::size_t other_threads() noexcept;

/// The time that a thread of this process has spent on a processor; zero if it cannot be told.
[[nodiscard]] Duration cpu_time_of(const std::thread& thread) noexcept;
/// Does this thread of the process run, or would it if it got a processor?
[[nodiscard]] bool is_runnable(int tid) noexcept;

}  // namespace weft::io

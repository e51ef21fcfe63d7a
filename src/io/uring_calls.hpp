// File calls on io_uring: which SlowCalls the machine does by itself, and how they are put to it.
#pragma once

#include <weft/io/slow_call.hpp>

#include <liburing.h>
#include <sys/stat.h>

namespace weft::io {

/// Where statx() leaves its answer, until it is known.
struct StatAnswer {
  SlowCall& call;
  struct statx status{};
};

/// Has the running machine an operation for it? If not, a thread must make the call.
[[nodiscard]] bool fits_uring(const SlowCall& call) noexcept;
/// Writes the entry. `answer` is for calls of code stat.
void prepare_call(io_uring_sqe* sqe, SlowCall& call, StatAnswer* answer) noexcept;
/// Did the machine decline, rather than try and fail? Then a thread must make the call.
[[nodiscard]] bool declined(SysResult result) noexcept;
/// Takes the result, as if the call had been made by the World.
void finish_call(SlowCall& call, SysResult result, const StatAnswer* answer) noexcept;

}  // namespace weft::io

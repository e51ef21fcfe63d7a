// File calls on io_uring: which SlowCalls the machine does by itself, and how they are put to it.
#pragma once

#include <weft/io/slow_call.hpp>

#include "io/job_pool.hpp"
#include "io/uring_ring.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include <liburing.h>
#include <sys/stat.h>

namespace weft::io {

/// What a completion belongs to: the low bits of its data. The others are a pointer, if any.
enum class Tag : std::uint64_t { poll, receive, send, call, stat, event, timer, nothing };
inline constexpr std::uint64_t tag_bits = 7;

inline std::uint64_t data_of(Tag tag, const void* pointer = nullptr) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) | static_cast<std::uint64_t>(tag);
}
inline Tag tag_of(std::uint64_t data) noexcept {
  return static_cast<Tag>(data & tag_bits);
}
template <class T>
T& pointed_at(std::uint64_t data) noexcept {
  return *reinterpret_cast<T*>(static_cast<std::uintptr_t>(data & ~tag_bits));
}

/// Has the running machine an operation for it? If not, a thread must make the call.
[[nodiscard]] bool fits_uring(const SlowCall& call) noexcept;

/// Where statx() leaves its answer, until it is known.
struct StatAnswer {
  SlowCall& call;
  struct statx status{};
};

/// The calls that are on their way through a ring.
class CallsInFlight {
 public:
  /// At most `most`. What the machine declines goes to `pool`.
  CallsInFlight(Ring& ring, JobPool& pool, std::size_t most) noexcept
      : ring_(ring), pool_(pool), most_(most) {}

  /// Of one that fits. Takes the ring's lock, and calls submit() under it. Throws Overloaded.
  template <class Submit>
  void push(SlowCall& call, Submit submit) {
    std::unique_ptr<StatAnswer> answer = begin(call);
    std::lock_guard guard(ring_.lock());
    enter(call, answer.release());  // until its completion
    submit();
  }
  /// The completion of one, tagged call or stat. `closing`: no other way is tried.
  void came_back(const io_uring_cqe& cqe, bool closing) noexcept;
  /// A call counts until it is complete.
  [[nodiscard]] std::size_t count() const noexcept { return count_.load(); }

 private:
  [[nodiscard]] std::unique_ptr<StatAnswer> begin(SlowCall& call);
  void enter(SlowCall& call, StatAnswer* answer) noexcept;

  Ring& ring_;
  JobPool& pool_;
  const std::size_t most_;
  std::atomic<std::size_t> count_{0};
};

}  // namespace weft::io

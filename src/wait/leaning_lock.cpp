#include <weft/wait/leaning_lock.hpp>

#include <weft/base/check.hpp>
#include <weft/base/sanitized.hpp>

#include <bitset>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft {

namespace {

long membarrier(int command) noexcept {
  return ::syscall(SYS_membarrier, command, 0, 0);
}

const char* why_not() noexcept {
#if defined(WEFT_TSAN)
  return "ThreadSanitizer would not understand it";
#else
  const char* const wish = std::getenv("WEFT_LEAN");
  if (wish != nullptr && std::strcmp(wish, "0") == 0) return "WEFT_LEAN=0";
  const long offered = membarrier(MEMBARRIER_CMD_QUERY);
  if (offered < 0 || (offered & MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0 ||
      membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) != 0) {
    return "membarrier(2) does not work here";
  }
  return "";
#endif
}

/// Which seats are taken. Lives as long as the process: workers end late.
struct Hall {
  Spinlock lock;
  std::bitset<no_seat> taken{1};  // 0 is nobody's
};
constinit Hall hall;

}  // namespace

constinit std::array<detail::Leaning::Inside, 256> detail::Leaning::seats{};

const char* why_locks_stand_upright() noexcept {
  static const char* const why = why_not();
  return why;
}

void prepare_to_lean() noexcept {
  static_cast<void>(why_locks_stand_upright());
}

Seat take_seat() noexcept {
  if (*why_locks_stand_upright() != '\0') return no_seat;
  std::lock_guard guard(hall.lock);
  for (std::size_t i = 1; i < hall.taken.size(); ++i) {
    if (hall.taken[i]) continue;
    hall.taken[i] = true;
    return static_cast<Seat>(i);
  }
  return no_seat;
}

// Locks that lean towards it will lean towards its next owner, which does no harm: nobody is
// inside, and what happened there happened before, by the hall's lock.
void give_seat(Seat seat) noexcept {
  if (seat == no_seat) return;
  std::lock_guard guard(hall.lock);
  hall.taken[seat] = false;
}

namespace {

// Linux makes them one at a time, for all processes together. In each tick of its coarse clock (1
// to 10 ms) so many are made before no other lock may begin to lean: some thousands a second.
constexpr std::uint32_t most_in_a_tick = 16;
std::atomic<std::int64_t> tick{0};
std::atomic<std::uint32_t> in_this_tick{0};

std::atomic<std::size_t> leaning_in_trees{0};  // locks

std::int64_t now_in_ticks() noexcept {
  timespec now{};
  // tidy: allow(clock) decides on speed and nothing else, and asking costs 5 ns
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace

void detail::Leaning::heavy_fence() noexcept {
  const int before = errno;
  WEFT_CHECK(membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0,
             "membarrier(2) worked when the process started and does not now: ",
             std::strerror(errno), "; a filter for system calls must allow it, or set WEFT_LEAN=0");
  errno = before;
  // relaxed, here and below: if a few are not counted, no harm is done.
  in_this_tick.fetch_add(1, std::memory_order_relaxed);
}

bool detail::Leaning::begin_to_lean() noexcept {
  const std::int64_t now = now_in_ticks();
  if (tick.exchange(now, std::memory_order_relaxed) != now) {
    in_this_tick.store(0, std::memory_order_relaxed);
  }
  return in_this_tick.load(std::memory_order_relaxed) < most_in_a_tick;
}

bool detail::LeaningInTree::begin_to_lean() noexcept {
  // relaxed: a limit, and no more is known of those that lean.
  if (leaning_in_trees.fetch_add(1, std::memory_order_relaxed) < most && Leaning::begin_to_lean()) {
    return true;
  }
  stop_leaning();
  return false;
}

void detail::LeaningInTree::stop_leaning() noexcept {
  leaning_in_trees.fetch_sub(1, std::memory_order_relaxed);  // relaxed: as above
}

}  // namespace weft

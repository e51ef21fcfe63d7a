#include <weft/time/timeline.hpp>

#include <weft/base/check.hpp>

#include <bit>
#include <mutex>

namespace weft {

namespace {
constexpr std::uint64_t no_time = ~std::uint64_t{0};
}

// Instants are signed; the wheel counts from zero. Negative instants are in the past of every
// wheel.
std::uint64_t Timeline::ticks(Instant instant) noexcept {
  return instant.ns() < 0 ? 0 : static_cast<std::uint64_t>(instant.ns());
}

Instant Timeline::to_instant(std::uint64_t ticks) noexcept {
  return ticks == no_time ? Instant::never() : Instant(Duration(static_cast<std::int64_t>(ticks)));
}

Timeline::Timeline(Instant start) noexcept : elapsed_(ticks(start)) {}

void Timeline::restart(Instant start) noexcept {
  std::lock_guard guard(lock_);
  WEFT_CHECK(size_ == 0, "a timeline begins anew while timers are armed");
  elapsed_ = ticks(start);
}

void Timeline::place(TimerNode& timer) noexcept {
  const std::uint64_t when = ticks(timer.deadline);
  if (when <= elapsed_) {
    timer.bucket = due_bucket;
    due_.push_back(timer);
    return;
  }
  const auto highest_bit = static_cast<unsigned>(63 - std::countl_zero(when ^ elapsed_));
  const unsigned level = highest_bit / digit_bits;
  const auto digit = static_cast<unsigned>(when >> (level * digit_bits)) % buckets;
  timer.bucket = static_cast<std::uint16_t>(level * buckets + digit);
  wheel_[timer.bucket].push_back(timer);
  occupied_[level] |= std::uint64_t{1} << digit;
}

bool Timeline::arm(TimerNode& timer) noexcept {
  std::lock_guard guard(lock_);
  place(timer);
  ++size_;
  const std::uint64_t when = ticks(timer.deadline);
  if (when >= sleeps_until_) return false;
  sleeps_until_ = when;  // one wake-up is enough
  return true;
}

Instant Timeline::sleep() noexcept {
  std::lock_guard guard(lock_);
  sleeps_until_ = next_locked();
  return to_instant(sleeps_until_);
}

void Timeline::awake() noexcept {
  std::lock_guard guard(lock_);
  sleeps_until_ = 0;
}

void Timeline::remove(TimerNode& timer) noexcept {
  timer.unlink();
  --size_;
  if (timer.bucket == due_bucket) return;
  if (wheel_[timer.bucket].empty()) {
    occupied_[timer.bucket / buckets] &= ~(std::uint64_t{1} << (timer.bucket % buckets));
  }
}

void Timeline::disarm(TimerNode& timer) noexcept {
  std::lock_guard guard(lock_);
  if (timer.linked()) remove(timer);
}

std::size_t Timeline::size() const noexcept {
  std::lock_guard guard(lock_);
  return size_;
}

// The beginning of the first occupied bucket. All of a level lies before all of the next higher
// one, because a timer on level n agrees with elapsed_ in every digit above n.
std::uint64_t Timeline::next_locked() const noexcept {
  if (!due_.empty()) return elapsed_;
  for (unsigned level = 0; level < levels; ++level) {
    if (occupied_[level] == 0) continue;
    const auto digit = static_cast<std::uint64_t>(std::countr_zero(occupied_[level]));
    const unsigned shift = level * digit_bits;
    const unsigned above = shift + digit_bits;
    const std::uint64_t upper = above >= 64 ? 0 : elapsed_ >> above << above;
    return upper | digit << shift;
  }
  return no_time;
}

Instant Timeline::next() const noexcept {
  std::lock_guard guard(lock_);
  return to_instant(next_locked());
}

void Timeline::fire(List<TimerNode>& list, WakeList& wakes) noexcept {
  while (TimerNode* timer = list.front()) {
    remove(*timer);
    timer->expire(*timer, wakes);
  }
}

void Timeline::advance(Instant now, WakeList& wakes) noexcept {
  std::lock_guard guard(lock_);
  const std::uint64_t until = ticks(now);
  const std::size_t before = size_;
  const std::uint64_t passed = until > elapsed_ ? until - elapsed_ : 0;
  fire(due_, wakes);
  for (;;) {
    const std::uint64_t bound = next_locked();
    if (bound == no_time || bound > until) break;
    unsigned level = 0;
    while (occupied_[level] == 0) ++level;
    const auto digit = static_cast<unsigned>(std::countr_zero(occupied_[level]));
    List<TimerNode>& bucket = wheel_[level * buckets + digit];
    elapsed_ = bound;
    if (level == 0) {
      fire(bucket, wakes);
      continue;
    }
    // Spread the bucket over the levels below, in order; what is due at its very beginning fires
    // with them.
    occupied_[level] &= ~(std::uint64_t{1} << digit);
    List<TimerNode> spread;
    spread.take_all(bucket);
    while (TimerNode* timer = spread.pop_front()) place(*timer);
    fire(due_, wakes);
  }
  // Everything left lies later than `until`, and moving elapsed_ within its bucket keeps all levels
  // right.
  if (until > elapsed_) elapsed_ = until;
  constexpr std::size_t a_crowd = 4;
  // Fewer do not end a crowd if they have come in no time; silence does.
  constexpr std::uint64_t sparse = 20'000;    // ns between two
  constexpr std::uint64_t silence = 200'000;  // ns
  const std::size_t fired = before - size_;
  if (fired > 0 || passed > silence) {
    crowded_ = fired >= a_crowd || (crowded_ && fired * sparse >= passed);
  }
}

}  // namespace weft

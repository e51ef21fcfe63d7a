#include <weft/io/source.hpp>

#include <weft/base/check.hpp>
#include <weft/task/io.hpp>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace weft {

namespace {

/// A receive that has brought neither bytes nor an error of the stream.
bool came_to_nothing(SysResult result) noexcept {
  switch (-result) {
    case ECANCELED:
    case ENOBUFS:
    case EAGAIN:
    case EINTR:
    case ENOMEM:
      return true;
    default:
      return false;
  }
}

}  // namespace

Source* Source::open(std::shared_ptr<World> world, int fd, Kind kind) {
  World& closer = *world;
  try {
    return new Source(std::move(world), fd, kind);
  } catch (...) {
    closer.close(fd);
    throw;
  }
}

Armed Source::arm(Arm& arm, Direction direction, Transfer* into) {
  std::lock_guard guard(lock_);
  if (direction == Direction::read && kept_ != nullptr) note(readable);
  // relaxed: set under the lock we hold, or cleared by a call that has been made.
  const std::uint32_t latch = latch_.load(std::memory_order_relaxed);
  if (worth_trying(latch, direction)) return arm.claim() ? Armed::won : Armed::lost;
  Kernel& kernel = arm.wait->io().kernel().watcher();
  if (watcher_ != &kernel && nobody_waits()) leave_kernel();
  arm.slot = into;
  if (into == nullptr || !receive_by(kernel, into->part->iov_len)) {
    watch_by(watcher_ != nullptr ? *watcher_ : kernel);
  }
  // relaxed: partner is the load in pass_on(), by somebody who is woken after this.
  if (watcher_ != &kernel) {
    mixed_.store(true, std::memory_order_relaxed);
  } else if (nobody_waits()) {
    mixed_.store(false, std::memory_order_relaxed);
  }
  waiters(direction).push_back(arm);
  return Armed::waiting;
}

void Source::watch_by(Kernel& kernel) {
  if (watched_) return;
  kernel.watch(*this);
  watcher_ = &kernel;
  watched_ = true;
  carried_.store(false, std::memory_order_relaxed);  // relaxed: a hint
}

void Source::leave_kernel() noexcept {
  if (watcher_ == nullptr) return;
  std::exchange(watcher_, nullptr)->unwatch(*this);
  registration = nullptr;
  watched_ = false;
  carried_.store(false, std::memory_order_relaxed);  // relaxed: a hint
}

// True: a receive is under way at this kernel.
bool Source::receive_by(Kernel& kernel, std::size_t most) {
  if (kind_ != Kind::tcp || watched_ || most == 0) return false;
  if (receiving_ || (watcher_ != nullptr && watcher_ != &kernel)) return watcher_ == &kernel;
  Carrier* const carrier = kernel.carrier();
  if (carrier == nullptr || (watcher_ == nullptr && kernel.world() != world_)) return false;
  const bool conversation = reads_waited_ == until_conversation;
  if (!carrier->receive(*this, most, conversation)) return false;
  if (!conversation) ++reads_waited_;
  watcher_ = &kernel;
  receiving_ = true;
  carried_.store(true, std::memory_order_relaxed);  // relaxed: a hint
  keeps_.store(true, std::memory_order_relaxed);    // relaxed: see keeps()
  return true;
}

bool Source::send_later(Arm& arm, Transfer& from) noexcept {
  std::lock_guard guard(lock_);
  Kernel& kernel = arm.wait->io().kernel().watcher();
  Carrier* const carrier = carried() && watcher_ == &kernel ? kernel.carrier() : nullptr;
  if (carrier == nullptr) return false;
  arm.slot = &from;
  carrier->send(arm);
  return true;
}

void Source::begin_conversation() noexcept {
  std::lock_guard guard(lock_);
  if (watcher_ != nullptr && nobody_waits() && watcher_->carrier() != nullptr) leave_kernel();
}

void Source::received(SysResult result, const std::byte* from, Then then,
                      WakeList& wakes) noexcept {
  std::lock_guard guard(lock_);
  receiving_ = then == Then::goes_on;
  if (result == 0) {
    note(readable | read_end);
  } else if (!came_to_nothing(result) && !closed()) {
    const SysResult given = hand_over(result, from, wakes);
    if (given != result) keep(result - given, from + given);
    if (then == Then::maybe_more) note(readable);
  }
  if (!receiving_ && (watched_ || !readers_.empty())) {
    // Who waits shall try, and ask for another one: so that somebody who waits is always served,
    // whoever reads, or gives up, in between. And while it was under way, whoever tried was told
    // that there is nothing, and has dismissed what the kernel reported, maybe that of the end.
    // That does not come again; if there is none, it will be found out.
    note(watched_ ? readable | read_end : readable);
    wake_all(readers_, wakes);
  }
  if (receiving_ && kept_ != nullptr && kept_->bytes.size() > most_kept && watcher_ != nullptr) {
    if (Carrier* const carrier = watcher_->carrier()) carrier->stop_receiving(*this);
  }
  // relaxed: see keeps(). Once, at the end: in between there may seem to be nothing.
  keeps_.store(receiving_ || kept_ != nullptr, std::memory_order_relaxed);
}

// To who has waited longest. Says how many bytes it took; all of an error.
SysResult Source::hand_over(SysResult result, const std::byte* from, WakeList& wakes) noexcept {
  if (kept_ != nullptr) return 0;  // somebody is on the way to those, which come first
  Arm* arm = readers_.pop_front();
  while (arm != nullptr && !arm->claim()) arm = readers_.pop_front();
  if (arm == nullptr) return 0;
  wakes.add(*arm);
  if (arm->slot == nullptr) return 0;
  Transfer& into = *static_cast<Transfer*>(arm->slot);
  into.result = std::min(result, static_cast<SysResult>(into.part->iov_len));
  into.delivered = true;
  if (result > 0) std::memcpy(into.part->iov_base, from, static_cast<std::size_t>(into.result));
  return into.result;
}

// No memory for it is the end of the program: the bytes are nowhere else.
void Source::keep(SysResult result, const std::byte* from) noexcept {
  if (kept_ == nullptr) kept_ = std::make_unique<Kept>();
  if (result < 0) {
    kept_->error = result;
  } else {
    kept_->bytes.insert(kept_->bytes.end(), from, from + result);
  }
  keeps_.store(true, std::memory_order_relaxed);  // relaxed: see keeps()
  note(readable);
}

std::optional<SysResult> Source::read_kept(const iovec* parts, int count) noexcept {
  std::lock_guard guard(lock_);
  if (kept_ == nullptr) return receiving_ ? std::optional<SysResult>(-EAGAIN) : std::nullopt;
  SysResult total = 0;
  for (int i = 0; i < count; ++i) {
    const std::size_t n = std::min(parts[i].iov_len, kept_->bytes.size() - kept_->used);
    if (n > 0) std::memcpy(parts[i].iov_base, kept_->bytes.data() + kept_->used, n);
    kept_->used += n;
    total += static_cast<SysResult>(n);
  }
  if (total == 0 && kept_->error != 0) total = std::exchange(kept_->error, 0);
  if (kept_->used == kept_->bytes.size() && kept_->error == 0) {
    kept_.reset();
    keeps_.store(receiving_, std::memory_order_relaxed);  // relaxed: see keeps()
  }
  // What is left, or in the stream, makes no change of its own. That there is one since the latch
  // was looked at keeps a short read from clearing it.
  if (kept_ != nullptr || !receiving_) note(readable);
  return total;
}

// Somebody has stopped waiting. If the kernel that watches has none of its own here any more, it is
// of no use to those who still wait: nobody may be running it.
void Source::follow_waiters(WakeList& wakes) noexcept {
  if (watcher_ == nullptr || nobody_waits()) return;
  for (const List<Arm>* list : {&readers_, &writers_}) {
    for (const Arm* arm = list->front(); arm != nullptr; arm = list->next(*arm)) {
      if (&arm->wait->io().kernel().watcher() == watcher_) return;
    }
  }
  leave_kernel();
  const Arm& first = readers_.empty() ? *writers_.front() : *readers_.front();
  try {
    watch_by(first.wait->io().kernel().watcher());
  } catch (...) {  // cannot be watched there: let them try, and meet the error themselves
    set_latch(readable | writable);
    wake_all(readers_, wakes);
    wake_all(writers_, wakes);
  }
}

void Source::disarm(Arm& arm) noexcept {
  WakeList wakes;
  std::lock_guard guard(lock_);
  arm.unlink();
  if (mixed_.load(std::memory_order_relaxed)) follow_waiters(wakes);  // relaxed: under the lock
}

void Source::pass_on(Direction direction) noexcept {
  // relaxed: if a change comes in after this look, ready() wakes somebody itself.
  const bool more = worth_trying(latch_.load(std::memory_order_relaxed), direction);
  // relaxed: whoever came while we waited did so before we were woken; who came later is not left
  // behind by us.
  const bool mixed = mixed_.load(std::memory_order_relaxed);
  if (!more && !mixed) return;
  WakeList wakes;
  std::lock_guard guard(lock_);
  if (more) wake_one(waiters(direction), wakes);
  if (mixed) follow_waiters(wakes);
}

bool Source::awaited() noexcept {
  if (!lock_.try_lock()) return true;  // somebody is at it
  const bool somebody = !nobody_waits();
  lock_.unlock();
  return somebody;
}

void Source::wake_one(List<Arm>& waiting, WakeList& wakes) noexcept {
  while (Arm* arm = waiting.pop_front()) {
    if (arm->claim()) {
      wakes.add(*arm);
      return;
    }
  }
}

void Source::wake_all(List<Arm>& waiting, WakeList& wakes) noexcept {
  while (Arm* arm = waiting.pop_front()) {
    if (arm->claim()) wakes.add(*arm);
  }
}

void Source::set_latch(std::uint32_t bits, bool whole) noexcept {
  if (kept_ != nullptr) bits |= readable;
  std::uint32_t latch = latch_.load(std::memory_order_relaxed);  // relaxed: the exchange checks
  std::uint32_t next = 0;
  do {
    // The first report of the whole state replaces the guess.
    const std::uint32_t known = whole && (latch & assumed) != 0 ? 0 : latch;
    next = (known + one_change) | bits;  // the number of changes may wrap into nothing
    // release: partner is the load in seen().
  } while (!latch_.compare_exchange_weak(latch, next, std::memory_order_release,
                                         std::memory_order_relaxed));
}

void Source::ready(std::uint32_t bits, WakeList& wakes) noexcept {
  std::lock_guard guard(lock_);
  set_latch(bits);
  if ((bits & (read_end | write_end)) != 0) {
    wake_all(readers_, wakes);
  } else if ((bits & readable) != 0) {
    wake_one(readers_, wakes);
  }
  if ((bits & write_end) != 0) {
    wake_all(writers_, wakes);
  } else if ((bits & writable) != 0) {
    wake_one(writers_, wakes);
  }
}

void Source::lose_kernel(Kernel& kernel) noexcept {
  std::lock_guard guard(lock_);
  if (watcher_ != &kernel) return;
  WEFT_CHECK(nobody_waits(), "a kernel goes away while it watches number ", fd_, " for somebody");
  watcher_ = nullptr;
  registration = nullptr;
  watched_ = false;
  carried_.store(false, std::memory_order_relaxed);  // relaxed: a hint
}

// Whoever waits finds the source closed, and the kernel forgets it. The descriptor is still open.
void Source::leave_kernel_and_waiters() noexcept {
  WakeList wakes;
  std::lock_guard guard(lock_);
  set_latch(readable | writable | read_end | write_end);
  wake_all(readers_, wakes);
  wake_all(writers_, wakes);
  leave_kernel();
}

void Source::close() noexcept {
  detail::point({.object = id_, .what = "close", .outside = true});
  if (!enter()) return;  // keeps the number open until we leave
  const std::uint32_t before = users_.fetch_or(closed_bit);
  if ((before & closed_bit) == 0) leave_kernel_and_waiters();
  leave();
}

bool Source::settle() noexcept {
  if (!keeps()) return true;
  Carrier* carrier = nullptr;
  {
    std::lock_guard guard(lock_);
    if (!receiving_) return kept_ == nullptr;
    if (watcher_ != nullptr) carrier = watcher_->carrier();
    if (carrier == nullptr) return false;
    carrier->stop_receiving(*this);
  }
  // It takes a turn or two; if not, somebody else does something with the source.
  for (int i = 0; i < 100; ++i) {
    carrier->catch_up();
    std::lock_guard guard(lock_);
    if (!receiving_) return kept_ == nullptr;
  }
  return false;
}

int Source::take_number() noexcept {
  if (!settle()) return -1;
  std::uint32_t nobody = 0;
  if (!users_.compare_exchange_strong(nobody, closed_bit)) return -1;
  leave_kernel_and_waiters();
  return fd_;
}

void Source::release() noexcept {
  // acq_rel: release our use of the source to the last holder; acquire everybody's.
  if (refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

}  // namespace weft

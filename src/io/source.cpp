#include <weft/io/source.hpp>

#include <weft/base/check.hpp>
#include <weft/task/io.hpp>

#include <mutex>

namespace weft {

Source* Source::open(std::shared_ptr<World> world, int fd, Kind kind) {
  World& closer = *world;
  try {
    return new Source(std::move(world), fd, kind);
  } catch (...) {
    closer.close(fd);
    throw;
  }
}

Armed Source::arm(Arm& arm, Direction direction) {
  std::lock_guard guard(lock_);
  // relaxed: set under the lock we hold, or cleared by a call that has been made.
  const std::uint32_t latch = latch_.load(std::memory_order_relaxed);
  if (worth_trying(latch, direction)) return arm.claim() ? Armed::won : Armed::lost;
  Kernel& kernel = arm.wait->io().kernel().watcher();
  watch_by(kernel);
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
  if (watcher_ == &kernel) return;
  if (watcher_ != nullptr) {
    if (!nobody_waits()) return;
    std::exchange(watcher_, nullptr)->unwatch(*this);
  }
  kernel.watch(*this);
  watcher_ = &kernel;
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
  std::exchange(watcher_, nullptr)->unwatch(*this);
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

void Source::set_latch(std::uint32_t bits) noexcept {
  std::uint32_t latch = latch_.load(std::memory_order_relaxed);  // relaxed: the exchange checks
  std::uint32_t next = 0;
  do {
    // The first report is of the whole state: it replaces the guess.
    const std::uint32_t known = (latch & assumed) != 0 ? 0 : latch;
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
}

// Whoever waits finds the source closed, and the kernel forgets it. The descriptor is still open.
void Source::leave_kernel_and_waiters() noexcept {
  WakeList wakes;
  std::lock_guard guard(lock_);
  set_latch(readable | writable | read_end | write_end);
  wake_all(readers_, wakes);
  wake_all(writers_, wakes);
  if (watcher_ != nullptr) std::exchange(watcher_, nullptr)->unwatch(*this);
}

void Source::close() noexcept {
  detail::point({.object = id_, .what = "close", .outside = true});
  if (!enter()) return;  // keeps the number open until we leave
  const std::uint32_t before = users_.fetch_or(closed_bit);
  if ((before & closed_bit) == 0) leave_kernel_and_waiters();
  leave();
}

int Source::take_number() noexcept {
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

#include <weft/sync/mutex.hpp>

namespace weft {

Coro<void> Mutex::Guard::co_relock() {
  if (!held_) *this = co_await mutex().lock_op();
}

Coro<void> Condition::co_wait(Mutex::Guard& guard) {
  std::exception_ptr error;
  try {
    co_await wait_op(guard);
  } catch (...) {
    error = std::current_exception();
  }
  {
    const Shield shield;
    co_await guard.co_relock();
  }
  if (error) std::rethrow_exception(error);
}

void Condition::notify(bool all) noexcept {
  detail::point(id_, Access::write, "notify");
  WakeList wakes;
  std::lock_guard guard(lock_);
  while (Arm* arm = line_.pop_front()) {
    if (!arm->claim()) continue;
    wakes.add(*arm);
    if (!all) return;
  }
}

}  // namespace weft

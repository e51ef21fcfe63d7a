// weft::oslocks: reports tasks that wait while they hold a lock of the operating system. See
// sync/lock_watch.hpp. It stands in front of the C library's locks, for tasks alone: what the
// engines and other threads do is passed on.
#include <weft/stack/backtrace.hpp>
#include <weft/sync/lock_watch.hpp>
#include <weft/task/io.hpp>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <span>

#include <dlfcn.h>
#include <pthread.h>

namespace weft {

namespace {

struct Held {
  const void* lock = nullptr;
  std::array<void*, 12> frames{};
  std::size_t count = 0;
};

/// Of the calling thread. More than fit are not watched.
struct HeldHere {
  std::array<Held, 8> locks{};
  std::size_t count = 0;
  bool busy = false;  // in the act of noting, or reporting: locks taken for that do not count
};
thread_local HeldHere here;

void note_taken(const void* lock) noexcept {
  if (here.busy || this_task() == nullptr || here.count == here.locks.size()) return;
  here.busy = true;
  Held& held = here.locks[here.count++];
  held.lock = lock;
  held.count = stack::capture_backtrace(held.frames);
  here.busy = false;
}

void note_released(const void* lock) noexcept {
  const auto used = std::span(here.locks).first(here.count);
  const auto it = std::ranges::find(used, lock, &Held::lock);
  if (it == used.end()) return;
  std::move(it + 1, used.end(), it);
  --here.count;
}

class Watch final : public Observer {
 public:
  void on_edge(const Task& task, TaskState from, TaskState to) noexcept override {
    if (from != TaskState::running || to == TaskState::complete || here.count == 0 || here.busy ||
        task.flow() == Wait::Flow::thread) {
      return;
    }
    here.busy = true;
    for (const Held& held : std::span(here.locks).first(here.count)) {
      if (seen_before(held)) continue;
      detail::report_locks(
          "weft: task '" + std::string(task.name()) + "' (tid " + std::to_string(task.tid()) +
          ") " + (to == TaskState::ready ? "yields" : "waits") +
          " while its thread holds a lock of the operating system, taken at\n" +
          detail::describe_site(std::span(held.frames).first(held.count), "      ") +
          "    That stops the worker, not the task, when it is contended, and it may be released\n"
          "    on another thread. Release it first, or use a weft::Mutex.\n");
    }
    here.busy = false;
  }

 private:
  bool seen_before(const Held& held) noexcept {
    std::lock_guard guard(mutex_);
    return !places_.insert(held.frames).second;
  }
  std::mutex mutex_;
  std::set<std::array<void*, 12>> places_;
};

[[maybe_unused]] const bool installed = [] {
  detail::default_observer.store(new Watch);  // for good
  return true;
}();

/// The function of this name behind ours.
template <class F>
F* next(F* /*ours*/, const char* name) noexcept {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace
}  // namespace weft

extern "C" {

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = weft::next(&pthread_mutex_lock, "pthread_mutex_lock");
  const int result = real(mutex);
  if (result == 0) weft::note_taken(mutex);
  return result;
}
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = weft::next(&pthread_mutex_trylock, "pthread_mutex_trylock");
  const int result = real(mutex);
  if (result == 0) weft::note_taken(mutex);
  return result;
}
int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* until) noexcept {
  static auto* const real = weft::next(&pthread_mutex_timedlock, "pthread_mutex_timedlock");
  const int result = real(mutex, until);
  if (result == 0) weft::note_taken(mutex);
  return result;
}
int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                            const timespec* until) noexcept {
  static auto* const real = weft::next(&pthread_mutex_clocklock, "pthread_mutex_clocklock");
  const int result = real(mutex, clock, until);
  if (result == 0) weft::note_taken(mutex);
  return result;
}
int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  static auto* const real = weft::next(&pthread_mutex_unlock, "pthread_mutex_unlock");
  weft::note_released(mutex);
  return real(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  static auto* const real = weft::next(&pthread_rwlock_rdlock, "pthread_rwlock_rdlock");
  const int result = real(lock);
  if (result == 0) weft::note_taken(lock);
  return result;
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  static auto* const real = weft::next(&pthread_rwlock_wrlock, "pthread_rwlock_wrlock");
  const int result = real(lock);
  if (result == 0) weft::note_taken(lock);
  return result;
}
int pthread_rwlock_tryrdlock(pthread_rwlock_t* lock) noexcept {
  static auto* const real = weft::next(&pthread_rwlock_tryrdlock, "pthread_rwlock_tryrdlock");
  const int result = real(lock);
  if (result == 0) weft::note_taken(lock);
  return result;
}
int pthread_rwlock_trywrlock(pthread_rwlock_t* lock) noexcept {
  static auto* const real = weft::next(&pthread_rwlock_trywrlock, "pthread_rwlock_trywrlock");
  const int result = real(lock);
  if (result == 0) weft::note_taken(lock);
  return result;
}
int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  static auto* const real = weft::next(&pthread_rwlock_unlock, "pthread_rwlock_unlock");
  weft::note_released(lock);
  return real(lock);
}

}  // extern "C"

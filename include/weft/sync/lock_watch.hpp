/// Checks on how locks are used, for debugging.
///
///     WEFT_CHECK_LOCKS=1 ./program                 // or: weft::check_locks();
///
///     weft: lock order: these locks are taken in a circle, and will deadlock some day
///       task 'transfer' (tid 7) holds mutex #12, taken at
///           transfer(Account&, Account&)+0x3a
///         and asks for mutex #13 at
///           transfer(Account&, Account&)+0x4e
///       task 'audit' (tid 5) held mutex #13, taken at
///           audit(Bank&)+0x21
///         and asked for mutex #12 at
///           audit(Bank&)+0x44
///
/// Two locks that are taken in one order here and in the other there need not meet today. So what
/// is remembered is the order: who asked for which lock while holding which others; a circle in it
/// is reported once, when it closes, whether or not anybody gets stuck. Of Mutex and SharedMutex
/// (reading included: readers queue behind a waiting writer). try_lock() cannot get stuck, and
/// counts only as holding. Asking again for what one holds is a circle too.
///
/// A lock belongs to the task (or plain thread) that asked for it until it is released, also if its
/// guard is handed to somebody else meanwhile.
///
/// Every lock operation then takes the one lock of this list, and a look at the stack: slow, and in
/// effect for locks taken from then on. Switched off it costs a load.
///
/// Locks of the operating system (std::mutex) stop a worker, not a task, and belong to its thread:
/// a task that waits while it holds one may bring everything to a stop, or release it on the wrong
/// thread. A program that is linked with weft::oslocks as well (CMake: target_link_libraries(app
/// weft::weft weft::oslocks)) reports each place where that happens.
#pragma once

#include <weft/wait/op.hpp>

#include <atomic>
#include <functional>
#include <span>
#include <string>

namespace weft {

/// From now on. `report` gets the text; if it is empty, stderr does.
void check_locks(std::function<void(const std::string&)> report = {});
/// Also forgets everything seen so far.
void stop_checking_locks() noexcept;
[[nodiscard]] inline bool checking_locks() noexcept;
/// Only for describe_held_locks(): orders do not matter. Until stop_checking_locks().
void remember_lock_holders();
/// Who holds which lock now, and since where, a few lines each; of those taken while they were
/// checked. `number` gives the number of a lock.
[[nodiscard]] std::string describe_held_locks(const std::function<std::uint64_t(ObjectId)>& number);

namespace detail {

inline std::atomic<bool> locks_checked{false};

void note_lock_asked(ObjectId lock, bool shared) noexcept;
void note_lock_taken(ObjectId lock, bool shared) noexcept;
void note_lock_released(ObjectId lock) noexcept;

inline void lock_asked(ObjectId lock, bool shared = false) noexcept {
  if (checking_locks()) [[unlikely]]
    note_lock_asked(lock, shared);
}
inline void lock_taken(ObjectId lock, bool shared = false) noexcept {
  if (checking_locks()) [[unlikely]]
    note_lock_taken(lock, shared);
}
inline void lock_released(ObjectId lock) noexcept {
  if (checking_locks()) [[unlikely]]
    note_lock_released(lock);
}

/// To whoever check_locks() named.
void report_locks(const std::string& text) noexcept;
/// The caller's stack as text, a line each, without the frames of locks themselves.
[[nodiscard]] std::string describe_site(std::span<void* const> frames, const char* indent);

}  // namespace detail

inline bool checking_locks() noexcept {
  // relaxed: a switch. Who misses it by a moment has not been watched.
  return detail::locks_checked.load(std::memory_order_relaxed);
}

}  // namespace weft

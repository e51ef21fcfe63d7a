#include "io/clock.hpp"

#include <weft/stack/sanitizer.hpp>

#include <cstdio>
#include <cstring>

#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

namespace weft::io {

namespace {

/// The machine's helpers appear among our threads; they wake nobody by themselves.
bool belongs_to_uring(const char* thread) noexcept {
  char path[64];
  char name[32] = {};
  std::snprintf(path, sizeof path, "/proc/self/task/%.20s/comm", thread);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return true;  // it has just ended
  const char* line = std::fgets(name, sizeof name, file);
  std::fclose(file);
  return line != nullptr && std::strncmp(name, "iou-", 4) == 0;
}

}  // namespace

Duration cpu_time_of(const std::thread& thread) noexcept {
  clockid_t clock{};
  timespec time{};
  const pthread_t handle = const_cast<std::thread&>(thread).native_handle();
  if (handle == pthread_t{} || ::pthread_getcpuclockid(handle, &clock) != 0 ||
      ::clock_gettime(clock, &time) != 0) {
    return {};
  }
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

bool is_runnable(int tid) noexcept {
  char path[64];
  char text[128] = {};
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return false;
  const char* line = std::fgets(text, sizeof text, file);
  std::fclose(file);
  // "number (name) state ...": the name may contain anything, but what follows no parenthesis.
  const char* end = line == nullptr ? nullptr : std::strrchr(line, ')');
  return end != nullptr && end[1] == ' ' && end[2] == 'R';
}

std::size_t other_threads() noexcept {
  DIR* tasks = ::opendir("/proc/self/task");
  if (tasks == nullptr) return 1;  // cannot tell: assume there are
  std::size_t threads = 0;
  while (const dirent* entry = ::readdir(tasks)) {
    if (entry->d_name[0] != '.' && !belongs_to_uring(entry->d_name)) ++threads;
  }
  ::closedir(tasks);
#if defined(WEFT_TSAN)
  if (threads > 1) --threads;  // ThreadSanitizer's own
#endif
  return threads > 0 ? threads - 1 : 0;
}

}  // namespace weft::io

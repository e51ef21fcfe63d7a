/// Checks that stay on in release builds.
///
///     WEFT_CHECK(arm.linked(), "arm of wait ", wait.id(), " is not published");
///
/// A failed check is a programming error: the message says what was violated, where, and in which
/// task, and the process aborts so that a core file shows the state. Conditions carry no side
/// effects. Errors of the environment are exceptions, never checks.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft::detail {

/// Names the running task in a panic ("task 'reader' (tid 7)"); set by the task room, so that base
/// needs to know nothing of tasks. Returns the number of characters written.
using WhoAmI = std::size_t (*)(char* buffer, std::size_t size) noexcept;
extern std::atomic<WhoAmI> who_am_i;

[[noreturn]] void panic(const char* file, int line, const char* condition,
                        std::string_view message) noexcept;

inline void append(std::string& out, std::string_view text) {
  out += text;
}
inline void append(std::string& out, const char* text) {
  out += text;
}
inline void append(std::string& out, const std::string& text) {
  out += text;
}
inline void append(std::string& out, bool value) {
  out += value ? "true" : "false";
}
template <class T>
  requires std::is_integral_v<T>
void append(std::string& out, T value) {
  out += std::to_string(value);
}

/// By value: a reference would make the caller keep what it checks in memory.
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void check_failed(const char* file, int line,
                                                         const char* condition,
                                                         Parts... parts) noexcept {
  std::string message;
  (append(message, parts), ...);
  panic(file, line, condition, message);
}

}  // namespace weft::detail

// A macro because it names the condition and the place; everything else is a function.
#define WEFT_CHECK(condition, ...)                   \
  (__builtin_expect(static_cast<bool>(condition), 1) \
       ? static_cast<void>(0)                        \
       : ::weft::detail::check_failed(__FILE__, __LINE__, #condition, __VA_ARGS__))

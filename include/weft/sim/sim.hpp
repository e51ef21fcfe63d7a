/// Inside of a simulation: what a test, or the code under test, may ask.
///
///     weft::sim::always sane("no account is overdrawn", [&] { return balance.load() >= 0; });
///     if (weft::sim::pick(2) == 1) retry();          // a choice of the test's, on the tape
///     weft::sim::check(sum == 100, "money is conserved");
///     if (weft::buggify()) sleep(5s);                // in production code: never there
///
/// Everywhere else these are harmless: pick() gives 0, point() and buggify() do nothing, check()
/// throws.
#pragma once

#include <weft/sim/engine.hpp>

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft::sim {

/// Is the calling task in a simulation?
[[nodiscard]] inline bool simulated() noexcept {
  return Engine::here() != nullptr;
}

/// Others may go on here: before an access to something shared that is not a weft::atomic.
inline void point(const char* what = "point") noexcept {
  weft::detail::point({.what = what});
}

/// A number below n, n > 0; 0 is the plain one.
[[nodiscard]] inline std::uint32_t pick(std::uint32_t n) {
  Engine* engine = Engine::here();
  return engine == nullptr || n < 2 ? 0 : engine->decide(Kind::user, n);
}

class CheckFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The run has failed, here. Also if somebody catches what is thrown.
[[noreturn]] void fail(std::string_view what,
                       const std::source_location& place = std::source_location::current());

inline void check(bool holds, std::string_view what,
                  const std::source_location& place = std::source_location::current()) {
  if (!holds) [[unlikely]]
    fail(what, place);
}

/// A condition that must hold after every step of every task, as long as this is there. It may look
/// at anything, atomics and sizes of channels included (that is no step), and must not wait.
class always {  // NOLINT: reads as a word
 public:
  always(std::string name, std::function<bool()> holds);
  always(const always&) = delete;
  always& operator=(const always&) = delete;
  ~always();

 private:
  Engine* const engine_;
  Engine::Monitor monitor_;
};

/// A condition that must not hold after any step.
class never : public always {  // NOLINT: reads as a word
 public:
  never(std::string name, const std::function<bool()>& holds)
      : always(std::move(name), [holds] { return !holds(); }) {}
};

/// A condition that must hold at some step before this goes, or when it does.
class eventually {  // NOLINT: reads as a word
 public:
  eventually(std::string name, std::function<bool()> holds);
  eventually(const eventually&) = delete;
  eventually& operator=(const eventually&) = delete;
  ~eventually();

 private:
  Engine* const engine_;
  Engine::Monitor monitor_;
  std::function<bool()> holds_;
  bool held_ = false;
};

}  // namespace weft::sim

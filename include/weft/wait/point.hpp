/// Points: where a simulation may let somebody else go on.
///
/// Whatever other tasks could notice (taking from a channel, releasing a lock, changing an atomic)
/// is preceded by a point. Between two points of a task nobody else runs, and nobody could tell; so
/// a simulation that decides at every point who goes on sees every order there is.
///
///     detail::point(id_, Access::write, "unlock");     // not under a spinlock
///
/// Outside of simulations a point is a load and a branch that is not taken.
#pragma once

#include <weft/wait/wait.hpp>

#include <atomic>
#include <source_location>

namespace weft {

enum class Access : std::uint8_t { read, write };

/// What a task is about to do.
struct Point {
  /// To what. None: to what lies at `address`; or, if that is null, to anything.
  ObjectId object = ObjectId::none;
  Access access = Access::write;
  const char* what = "start";
  const void* address = nullptr;
  /// It only lets others run.
  bool yields = false;
  /// It is about the outside, where everything may hang together.
  bool outside = false;
};

namespace detail {

/// Of the simulation, while there is one in this process.
struct PointHooks {
  /// False: the calling task is none of the simulation's.
  bool (*at)(const Point&) noexcept;
  /// Something that has no ObjectId begins to live at this address.
  void (*born)(const void* address) noexcept;
  /// From now on there are none, or again some.
  void (*hold)(bool) noexcept;
  /// Shall something unusual happen at this place, which the file and line name?
  bool (*buggify)(const char* file, unsigned line) noexcept;
};
inline constinit std::atomic<const PointHooks*> point_hooks{nullptr};

[[gnu::always_inline]] inline bool simulated() noexcept {
  return point_hooks.load(std::memory_order_relaxed) != nullptr;  // relaxed: see below
}
/// True: the simulation has dealt with it.
[[gnu::always_inline]] inline bool point(const Point& point) noexcept {
  // relaxed: a simulation's tasks run on the thread that has set it.
  const PointHooks* hooks = point_hooks.load(std::memory_order_relaxed);
  return hooks != nullptr && hooks->at(point);
}
[[gnu::always_inline]] inline void point(ObjectId object, Access access,
                                         const char* what) noexcept {
  if (point_hooks.load(std::memory_order_relaxed) != nullptr) [[unlikely]] {  // relaxed: see above
    point({.object = object, .access = access, .what = what});
  }
}

/// For a call of a user's function under a lock: what has points elsewhere has none in it.
class NoPoints {
 public:
  NoPoints() noexcept { hold(true); }
  NoPoints(const NoPoints&) = delete;
  NoPoints& operator=(const NoPoints&) = delete;
  ~NoPoints() { hold(false); }

 private:
  static void hold(bool on) noexcept {
    // relaxed: as in point().
    if (const PointHooks* hooks = point_hooks.load(std::memory_order_relaxed)) [[unlikely]] {
      hooks->hold(on);
    }
  }
};

}  // namespace detail

/// Should something unusual but legal happen here (an early time-out, a tiny buffer, a needless
/// retry)? In a simulation, some places are on in each run, and then some of the time; which ones
/// is on the tape. In production: no.
[[nodiscard]] inline bool buggify(
    const std::source_location& place = std::source_location::current()) noexcept {
  // relaxed: as in detail::point().
  const auto* hooks = detail::point_hooks.load(std::memory_order_relaxed);
  return hooks != nullptr && hooks->buggify(place.file_name(), place.line());
}

}  // namespace weft

/// Ending in good order when a signal asks for it.
///
///     pool.run([] {
///       const auto end = until_signal({SIGINT, SIGTERM}, [] { serve(); });
///       if (end.cancelled()) std::puts("told to stop");
///     });
///
/// Runs `f`, and as soon as one of the signals arrives, cancels it and everything it has started
/// (reason: shutdown). Returns when all of it has ended. From fibers; not on an Inline, where
/// nothing runs beside `f`.
#pragma once

#include <weft/io/signals.hpp>
#include <weft/task/within.hpp>

namespace weft {

template <class F>
auto until_signal(std::initializer_list<int> signals, F f) {
  const Signals stop(signals);
  return within({.name = "until_signal"}, [&](Scope& scope) {
    auto watcher = scope.spawn(
        [&] {
          stop.next();
          scope.cancel(CancelReason::shutdown);
        },
        {.name = "signals"});
    struct Ended {
      JoinHandle<void>& handle;
      ~Ended() { handle.cancel(); }
    };
    const Ended ended{watcher};
    return f();
  });
}

}  // namespace weft

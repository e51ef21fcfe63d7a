/// Who is there, and what is everybody waiting for?
///
///     std::puts(dump(loop).c_str());     // one Io, as a tree of scopes and tasks
///     dump_on_signal(SIGQUIT);           // then: kill -QUIT pid
///
///     loop: 3 tasks
///       main (tid 1) blocked: scope #4
///         scope 'fetchers' #4
///           reader (tid 2) blocked: sleep | channel #7
///              read_all()+0x1c
///              ...
///
/// dump() may be called by a task of the Io, or by the thread that drives it: nothing else runs
/// then.
#pragma once

#include <string>

namespace weft {

class Io;

struct DumpOptions {
  bool backtraces = true;
  std::size_t max_tasks = 10'000;  // the rest is counted
};

[[nodiscard]] std::string dump(Io& io, const DumpOptions& options = {});

/// Installs a handler: each Io prints its dump on stderr the next time it is between tasks.
void dump_on_signal(int signal);

namespace detail {
void register_io(Io& io);
void unregister_io(Io& io) noexcept;
}  // namespace detail

/// The engine's side: prints if a signal asked for it since this Io was last asked.
void answer_dump_request(Io& io);

}  // namespace weft

/// Bodies that use the machine: descriptors, files, processes.
///
///     REAL(Tcp, T16_Echo) {
///       Scope scope;
///       ...
///       co_await stream.write_op(as_bytes("hello"));
///     }
///
/// Like EVERYWHERE, but on the real kernels: a loop on epoll and one on io_uring (where the machine
/// has it; the test says so where not), as fiber and as coroutine; REAL_AND_INLINE also on an
/// inline Io. At the end nothing may be left: no task, no stack, no allocation, no descriptor.
#pragma once

#include "support/everywhere.hpp"

#include <algorithm>
#include <filesystem>

namespace weft::test {

/// Descriptors this process has open.
inline std::size_t open_descriptors() {
  const auto all = std::filesystem::directory_iterator("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

inline const char* to_string(Backend backend) {
  switch (backend) {
    case Backend::uring:
      return "io_uring";
    case Backend::mixed:
      return "epoll, with io_uring for files";
    default:
      return "epoll";
  }
}

template <class MakeIo, class Body>
void run_real(const char* engine_name, Engine engine, Kind kind, MakeIo make, Body body) {
  SCOPED_TRACE(std::string(engine_name) + (kind == Kind::fiber ? " as fiber" : " as coroutine"));
  const auto fds_before = open_descriptors();
  const auto before = live_allocations();
  try {
    auto io = make();
    Here here(engine, kind, *io);
    if (kind == Kind::fiber) {
      io->run([&] { await(body(here)); });
    } else {
      io->run([&] { return body(here); });
    }
    EXPECT_EQ(io->live(), 0U);
    EXPECT_EQ(io->stacks().stats().in_use, 0U);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "the body threw: " << error.what();
  }
  EXPECT_EQ(live_allocations(), before) << "something was allocated and not freed";
  EXPECT_EQ(open_descriptors(), fds_before) << "a descriptor was left open";
}

template <class Body>
void run_on_real_kernels(bool inline_too, Body body) {
  // Made on first use, and never given back.
  static_cast<void>(why_no_uring());
  for (const Kind kind : {Kind::fiber, Kind::coroutine}) {
    for (const Backend backend : {Backend::epoll, Backend::uring, Backend::mixed}) {
      if (backend != Backend::epoll && !why_no_uring().empty()) continue;
      run_real(
          to_string(backend), Engine::loop, kind,
          [&] {
            return std::make_unique<Loop>(
                LoopOptions{.kernel = make_real_kernel({.backend = backend}),
                            .on_deadlock = OnDeadlock::automatic});
          },
          body);
    }
    if (inline_too) {
      run_real("inline", Engine::inline_io, kind, [] { return std::make_unique<Inline>(); }, body);
    }
  }
  if (!why_no_uring().empty()) {
    std::printf("note: not run on io_uring, because %s\n", why_no_uring().c_str());
  }
}

}  // namespace weft::test

#define WEFT_REAL_BODY(suite, name, inline_too)                     \
  static ::weft::Coro<> suite##_##name(::weft::test::Here& here);   \
  TEST(suite, name) {                                               \
    ::weft::test::run_on_real_kernels(inline_too, &suite##_##name); \
  }                                                                 \
  static ::weft::Coro<> suite##_##name([[maybe_unused]] ::weft::test::Here& here)

#define REAL(suite, name) WEFT_REAL_BODY(suite, name, false)
#define REAL_AND_INLINE(suite, name) WEFT_REAL_BODY(suite, name, true)

// The real kernels, epoll and io_uring, side by side: what one does, the other must.
#include <weft/io/kernel.hpp>

#include <weft/io/fd.hpp>

#include "support/real.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace weft;
using namespace weft::test;

namespace {

std::vector<Backend> backends() {
  if (!why_no_uring().empty()) return {Backend::epoll};
  return {Backend::epoll, Backend::uring, Backend::mixed};
}

std::unique_ptr<Loop> make_loop(Backend backend) {
  return std::make_unique<Loop>(LoopOptions{.kernel = make_real_kernel({.backend = backend})});
}

struct Pair {
  Fd a, b;
};

Pair socket_pair() {
  int fds[2];
  check_sys(machine()->socket_pair(AF_UNIX, SOCK_STREAM, fds), "socketpair");
  return {Fd(machine(), fds[0], Source::Kind::socket), Fd(machine(), fds[1], Source::Kind::socket)};
}

/// Is it readable, within so many milliseconds?
bool readable(int fd, int limit_ms = 0) {
  pollfd one{fd, POLLIN, 0};
  int n = 0;
  do {
    n = ::poll(&one, 1, limit_ms);
  } while (n < 0 && errno == EINTR);
  return n == 1;
}
bool readable(const Fd& fd, int limit_ms = 0) {
  return readable(fd.number(), limit_ms);
}

void put(const Fd& fd) {
  EXPECT_EQ(::write(fd.number(), "x", 1), 1);
}

// --- time and interruption ----------------------------------------------------------------------

TEST(RealKernel, F4_WaitsUntilTheDeadlineAndNotMuchLonger) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    auto kernel = make_real_kernel({.backend = backend});
    for (const Duration wanted : {Duration(0), Duration(1), Duration(100us), Duration(20ms)}) {
      const Instant start = kernel->now();
      const Instant until = start + wanted;
      while (kernel->now() < until) kernel->wait(until);
      EXPECT_LT(kernel->now() - start, wanted + 1s);  // a machine may be busy; an hour off is a bug
    }
    const Instant start = kernel->now();
    kernel->wait(Instant{});
    kernel->wait(Instant{} + 1ns);
    EXPECT_LT(kernel->now() - start, 1s);
  }
}

TEST(RealKernel, S1_InterruptFromAnotherThreadEndsAWait) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    auto kernel = make_real_kernel({.backend = backend});
    std::atomic<int> given{0};
    std::atomic<int> taken{0};
    constexpr int rounds = 500;
    std::thread other([&] {
      for (int i = 0; i < rounds; ++i) {
        while (taken < i) std::this_thread::yield();
        given = i + 1;
        kernel->interrupt();
      }
    });
    for (int i = 0; i < rounds; ++i) {
      while (given <= i) kernel->wait(Instant::never());  // hangs if one is lost
      ++taken;
    }
    other.join();
  }
}

TEST(RealKernel, S1_InterruptBeforeTheWaitCounts) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    auto kernel = make_real_kernel({.backend = backend});
    kernel->interrupt();
    kernel->wait(Instant::never());
    // By a thread that is gone, while another waits than before.
    std::thread([&] { kernel->wait(Instant{}); }).join();
    std::thread([&] { kernel->interrupt(); }).join();
    kernel->wait(Instant::never());
    std::thread([&] {
      kernel->interrupt();
      kernel->wait(Instant::never());
    }).join();
    kernel->interrupt();
    kernel->wait(Instant::never());
  }
}

std::atomic<Kernel*> to_interrupt{nullptr};
std::atomic<int> signals_seen{0};

TEST(RealKernel, S1_InterruptFromASignalHandlerEndsAWait) {
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = [](int) {
    ++signals_seen;
    to_interrupt.load()->interrupt();
  };
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    auto kernel = make_real_kernel({.backend = backend});
    to_interrupt = kernel.get();
    signals_seen = 0;
    std::atomic<bool> stop{false};
    const pthread_t waiter = ::pthread_self();
    std::thread other([&] {
      sigset_t all;
      ::sigfillset(&all);
      ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
      while (!stop) {
        ::pthread_kill(waiter, SIGUSR1);
        std::this_thread::yield();
      }
    });
    // A thread that keeps its signal to itself tests the handler, not EINTR.
    for (int i = 0; i < 200; ++i) {
      const int seen = signals_seen;
      while (signals_seen == seen) kernel->wait(Instant::never());
    }
    stop = true;
    other.join();
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

// --- as a guest
// -----------------------------------------------------------------------------------

TEST(RealKernel, T17_PollFdIsReadableWhenThereIsSomething) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    auto kernel = make_real_kernel({.backend = backend});
    const int fd = kernel->poll_fd(Instant::never());
    EXPECT_FALSE(readable(fd));
    kernel->interrupt();
    EXPECT_TRUE(readable(fd, 10'000));
    kernel->wait(Instant{});
    EXPECT_FALSE(readable(fd));
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(kernel->poll_fd(kernel->now() + 2ms), fd);
      EXPECT_TRUE(readable(fd, 10'000));
      kernel->wait(Instant{});
    }
    EXPECT_EQ(kernel->poll_fd(kernel->now() + 1h), fd);
    kernel->wait(Instant{});
    EXPECT_FALSE(readable(fd));
    EXPECT_EQ(kernel->poll_fd(Instant{}), fd);  // over already
    EXPECT_TRUE(readable(fd, 10'000));
  }
}

TEST(RealKernel, T17_AGuestLoopSeesDescriptors) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    auto loop = make_loop(backend);
    auto [a, b] = socket_pair();
    int got = 0;
    loop->spawn([&a, &got] {
      std::array<std::byte, 1> buffer;
      while (a.read(buffer) == 1) ++got;
    });
    while (loop->run_until_idle()) {
      const int fd = loop->fd();
      while (readable(fd)) {  // what was left from before
        loop->run_until_idle();
        static_cast<void>(loop->fd());
      }
      if (got == 20) {
        b.close();
      } else {
        put(b);
      }
      ASSERT_TRUE(readable(fd, 10'000));
    }
    EXPECT_EQ(got, 20);
  }
}

// --- descriptors --------------------------------------------------------------------------------

/// Lets a task wait for `fd`, so that it is watched, and gives up.
void get_watched(const Fd& fd) {
  std::array<std::byte, 1> buffer;
  EXPECT_FALSE(perform(timeout(fd.read_op(buffer), 10us)).has_value());
}

/// Or until it is closed.
void read_to_the_end(const Fd& fd) {
  std::array<std::byte, 4> buffer;
  try {
    while (fd.read(buffer) > 0) {
    }
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code().value(), EBADF);
  }
}

TEST(RealKernel, S4_ThePeerSeesACloseAtOnce) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    auto loop = make_loop(backend);
    loop->run([] {
      for (int round = 0; round < 200; ++round) {
        auto [a, b] = socket_pair();
        get_watched(a);
        if (round % 3 == 1) put(b);  // an event is on its way
        if (round % 3 == 2) {        // watched, and nobody has been in wait() since
          auto c = socket_pair();
          Scope scope;
          scope.spawn([&c] { read_to_the_end(c.a); });
          yield();
          c.a.close();
          EXPECT_TRUE(readable(c.b));
        }
        a.close();
        EXPECT_TRUE(readable(b)) << "the loop has not been in wait() since";
      }
    });
  }
}

TEST(RealKernel, S4_ThePeerSeesACloseByAnotherThread) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    for (int round = 0; round < 50; ++round) {
      auto [a, b] = socket_pair();
      std::atomic<bool> seen{false};
      std::thread other;
      auto loop = make_loop(backend);
      loop->run([&] {
        get_watched(a);
        other = std::thread([&] {
          a.close();
          EXPECT_TRUE(readable(b, 10'000));
          seen = true;
        });
        // The loop sleeps, or it computes.
        if (round % 2 == 0) {
          while (!seen) sleep(100us);
        } else {
          while (!seen) std::this_thread::yield();
        }
      });
      other.join();
    }
  }
}

TEST(RealKernel, S4_AThousandWatchesWithEventsInFlightLeaveNothing) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    const auto fds_before = open_descriptors();
    const auto before = live_allocations();
    {
      auto loop = make_loop(backend);
      loop->run([] {
        for (int round = 0; round < 1000; ++round) {
          auto [a, b] = socket_pair();
          Scope scope;
          auto reader = scope.spawn([&a] { read_to_the_end(a); });
          yield();
          put(b);
          if (round % 4 == 0) yield();
          if (round % 4 == 1) a.close();
          if (round % 4 == 2) b.close();
          reader.cancel();
        }
      });
    }
    EXPECT_EQ(live_allocations(), before);
    EXPECT_EQ(open_descriptors(), fds_before);
  }
}

TEST(RealKernel, S4_ClosedByAnotherThreadWhileEventsCome) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    constexpr int count = 200;
    std::vector<Pair> pairs;
    for (int i = 0; i < count; ++i) pairs.push_back(socket_pair());
    auto loop = make_loop(backend);
    std::atomic<int> waiting{0};
    std::thread other([&] {
      while (waiting < count) std::this_thread::yield();
      for (Pair& pair : pairs) {
        put(pair.b);
        pair.a.close();
        pair.b.close();
      }
    });
    loop->run([&] {
      Scope scope;
      for (Pair& pair : pairs) {
        scope.spawn([&] {
          ++waiting;
          read_to_the_end(pair.a);
        });
      }
    });
    other.join();
  }
}

TEST(RealKernel, S4_ClosedByAnotherThreadWhileTheKernelGoes) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    for (int round = 0; round < 100; ++round) {
      std::vector<Pair> pairs;
      for (int i = 0; i < 8; ++i) pairs.push_back(socket_pair());
      auto loop = make_loop(backend);
      loop->run([&] {
        for (const Pair& pair : pairs) get_watched(pair.a);
      });
      std::atomic<bool> go{false};
      std::thread other([&] {
        while (!go) std::this_thread::yield();
        for (Pair& pair : pairs) pair.a.close();
      });
      go = true;
      loop.reset();
      other.join();
      for (const Pair& pair : pairs) EXPECT_TRUE(readable(pair.b, 10'000));
    }
  }
}

/// As many pairs as wanted, if the limit of descriptors allows.
std::size_t possible_pairs(std::size_t wanted) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return std::min<std::size_t>(wanted, (limit.rlim_cur - 100) / 2);
}

TEST(RealKernel, S3_MoreSourcesThanTheQueuesHold) {
  const std::size_t count = possible_pairs(scaled(600, 3000, 8000));
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    auto loop = make_loop(backend);
    loop->run([&] {
      std::vector<Pair> pairs;
      for (std::size_t i = 0; i < count; ++i) pairs.push_back(socket_pair());
      std::size_t got = 0;
      std::size_t ends = 0;
      Scope scope;
      for (Pair& pair : pairs) {
        scope.spawn([&]() -> Coro<> {
          std::array<std::byte, 1> buffer;
          while (co_await pair.a.read_op(buffer) == 1) ++got;
          ++ends;
        });
      }
      yield();
      for (std::size_t round = 1; round <= 3; ++round) {
        for (const Pair& pair : pairs) put(pair.b);
        while (got < round * count) sleep(100us);
      }
      for (Pair& pair : pairs) pair.b.close();
      while (ends < count) sleep(100us);
      EXPECT_EQ(got, 3 * count);
    });
  }
}

TEST(RealKernel, S3_MoreEventsThanTheQueueHolds) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    auto loop = make_loop(backend);
    loop->run([] {
      auto [a, b] = socket_pair();
      auto [c, d] = socket_pair();
      get_watched(a);
      get_watched(c);
      // Each write is an event, and nobody takes them.
      char byte = 0;
      for (int i = 0; i < 6000; ++i) {
        put(b);
        EXPECT_EQ(::read(a.number(), &byte, 1), 1);
      }
      put(d);
      std::array<std::byte, 4> buffer;
      EXPECT_EQ(c.read(buffer), 1U);
      for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(perform(timeout(a.read_op(buffer), 50us)).has_value());
        EXPECT_FALSE(perform(timeout(c.read_op(buffer), 50us)).has_value());
        put(b);
        put(d);
        EXPECT_EQ(a.read(buffer), 1U);
        EXPECT_EQ(c.read(buffer), 1U);
      }
    });
  }
}

TEST(RealKernel, S3_ALoopMayMoveFromThreadToThread) {
  for (const Backend backend : backends()) {
    SCOPED_TRACE(to_string(backend));
    auto [a, b] = socket_pair();
    auto [c, d] = socket_pair();
    int got = 0;
    auto loop = make_loop(backend);
    loop->spawn([&a, &got] {
      std::array<std::byte, 1> buffer;
      while (a.read(buffer) == 1) ++got;
    });
    // Each thread ends while its poll is in flight; or goes on, computing.
    std::atomic<bool> stop{false};
    std::atomic<int> computing{0};
    std::vector<std::thread> threads;
    for (int round = 1; round <= 12; ++round) {
      threads.emplace_back([&, round] {
        put(b);
        loop->block_on([&] {
          while (got < round) sleep(50us);
          get_watched(c);
        });
        ++computing;
        while (round % 3 == 0 && !stop) std::this_thread::yield();
      });
      while (computing < round) std::this_thread::yield();
    }
    b.close();
    loop->run();
    EXPECT_EQ(got, 12);
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(RealKernel, S3_WhatIsAlwaysReadyIsNotWaitedFor) {
  if (!why_no_uring().empty()) GTEST_SKIP() << "no io_uring: " << why_no_uring();
  auto loop = make_loop(Backend::uring);
  loop->run([] {
    const int zero = ::open("/dev/zero", O_RDWR | O_CLOEXEC);
    Fd fd(machine(), zero, Source::Kind::other);
    fd.source().would_block(fd.source().seen(), Direction::read);
    perform(fd.readable_op());
    for (int i = 0; i < 10; ++i) sleep(50us);
    perform(fd.readable_op());
  });
}

}  // namespace

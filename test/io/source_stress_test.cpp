// The latch of a descriptor under everything at once: readers on several Ios and threads, timeouts,
// closes, kernels that come and go. A test that finds a lost wake-up says so after a while, and
// then ends everybody by closing; so it fails, and does not hang.
#include <weft/io/source.hpp>

#include "support/memory_world.hpp"
#include "support/real.hpp"

#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace weft;
using namespace weft::test;

namespace {

/// Until something is true. Gives up after some time, which only a broken build needs.
template <class Condition>
bool comes_true(Condition condition) {
  const auto clock = make_thread_kernel();
  const Instant limit = clock->now() + 20s;
  for (int looks = 0; !condition(); ++looks) {
    if (clock->now() > limit) return false;
    if (looks > 100) clock->wait(clock->now() + 20us);  // let the others get on
  }
  return true;
}

/// Some turns of an empty loop: for a moment that is not the same every time.
void dawdle(std::uint32_t turns) {
  for (; turns > 0; --turns) std::atomic_signal_fence(std::memory_order_seq_cst);
}

/// What all readers of a run share.
struct Crowd {
  std::shared_ptr<MemoryWorld> world = std::make_shared<MemoryWorld>();
  Fd fd;
  std::atomic<std::size_t> received{0};
  std::atomic<int> refused{0};       // saw that it was closed
  std::atomic<int> saw_end{0};       // saw the end
  std::atomic<std::size_t> lost{0};  // selects that the other case won
  std::atomic<std::uint32_t> round{0};
  std::atomic<bool> over{false};

  explicit Crowd(Source::Kind kind) : fd(world->make(kind)) {}

  [[nodiscard]] LoopOptions loop_options() const {
    return {.kernel = world->make_kernel(), .on_deadlock = OnDeadlock::wait};
  }
  [[nodiscard]] InlineOptions inline_options() const {
    return {.kernel = world->make_kernel(), .on_deadlock = OnDeadlock::wait};
  }

  /// Reads until the end, or until it is closed.
  Coro<> read_on(std::uint64_t seed) {
    Rng rng(seed);
    std::array<std::byte, 4> buffer;
    try {
      while (const std::size_t n =
                 co_await fd.read_op(Bytes(buffer).first(1 + rng.below(buffer.size())))) {
        received += n;
      }
      ++saw_end;
    } catch (const std::system_error&) {
      ++refused;
    }
  }

  /// Waits a little, now and then, and goes away again. False: it is over.
  bool read_a_moment(Rng& rng) {
    std::array<std::byte, 2> buffer;
    try {
      const auto n = perform(timeout(fd.read_op(Bytes(buffer).first(1 + rng.below(buffer.size()))),
                                     1us * rng.below(150)));
      if (!n) ++lost;
      if (n == 0U) return false;
      received += n.value_or(0);
    } catch (const std::system_error&) {
      return false;
    }
    return true;
  }

  /// Sends `bytes` in some pieces, and waits until everything has arrived somewhere: nothing that
  /// comes later makes good for a wake-up that was lost.
  bool supply_and_wait(Rng& rng, std::size_t bytes, std::size_t& sent) {
    ++round;
    round.notify_all();
    for (std::size_t left = bytes; left > 0;) {
      const std::size_t part = std::min<std::size_t>(left, 1 + rng.below(3));
      dawdle(rng.below(4) * rng.below(10'000));
      world->supply(fd.number(), part);
      left -= part;
      sent += part;
    }
    return comes_true([&] { return received == sent; });
  }
};

/// A thread with its own Io on which some read: as fibers, as coroutines, or the thread itself.
void run_readers(Crowd& crowd, std::uint64_t seed) {
  if (seed % 3 == 0) {
    Inline io(crowd.inline_options());
    io.run([&] { await(crowd.read_on(seed)); });
    return;
  }
  Loop loop(crowd.loop_options());
  for (std::uint64_t i = 0; i < 3; ++i) {
    if (seed % 3 == 1) {
      loop.spawn([&, i] { await(crowd.read_on(seed * 10 + i)); });
    } else {
      loop.spawn([&, i] { return crowd.read_on(seed * 10 + i); });
    }
  }
  loop.run();
}
constexpr int readers_of_three_threads = 1 + 3 + 3;

/// Once per round: somebody with a timeout.
void run_passer_by(Crowd& crowd, std::uint64_t seed) {
  Rng rng(seed);
  Inline io(crowd.inline_options());
  io.run([&] {
    for (std::uint32_t seen = 0; !crowd.over && crowd.read_a_moment(rng);) {
      crowd.round.wait(seen);
      seen = crowd.round;
    }
  });
}

class SourceStress : public testing::TestWithParam<int> {};

TEST_P(SourceStress, T16_NoWakeUpIsLostAndNoByteReadTwice) {
  const auto base = static_cast<std::uint64_t>(GetParam()) * 1000;
  Crowd crowd(GetParam() % 2 == 0 ? Source::Kind::pipe : Source::Kind::other);
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { run_readers(crowd, base * 3 + i); });
    threads.emplace_back([&, i] { run_passer_by(crowd, base + 500 + i); });
  }
  Rng rng(base);
  std::size_t sent = 0;
  bool fine = true;
  for (std::size_t k = scaled(40, 300, 5000); k > 0 && fine; --k) {
    fine = crowd.supply_and_wait(rng, 1 + rng.below(6), sent);
  }
  EXPECT_TRUE(fine) << crowd.world->bytes(crowd.fd.number()) << " bytes are there, and all wait";
  EXPECT_EQ(crowd.received, sent);
  crowd.over = true;
  if (fine) {
    crowd.world->end(crowd.fd.number());
    fine = comes_true([&] { return crowd.saw_end == readers_of_three_threads; });
    EXPECT_TRUE(fine) << crowd.saw_end << " saw the end";
  }
  ++crowd.round;
  crowd.round.notify_all();
  if (!fine) crowd.fd.close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(crowd.world->wrong_calls(), 0U);
}

TEST_P(SourceStress, T16_CloseAtAnyMomentEndsEverybody) {
  Rng rng(static_cast<std::uint64_t>(GetParam()));
  for (std::size_t k = scaled(5, 30, 500); k > 0; --k) {
    Crowd crowd(Source::Kind::pipe);
    const int number = crowd.fd.number();
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < 3; ++i) {
      threads.emplace_back([&, seed = rng.next() / 3 * 3 + i] { run_readers(crowd, seed); });
    }
    for (std::uint32_t i = rng.below(30); i > 0; --i) {
      crowd.world->supply(number, rng.below(3));
      dawdle(rng.below(20'000));
    }
    std::thread other([&] { crowd.fd.close(); });
    crowd.fd.close();
    other.join();
    // The number may have been given out again; whoever still reads must not read from that.
    const bool closed = comes_true([&] { return !crowd.world->open(number); });
    EXPECT_TRUE(closed);
    Fd reused = crowd.world->make(Source::Kind::pipe);
    EXPECT_EQ(reused.number(), number);
    crowd.world->supply(number, 5);
    EXPECT_TRUE(comes_true([&] { return crowd.refused == readers_of_three_threads; }));
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(crowd.world->bytes(number), 5U);
    EXPECT_EQ(crowd.world->wrong_calls(), 0U);
  }
}

/// Loops that come, wait for a moment, and are then destroyed, or only not run any more.
void run_short_lived_loops(Crowd& crowd, std::uint64_t seed) {
  Rng rng(seed);
  std::deque<std::unique_ptr<Loop>> idle;
  for (std::uint32_t seen = 0; !crowd.over;) {
    auto loop = std::make_unique<Loop>(crowd.loop_options());
    loop->run([&] { crowd.read_a_moment(rng); });
    if (rng.below(2) == 0) idle.push_back(std::move(loop));
    if (idle.size() > 2) idle.pop_front();
    if (rng.below(2) == 0) {
      crowd.round.wait(seen);
      seen = crowd.round;
    }
  }
}

TEST_P(SourceStress, S3_KernelsComeAndGoWhileOthersWait) {
  const auto base = static_cast<std::uint64_t>(GetParam()) * 1000;
  Crowd crowd(Source::Kind::pipe);
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] { run_short_lived_loops(crowd, base + i); });
  }
  threads.emplace_back([&] { run_readers(crowd, base * 3); });
  threads.emplace_back([&] { run_readers(crowd, base * 3 + 1); });
  Rng rng(base);
  std::size_t sent = 0;
  bool fine = true;
  for (std::size_t k = scaled(40, 300, 5000); k > 0 && fine; --k) {
    fine = crowd.supply_and_wait(rng, 1 + rng.below(4), sent);
  }
  EXPECT_TRUE(fine) << crowd.world->bytes(crowd.fd.number()) << " bytes are there, and all wait";
  EXPECT_EQ(crowd.received, sent);
  crowd.over = true;
  ++crowd.round;
  crowd.round.notify_all();
  crowd.fd.close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(crowd.world->wrong_calls(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Seeds, SourceStress, testing::Range(1, 5));

// The same on the machine's kernels.

std::unique_ptr<Loop> make_real_loop(Backend backend) {
  return std::make_unique<Loop>(LoopOptions{.kernel = make_real_kernel({.backend = backend})});
}

void real_kernels_come_and_go(Backend backend) {
  int fds[2];
  check_sys(machine()->pipe(fds), "pipe");
  Fd in(machine(), fds[0], Source::Kind::pipe);
  Fd out(machine(), fds[1], Source::Kind::pipe);
  std::atomic<std::size_t> received{0};
  std::atomic<bool> over{false};
  auto short_lived = [&](std::uint64_t seed) {
    Rng rng(seed);
    std::deque<std::unique_ptr<Loop>> idle;
    while (!over) {
      auto loop = make_real_loop(backend);
      loop->run([&] {
        std::array<std::byte, 2> buffer;
        received += perform(timeout(in.read_op(buffer), 1us * rng.below(500))).value_or(0);
      });
      if (rng.below(2) == 0) idle.push_back(std::move(loop));
      if (idle.size() > 2) idle.pop_front();
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed = 1; seed <= 2; ++seed) threads.emplace_back(short_lived, seed);
  threads.emplace_back([&] {
    make_real_loop(backend)->run([&] {
      std::array<std::byte, 4> buffer;
      while (const std::size_t n = in.read(buffer)) received += n;
    });
  });
  Rng rng(7);
  std::size_t sent = 0;
  bool fine = true;
  for (std::size_t k = scaled(30, 200, 3000); k > 0 && fine; --k) {
    const std::size_t n = 1 + rng.below(5);
    out.write(std::string_view("12345").substr(0, n));
    sent += n;
    fine = comes_true([&] { return received == sent; });
  }
  EXPECT_TRUE(fine) << received << " of " << sent << " bytes arrived, and all wait";
  over = true;
  out.close();
  if (!fine) in.close();
  for (std::thread& thread : threads) thread.join();
}

TEST(SourceOnTheMachine, S3_KernelsComeAndGoWhileOthersWait) {
  for (const Backend backend : {Backend::epoll, Backend::uring}) {
    if (backend == Backend::uring && !why_no_uring().empty()) continue;
    SCOPED_TRACE(to_string(backend));
    const auto before = open_descriptors();
    real_kernels_come_and_go(backend);
    EXPECT_EQ(open_descriptors(), before);
  }
}

struct Pair {
  Fd near, far;
};

Pair tcp_pair() {
  World& world = *machine();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof address;
  auto make = [&] { return static_cast<int>(world.socket(AF_INET, SOCK_STREAM, 0)); };
  Fd listener(machine(), make(), Source::Kind::tcp);
  check_sys(world.bind(listener.number(), any, size), "bind");
  check_sys(world.listen(listener.number(), 1), "listen");
  check_sys(world.name(listener.number(), World::End::local, any, &size), "name");
  Fd far(machine(), make(), Source::Kind::tcp);
  const SysResult begun = world.connect(far.number(), any, size);
  EXPECT_TRUE(begun == 0 || begun == -EINPROGRESS);
  SysResult number = -EAGAIN;
  EXPECT_TRUE(comes_true([&] {
    number = world.accept(listener.number(), nullptr, nullptr);
    return number != -EAGAIN;
  }));
  return {Fd(machine(), static_cast<int>(number), Source::Kind::tcp), std::move(far)};
}

// A read stops at the mark of urgent data: there may be more, though it was short.
TEST(SourceOnTheMachine, T16_UrgentDataDoesNotHideWhatFollows) {
  auto [near, far] = tcp_pair();
  auto put = [&](const char* text, int flags) {
    EXPECT_EQ(::send(far.number(), text, std::strlen(text), flags),
              static_cast<long>(std::strlen(text)));
  };
  make_real_loop(Backend::epoll)->run([&] {
    std::array<std::byte, 64> buffer;
    EXPECT_FALSE(perform(timeout(near.read_op(buffer), 1ms)).has_value());  // now it is watched
    put("before", 0);
    put("!", MSG_OOB);
    put("after", 0);
    sleep(2ms);  // one report for all of it
    std::string text;
    while (text.size() < 11) {
      const auto n = perform(timeout(near.read_op(buffer), 5s));
      EXPECT_TRUE(n.has_value()) << "after '" << text << "'";
      if (!n) break;
      text += as_text(Bytes(buffer).first(*n));
    }
    EXPECT_EQ(text, "beforeafter");
  });
}

// A pipe of somebody else's may keep its writes apart; then a short read says nothing.
TEST(SourceOnTheMachine, T16_AnAdoptedPipeMayHoldPackets) {
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_DIRECT | O_NONBLOCK | O_CLOEXEC), 0);
  Fd in = adopt_fd(fds[0]);
  Fd out = adopt_fd(fds[1]);
  make_real_loop(Backend::epoll)->run([&] {
    std::array<std::byte, 64> buffer;
    EXPECT_FALSE(perform(timeout(in.read_op(buffer), 1ms)).has_value());
    out.write("one");
    out.write("more");
    sleep(2ms);
    EXPECT_EQ(perform(timeout(in.read_op(buffer), 5s)), 3U);
    EXPECT_EQ(perform(timeout(in.read_op(buffer), 5s)), 4U);
  });
}

}  // namespace

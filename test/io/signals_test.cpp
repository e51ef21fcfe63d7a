#include <weft/io/signals.hpp>

#include <weft/base/rng.hpp>
#include <weft/io/process.hpp>

#include "support/real.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <system_error>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace weft;
using namespace weft::test;

namespace {

std::atomic<int> handled_elsewhere{0};
void count_signal(int) {
  ++handled_elsewhere;
}

/// Somebody else's way of treating a signal, for the time of a test.
class Disposition {
 public:
  Disposition(int signal, void (*handler)(int)) : signal_(signal) {
    struct sigaction action{};
    action.sa_handler = handler;
    ::sigaction(signal, &action, &before_);
  }
  Disposition(const Disposition&) = delete;
  Disposition& operator=(const Disposition&) = delete;
  ~Disposition() { ::sigaction(signal_, &before_, nullptr); }

 private:
  int signal_;
  struct sigaction before_{};
};

int error_of_subscribing(std::initializer_list<int> signals) {
  try {
    const Signals refused(signals);
  } catch (const std::system_error& error) {
    return error.code().value();
  }
  return 0;
}

REAL(Signals, T16_ArriveFromTheProgramItself) {
  const Signals signals({SIGUSR1, SIGUSR2});
  ::raise(SIGUSR1);
  EXPECT_EQ(co_await signals.next_op(), SIGUSR1);
  Scope scope;
  auto waiter = here.spawn(scope, [&]() -> Coro<int> { co_return co_await signals.next_op(); });
  co_await sleep_op(1ms);
  EXPECT_FALSE(waiter.done());
  ::kill(::getpid(), SIGUSR2);
  EXPECT_EQ((co_await waiter.join_op()).value(), SIGUSR2);
  co_await scope.joined();
}

REAL(Signals, T16_ArriveFromAChild) {
  const Signals signals({SIGUSR1});
  Process child = co_await Process::start_op(Command("sh").args("-c", "kill -USR1 $PPID"));
  EXPECT_EQ(co_await signals.next_op(), SIGUSR1);
  EXPECT_TRUE((co_await child.wait_op()).ok());
}

REAL(Signals, T16_BurstsStayInOrder) {
  const Signals signals({SIGUSR1, SIGUSR2, SIGHUP});
  const std::array<int, 3> which{SIGUSR1, SIGUSR2, SIGHUP};
  Rng rng(7);
  std::vector<int> sent;
  for (int i = 0; i < 1000; ++i) {
    sent.push_back(which[rng.below(3)]);
    ::raise(sent.back());
  }
  for (const int signal : sent) EXPECT_EQ(co_await signals.next_op(), signal);
  EXPECT_FALSE((co_await timeout(signals.next_op(), 100us)).has_value());
}

REAL(Signals, T16_EachObjectGetsEach) {
  const Signals first({SIGUSR1});
  auto second = std::make_unique<Signals>(std::initializer_list<int>{SIGUSR1, SIGUSR2});
  ::raise(SIGUSR1);
  ::raise(SIGUSR2);
  EXPECT_EQ(co_await first.next_op(), SIGUSR1);
  EXPECT_EQ(co_await second->next_op(), SIGUSR1);
  EXPECT_EQ(co_await second->next_op(), SIGUSR2);
  EXPECT_FALSE((co_await timeout(first.next_op(), 100us)).has_value());
  second = nullptr;
  ::raise(SIGUSR1);
  EXPECT_EQ(co_await first.next_op(), SIGUSR1);
}

REAL(Signals, T16_TheLastToGoRestoresWhatWas) {
  const Disposition somebody(SIGUSR1, &count_signal);
  handled_elsewhere = 0;
  {
    const Signals first({SIGUSR1});
    {
      const Signals second({SIGUSR1});
      ::raise(SIGUSR1);
    }
    ::raise(SIGUSR1);
    EXPECT_EQ(handled_elsewhere, 0);
    EXPECT_EQ(co_await first.next_op(), SIGUSR1);
    EXPECT_EQ(co_await first.next_op(), SIGUSR1);
  }
  ::raise(SIGUSR1);
  EXPECT_EQ(handled_elsewhere, 1);
}

REAL(Signals, T16_AHandlerPutOverOursStays) {
  const Disposition restore(SIGUSR1, SIG_IGN);
  handled_elsewhere = 0;
  {
    const Signals signals({SIGUSR1});
    struct sigaction action{};
    action.sa_handler = &count_signal;
    ::sigaction(SIGUSR1, &action, nullptr);
  }
  ::raise(SIGUSR1);
  EXPECT_EQ(handled_elsewhere, 1);
  co_return;
}

REAL(Signals, C16_InASelectWithAChannel) {
  const Signals stop({SIGTERM});
  Channel<int> done(1);
  co_await done.send_op(5);
  auto won = co_await race(stop.next_op(), done.recv_op());
  EXPECT_EQ(won.index(), 1U);
  ::raise(SIGTERM);
  won = co_await race(stop.next_op(), done.recv_op());
  EXPECT_EQ(won.index(), 0U);
  EXPECT_EQ(std::get<0>(won), SIGTERM);
}

REAL(Signals, F9_ACancelledWaitLeavesTheSignal) {
  const Signals signals({SIGUSR1});
  Scope scope;
  auto waiter = here.spawn(scope, [&]() -> Coro<int> { co_return co_await signals.next_op(); });
  co_await sleep_op(100us);
  waiter.cancel();
  EXPECT_TRUE((co_await waiter.join_op()).cancelled());
  ::raise(SIGUSR1);
  EXPECT_EQ(co_await signals.next_op(), SIGUSR1);
  co_await scope.joined();
}

REAL(Signals, T16_WaitersTakeTurns) {
  const Signals signals({SIGUSR1});
  Scope scope;
  int got = 0;
  for (int i = 0; i < 4; ++i) {
    here.spawn(scope, [&]() -> Coro<> {
      for (int k = 0; k < 5; ++k) got += co_await signals.next_op() == SIGUSR1 ? 1 : 0;
    });
  }
  co_await sleep_op(100us);
  for (int i = 0; i < 20; ++i) ::raise(SIGUSR1);
  co_await scope.joined();
  EXPECT_EQ(got, 20);
}

REAL(Signals, T16_CloseWakesWaiters) {
  Signals signals({SIGUSR1});
  Scope scope;
  auto waiter = here.spawn(scope, [&]() -> Coro<int> {
    try {
      co_await signals.next_op();
    } catch (const std::system_error& error) {
      co_return error.code().value();
    }
    co_return 0;
  });
  co_await sleep_op(100us);
  signals.close();
  EXPECT_EQ((co_await waiter.join_op()).value(), EBADF);
  co_await scope.joined();
}

TEST(Signals, T16_RefusesWhatCannotBeCaught) {
  const auto fds_before = open_descriptors();
  for (const int signal : {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP,
                           SIGSYS, 0, -1, 32, 65}) {
    EXPECT_EQ(error_of_subscribing({SIGUSR1, signal}), EINVAL) << signal;
  }
  EXPECT_EQ(error_of_subscribing({}), EINVAL);
  try {
    const Signals refused({SIGTERM, SIGKILL});
  } catch (const std::system_error& error) {
    EXPECT_NE(std::string_view(error.what()).find("SIGTERM SIGKILL"), std::string_view::npos);
  }
  // Nothing was left behind by those that were refused half way.
  struct sigaction action{};
  ::sigaction(SIGUSR1, nullptr, &action);
  EXPECT_EQ(action.sa_handler, SIG_DFL);
  EXPECT_EQ(open_descriptors(), fds_before);
}

TEST(Signals, NoneIsLostShortOf64Ki) {
  const Signals signals({SIGUSR1});
  constexpr int most = 64 << 10;
  for (int i = 0; i < most + 10; ++i) ::raise(SIGUSR1);
  int got = 0;
  while (signals.next_op().try_now()) ++got;
  EXPECT_EQ(got, most);
}

TEST(Signals, AForkedCopyOfTheProgramKeepsItsSignalsToItself) {
  const Signals signals({SIGUSR1});
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::raise(SIGUSR1);
    ::_exit(0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_FALSE(signals.next_op().try_now());
}

// Subscriptions come and go while signals pour in on several threads.
TEST(Signals, T16_EndingASubscriptionRacesWithItsHandlers) {
  const Disposition ignored(SIGUSR1, SIG_IGN);
  const auto fds_before = open_descriptors();
  std::atomic<bool> stop{false};
  std::vector<std::thread> senders;
  for (int i = 0; i < 2; ++i) {
    senders.emplace_back([&] {
      while (!stop) {
        ::raise(SIGUSR1);
        std::this_thread::yield();
      }
    });
  }
  const std::size_t rounds = scaled(100, 1000, 20'000);
  for (std::size_t i = 0; i < rounds; ++i) {
    const Signals first({SIGUSR1});
    const Signals second({SIGUSR1, SIGUSR2});
    EXPECT_EQ(second.next(), SIGUSR1);
  }
  stop = true;
  for (auto& sender : senders) sender.join();
  EXPECT_EQ(open_descriptors(), fds_before);
}

TEST(Signals, Names) {
  EXPECT_EQ(signal_name(SIGINT), "SIGINT");
  EXPECT_EQ(signal_name(SIGRTMIN), "SIGRTMIN");
  EXPECT_EQ(signal_name(SIGRTMIN + 2), "SIGRTMIN+2");
  EXPECT_EQ(signal_name(999), "signal 999");
}

}  // namespace

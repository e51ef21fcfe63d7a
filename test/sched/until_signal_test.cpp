#include <weft/weft.hpp>

#include "support/everywhere.hpp"

#include <atomic>
#include <csignal>

#include <unistd.h>

namespace weft::test {
namespace {

template <class IoT>
void check(IoT& io) {
  std::atomic<int> begun{0};
  std::atomic<int> cleaned{0};
  const auto end = io.run([&] {
    return until_signal({SIGUSR1, SIGUSR2}, [&] {
      struct Count {
        std::atomic<int>& n;
        ~Count() { ++n; }
      };
      Scope scope;
      for (int i = 0; i < 10; ++i) {
        scope.spawn([&] {
          const Count count{cleaned};
          ++begun;
          sleep(1h);
        });
      }
      while (begun < 10) sleep(1ms);
      ::kill(::getpid(), SIGUSR2);  // a worker gets no signals itself
      const Count count{cleaned};
      sleep(1h);
      return 1;
    });
  });
  EXPECT_EQ(end.reason(), CancelReason::shutdown);
  EXPECT_EQ(cleaned, 11);
  EXPECT_EQ(io.run([] { return until_signal({SIGUSR1}, [] { return 7; }).value(); }), 7);
  EXPECT_THROW(io.run([] {
    until_signal({SIGUSR1}, []() -> int { throw std::runtime_error("own"); }).value();
  }),
               std::runtime_error);
}

TEST(UntilSignal, C24_CancelsOnALoop) {
  Loop loop;
  check(loop);
}

TEST(UntilSignal, C24_CancelsOnAPool) {
#if defined(WEFT_TSAN)
  GTEST_SKIP() << "ThreadSanitizer keeps a signal back as long as the main thread is in a futex";
#endif
  Pool pool({.workers = 2});
  check(pool);
}

}  // namespace
}  // namespace weft::test

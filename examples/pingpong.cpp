// Ping-pong: two fibers and two channels without buffer; every send meets a receive.
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>

namespace {

constexpr int rounds = 200'000;

}  // namespace

int main() {
  weft::Loop loop;
  loop.run([] {
    weft::Channel<int> ping;
    weft::Channel<int> pong;
    weft::Scope scope;
    scope.spawn([&] {
      while (auto ball = ping.recv()) pong.send(*ball + 1);
      pong.close();
    });

    const weft::Instant start = weft::now();
    int ball = 0;
    for (int i = 0; i < rounds; ++i) {
      ping.send(ball);
      ball = *pong.recv();
    }
    ping.close();
    const auto each = (weft::now() - start) / rounds;
    std::printf("%d round trips, the ball was hit %d times\n", rounds, ball);
    std::fprintf(stderr, "%lld ns per round trip\n", static_cast<long long>(each.count()));
  });
  return 0;
}

// Timeouts: of one operation, and of a whole computation. The clock is virtual, so an hour takes no
// time.
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>

using namespace std::chrono_literals;

namespace {

long long ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(weft::now() - weft::Instant{})
      .count();
}

}  // namespace

int main() {
  weft::Loop loop({.kernel = weft::make_virtual_kernel()});
  loop.run([] {
    weft::Channel<int> quiet;

    // One operation: an optional that is empty when time ran out.
    const auto value = perform(weft::timeout(quiet.recv_op(), 100ms));
    std::printf("at %lld ms: %s\n", ms(), value ? "received" : "nothing was received in time");

    // A computation of any depth: its current wait is interrupted, its destructors run.
    const weft::Outcome<int> outcome = weft::timeout(50ms, [&] {
      weft::sleep(1h);
      return 1;
    });
    std::printf("at %lld ms: cancelled=%d, reason: %s\n", ms(), outcome.cancelled(),
                weft::to_string(outcome.reason()));

    // The first of several.
    const auto first = weft::select(weft::sleep_op(30ms), weft::sleep_op(20ms));
    std::printf("at %lld ms: case %zu won\n", ms(), first.index());
  });
  return 0;
}

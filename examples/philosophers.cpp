// The dining philosophers. Each needs the fork to the left and the fork to the right. If all take
// the left one first, they starve: the loop notices, says who waits for what, and stops them. If
// one of them takes the right one first, all eat.
#include <weft/weft.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

using namespace std::chrono_literals;

namespace {

constexpr std::size_t guests = 5;

int dine(bool one_is_left_handed) {
  // Time is virtual: a dinner takes no time at all.
  weft::Loop loop({.kernel = weft::make_virtual_kernel(), .on_deadlock = weft::OnDeadlock::fail});
  std::array<weft::Mutex, guests> forks;
  int meals = 0;
  for (std::size_t i = 0; i < guests; ++i) {
    const std::string name = "philosopher " + std::to_string(i);
    loop.spawn(
        [&, i] {
          std::size_t first = i;
          std::size_t second = (i + 1) % guests;
          if (one_is_left_handed && i == 0) std::swap(first, second);
          for (int round = 0; round < 3; ++round) {
            const auto one = forks[first].lock();
            weft::sleep(1ms);  // thinks
            const auto other = forks[second].lock();
            weft::sleep(1ms);  // eats
            ++meals;
          }
        },
        {.name = name});
  }
  loop.run();
  return meals;
}

}  // namespace

int main() {
  std::printf("with one left-handed: %d meals\n", dine(true));
  try {
    dine(false);
  } catch (const weft::Deadlock&) {
    std::puts("all right-handed: deadlock, as everybody waits for a fork");
  }
  return 0;
}

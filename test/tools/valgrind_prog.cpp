/// A bit of everything that moves between stacks, for memcheck: switches, deep frames, exceptions
/// that are thrown, caught and rethrown around switches, coroutines, cancellation.
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;

namespace {

/// Deep enough to touch several pages, with a switch at the bottom.
[[gnu::noinline]] int descend(int depth) {
  volatile char frame[256] = {};
  if (depth == 0) {
    weft::yield();
    return 1;
  }
  const int below = descend(depth - 1);
  return below + frame[depth % 256];
}

int throw_around_switches(int number) {
  try {
    weft::yield();
    throw std::runtime_error(std::string(100, 'x') + std::to_string(number));
  } catch (const std::runtime_error&) {
    weft::yield();  // inside the handler: the exception belongs to this fiber
    try {
      throw;
    } catch (const std::runtime_error& again) {
      weft::yield();
      return std::stoi(std::string(again.what()).substr(100));
    }
  }
}

weft::Coro<int> add(weft::Channel<int>& a, weft::Channel<int>& b) {
  co_await weft::sleep_op(1ms);
  const auto x = co_await a.recv_op();
  const auto y = co_await b.recv_op();
  co_return x.value() + y.value();
}

int all() {
  int sum = 0;
  weft::Channel<int> a;
  weft::Channel<int> b(1);
  weft::Scope scope;
  for (int i = 0; i < 20; ++i) {
    scope.spawn([&sum] { sum += descend(40); });
    scope.spawn([&sum, i] { sum += throw_around_switches(i); });
  }
  auto total = scope.spawn(add(a, b), {.name = "add"});
  scope.spawn([&] {
    a.send(1000);
    b.send(2000);
  });
  auto stopped = scope.spawn([] { weft::sleep(1h); }, {.stack_size = 16 << 10});
  weft::yield();
  stopped.cancel();
  scope.join();
  return sum + total.get();
}

}  // namespace

int main() {
  const int expected = 20 + 190 + 3000;
  weft::Loop loop;
  const int first = loop.run(&all);
  const int second = loop.run(&all);  // on used stacks
  std::printf("%d %d\n", first, second);
  return first == expected && second == expected ? 0 : 1;
}

// Both kinds of task on the same channel, in the same scope: fibers block, coroutines co_await.
#include <weft/weft.hpp>

#include <cstdio>

namespace {

weft::Coro<int> sum(weft::Channel<int>& numbers) {
  int total = 0;
  while (auto n = co_await numbers.recv_op()) total += *n;
  co_return total;
}

weft::Coro<int> sum_and_report(weft::Channel<int>& numbers) {
  const int total = co_await sum(numbers);  // a coroutine calls a coroutine
  std::printf("the coroutine summed %d\n", total);
  co_return total;
}

}  // namespace

int main() {
  weft::Loop loop;
  loop.run([] {
    weft::Channel<int> numbers(4);
    weft::Scope scope;
    auto consumer = scope.spawn(sum_and_report(numbers));
    auto producer = scope.spawn([&] {
      for (int i = 1; i <= 100; ++i) numbers.send(i);
      numbers.close();
    });
    producer.get();
    const int total = consumer.get();  // a fiber waits for a coroutine

    weft::Channel<int> more(4);
    scope.spawn([&] {
      for (int i = 1; i <= 10; ++i) more.send(i);
      more.close();
    });
    const int rest = weft::await(sum(more));  // a fiber calls a coroutine, on its own stack
    std::printf("the fiber got %d and %d\n", total, rest);
  });
  return 0;
}

// Hello: a loop, a scope, two fibers and a coroutine.
#include <weft/weft.hpp>

#include <cstdio>

namespace {

weft::Coro<int> answer() {
  co_return 42;
}

}  // namespace

int main() {
  weft::Loop loop;
  const int sum = loop.run([] {
    weft::Scope scope;  // no child outlives it
    scope.spawn([] { std::puts("hello from a fiber"); });
    auto number = scope.spawn(answer());         // a coroutine, spawned the same way
    auto other = scope.spawn([] { return 1; });  // any callable
    return number.get() + other.get();
  });
  std::printf("and the answer is %d\n", sum - 1);
  return 0;
}

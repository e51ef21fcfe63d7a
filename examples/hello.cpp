// Hello: a loop, a scope, a fiber and a coroutine.
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>

using namespace std::chrono_literals;

namespace {

weft::Coro<int> answer(weft::Channel<int>& questions) {
  const auto question = co_await questions.recv_op();  // a coroutine awaits
  co_return *question * 6;
}

}  // namespace

int main() {
  weft::Loop loop;
  const int result = loop.run([] {
    weft::Channel<int> questions;
    weft::Scope scope;  // no child outlives it; the first failure stops the others
    auto deep_thought = scope.spawn(answer(questions));
    scope.spawn([&] {
      weft::sleep(1ms);  // a fiber simply blocks
      questions.send(7);
    });
    return deep_thought.get();
  });
  std::printf("the answer is %d\n", result);
  return 0;
}

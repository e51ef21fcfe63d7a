/// Uses up the 64 KiB stack of one task, while others wait.
///
///     testprog_overflow recursion
///     testprog_overflow array
#include <weft/weft.hpp>

#include <cstdio>
#include <string>

[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[200];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}

[[gnu::noinline]] void large_array() {
  volatile char array[1 << 20];
  array[0] = 1;
  asm volatile("" ::"r"(array) : "memory");  // all of it must exist
}

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "recursion";
  const weft::SpawnOptions small{.name = "glutton", .stack_size = 64 << 10};
  weft::Loop loop;
  loop.run([&] {
    weft::Channel<int> never;
    weft::Scope scope;
    scope.spawn([&] { never.recv(); }, {.name = "bystander"});
    if (mode == "recursion") scope.spawn([] { std::printf("%d\n", recurse(0)); }, small);
    if (mode == "array") scope.spawn([] { large_array(); }, small);
    scope.join();
  });
}

// The prime sieve: a chain of fibers, one for each prime found, each letting through what its prime
// does not divide.
#include <weft/weft.hpp>

#include <cstdio>

int main() {
  weft::Loop loop;
  loop.run([] {
    auto [numbers, first] = weft::ends<int>();
    weft::Scope scope;
    scope.spawn([out = numbers] {
      for (int n = 2; out.send(n); ++n) {
      }
    });
    numbers.leave();

    auto in = first;
    first.leave();
    for (int i = 0; i < 15; ++i) {
      const int prime = *in.recv();
      std::printf("%s%d", i == 0 ? "" : " ", prime);
      auto [passed_on, next] = weft::ends<int>();
      scope.spawn([in, out = passed_on, prime] {
        while (const auto n = in.recv()) {
          if (*n % prime != 0 && !out.send(*n)) break;  // nobody wants more
        }
      });
      in = next;
    }
    std::puts("");
    // The last end goes, and with it one after the other the whole chain.
  });
  return 0;
}

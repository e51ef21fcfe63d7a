// The smallest user of the library: everything it needs comes from the installed package.
#include <weft/weft.hpp>

#include <cstdio>

int main() {
  weft::Loop loop;
  int value = loop.run([] {
    weft::Scope scope;
    auto answer = scope.spawn([] { return 42; });
    return answer.get();
  });
  std::printf("%d\n", value);
  return value == 42 ? 0 : 1;
}

// Find the bug: two transfers, and once in a blue moon money is gone. The simulation finds out
// when.
#include <weft/sim/explore.hpp>
#include <weft/weft.hpp>

#include <cstdio>

int main() {
  const auto report = weft::sim::explore({.name = "find_the_bug", .save_tape = false}, [] {
    weft::atomic<int> mine{100};
    weft::atomic<int> yours{100};
    weft::Scope scope;
    for (const int amount : {10, 20}) {
      scope.spawn([&, amount] {
        mine.store(mine.load() - amount);  // looks right; is right, unless somebody comes between
        yours.fetch_add(amount);
      });
    }
    scope.join();
    weft::sim::check(mine.load() + yours.load() == 200, "no money is lost");
  });
  if (!report.found) return 1;
  std::printf("%s", report.found->timeline.c_str());
  std::printf("It passes if %s.\n", report.found->difference.c_str());
  return 0;
}

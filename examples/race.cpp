// Two tasks, one variable, and a schedule that always has them one after the other.
//
// Compiled with ThreadSanitizer, on a pool, this says nothing: the reader is started a while later,
// when the writer has long ended on the same worker. Nothing but luck orders them. In a simulation
// a switch between tasks orders nothing, so the race is reported in every run.
//
//     cmake --preset tsan && ninja -C build/tsan example_race
//     build/tsan/bin/example_race            # on a pool, 100 times: nothing
//     build/tsan/bin/example_race --sim      # the first run reports it
#include <weft/sim/explore.hpp>
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>
#include <cstring>

using namespace std::chrono_literals;

namespace {

struct Cache {
  int value = 0;
  bool filled = false;
};

// Nobody tells the reader that the cache is filled. It only waits long enough.
void fill_and_read() {
  Cache cache;
  weft::Scope scope;
  scope.spawn(
      [&] {
        cache.value = 42;
        cache.filled = true;
      },
      {.name = "writer"});
  scope.spawn(
      [&] {
        weft::sleep(2ms);
        if (cache.filled && cache.value != 42) std::puts("half of it");
      },
      {.name = "reader"});
  scope.join();
}

}  // namespace

int main(int argc, char** argv) {
  const bool simulated = argc > 1 && std::strcmp(argv[1], "--sim") == 0;
  if (simulated) {
    const auto report =
        weft::sim::explore({.name = "race", .runs = 100, .save_tape = false}, fill_and_read);
    std::puts(report.text().c_str());
    return report.ok() ? 0 : 1;
  }
  for (int i = 0; i < 100; ++i) {
    weft::Pool pool({.workers = 2});
    pool.run(fill_and_read);
  }
  std::puts("100 times on a pool");
  return 0;
}

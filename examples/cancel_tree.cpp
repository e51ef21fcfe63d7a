// Cancellation is a tree: one failing leaf stops its siblings, their destructors run, the rest is
// untouched.
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>
#include <stdexcept>

using namespace std::chrono_literals;

namespace {

struct Trace {
  const char* name;
  ~Trace() { std::printf("  %s cleaned up\n", name); }
};

void worker(const char* name, weft::Duration work) {
  const Trace trace{name};
  try {
    weft::sleep(work);
    std::printf("  %s is done\n", name);
  } catch (const weft::Cancelled& c) {
    std::printf("  %s was cancelled: %s\n", name, weft::to_string(c.reason()));
    const weft::Shield shield;  // clean-up may wait
    weft::sleep(5ms);
    throw;  // cancellation goes on
  }
}

}  // namespace

int main() {
  weft::Loop loop({.kernel = weft::make_virtual_kernel()});
  loop.run([] {
    weft::Scope outer;
    outer.spawn([] { worker("bystander", 1s); });

    std::puts("a group in which one fails:");
    const auto outcome = weft::within({.name = "group"}, [](weft::Scope& group) {
      group.spawn([] { worker("first", 10ms); });
      group.spawn([] { worker("second", 10s); });
      group.spawn([] {
        weft::sleep(20ms);
        throw std::runtime_error("disk on fire");
      });
    });
    std::printf("the group failed: %s\n", weft::describe(outcome.error()).c_str());

    std::puts("the others go on:");
    outer.join();
  });
  return 0;
}

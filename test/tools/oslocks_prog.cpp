// For oslocks_test.sh: tasks that wait with a lock of the operating system in hand.
#include <weft/weft.hpp>

#include <chrono>
#include <mutex>
#include <shared_mutex>

namespace {

std::mutex mutex;
std::shared_mutex shared;

[[gnu::noinline]] void sleeps_with_a_mutex() {
  const std::lock_guard guard(mutex);
  weft::sleep(std::chrono::milliseconds(1));
}

[[gnu::noinline]] void yields_with_a_shared_mutex() {
  const std::shared_lock guard(shared);
  weft::yield();
}

[[gnu::noinline]] void is_careful() {
  {
    const std::lock_guard guard(mutex);
  }
  weft::sleep(std::chrono::milliseconds(1));
}

weft::Coro<> coroutine_with_a_mutex() {
  const std::lock_guard guard(mutex);
  co_await weft::sleep_op(std::chrono::milliseconds(1));
}

}  // namespace

int main() {
  weft::Loop loop;
  const auto run = [&](auto f, const char* name) {
    loop.spawn([] { weft::yield(); }, {.name = "other"});
    loop.spawn(f, {.name = name});
    loop.run();
  };
  for (int i = 0; i < 3; ++i) {
    run(&is_careful, "careful");
    run(&sleeps_with_a_mutex, "sleeper");
    run(&yields_with_a_shared_mutex, "yielder");
    run(&coroutine_with_a_mutex, "coroutine");
  }
  return 0;
}

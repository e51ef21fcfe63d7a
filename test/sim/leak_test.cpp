// Things that make a run depend on more than its tape: which of them are noticed?
#include <weft/sim/explore.hpp>
#include <weft/sync/atomic.hpp>

#include "support/everywhere.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <thread>
#include <unordered_set>

#include <unistd.h>

namespace weft::test {
namespace {

/// What the run does depends on `bit`, which it should not.
void depend_on(bool bit) {
  yield();
  if (bit) {
    atomic<int> x{0};
    x.store(1);
  }
  yield();
}

struct Thing {
  int number;
};

// Under a sanitizer, memory is filled and placed by its own rules, and there are no tripwires.
#if !defined(WEFT_ASAN) && !defined(WEFT_TSAN)

// Each is a way to get a bit that nobody has decided.
bool by_pointer_order() {
  std::set<Thing*> things;
  std::vector<std::unique_ptr<Thing>> owned;
  for (int i = 0; i < 6; ++i) {
    owned.push_back(std::make_unique<Thing>(Thing{i}));
    things.insert(owned.back().get());
  }
  return (*things.begin())->number % 2 == 1;
}
bool by_address_hash() {
  const auto thing = std::make_unique<Thing>();
  return (std::hash<Thing*>{}(thing.get()) >> 4) % 2 == 1;
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"  // that is the point
bool by_uninitialised_heap() {
  const std::unique_ptr<unsigned char, decltype(&std::free)> block(
      static_cast<unsigned char*>(std::malloc(100)), &std::free);
  return *(block.get() + 64) % 2 == 1;
}
[[gnu::noinline]] bool by_uninitialised_stack() {
  volatile unsigned char bytes[256];
  return bytes[100] % 2 == 1;  // NOLINT
}
#pragma GCC diagnostic pop
bool by_wall_clock() {
  return std::chrono::system_clock::now().time_since_epoch().count() % 2 == 1;
}
bool by_steady_clock() {
  return std::chrono::steady_clock::now().time_since_epoch().count() % 2 == 1;
}
bool by_random_device() {
  return std::random_device{}() % 2 == 1;
}
bool by_rand() {
  return std::rand() % 2 == 1;
}
bool by_static() {
  static int calls = 0;
  return ++calls % 2 == 1;
}
bool by_thread() {
  std::atomic<int> x{0};
  std::thread thread([&] { x = 1; });
  const bool early = x == 1;
  thread.join();
  return early;
}
bool by_pid() {
  return ::getpid() % 2 == 1;
}
bool by_sleep() {
  std::this_thread::sleep_for(std::chrono::microseconds(1));
  return false;
}
struct Planted {
  const char* name;
  bool (*leak)();
  bool expected;  // to be noticed
};
constexpr Planted planted[] = {
    {"pointers in order", &by_pointer_order, true},
    {"hash of an address", &by_address_hash, true},
    {"heap memory never written", &by_uninitialised_heap, true},
    {"time of day", &by_wall_clock, true},
    {"steady clock", &by_steady_clock, true},
    {"std::random_device", &by_random_device, true},
    {"rand()", &by_rand, true},
    {"a static that counts", &by_static, true},
    {"a thread", &by_thread, true},
    {"the process number", &by_pid, true},
    {"a sleep of the thread", &by_sleep, true},
    {"stack memory never written", &by_uninitialised_stack, false},
};

std::string what_was_noticed(const Planted& p) {
  const auto report = sim::explore(
      {.runs = 200, .paranoid = 1, .shrink = false, .save_tape = false, .progress = false},
      [&] { depend_on(p.leak()); });
  if (report.leak) return "a second run differs";
  if (report.found && report.found->failure.kind == sim::Failure::Kind::leak) {
    return report.found->failure.what;
  }
  return "";
}

TEST(Leaks, B2_ElevenOfTwelveAreNoticed) {
  int noticed = 0;
  for (const Planted& p : planted) {
    const std::string how = what_was_noticed(p);
    std::printf("  %-28s %s\n", p.name, how.empty() ? "-" : how.c_str());
    noticed += how.empty() ? 0 : 1;
    if (p.expected) {
      EXPECT_FALSE(how.empty()) << p.name;
    }
  }
  EXPECT_GE(noticed, 9);
}

TEST(Leaks, B2_TheFirstStepThatDiffersIsNamedWithBothStacks) {
  const auto report =
      sim::explore({.runs = 20, .paranoid = 1, .save_tape = false, .progress = false},
                   [] { depend_on(by_static()); });
  ASSERT_TRUE(report.leak);
  EXPECT_NE(report.leak->first + report.leak->second, "");
  EXPECT_NE(report.text().find("depend_on"), std::string::npos) << report.text();
}

#endif

TEST(Leaks, B2_WhatIsDecidedIsNoLeak) {
  const auto report =
      sim::explore({.runs = 500, .paranoid = 1, .save_tape = false, .progress = false}, [] {
        std::set<int> numbers;
        for (int i = 0; i < 3; ++i) numbers.insert(static_cast<int>(sim::pick(100)));
        const auto thing = std::make_unique<Thing>(Thing{static_cast<int>(sim::pick(2))});
        depend_on(thing->number == 1);
      });
  EXPECT_TRUE(report.ok()) << report.text();
}

}  // namespace
}  // namespace weft::test

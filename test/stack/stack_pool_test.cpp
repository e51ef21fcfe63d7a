#include <weft/stack/stack_pool.hpp>

#include <weft/base/sanitized.hpp>

#include "stack/memory.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#if defined(WEFT_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace weft::stack {
namespace {

#if defined(WEFT_ASAN) || defined(WEFT_TSAN)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

constexpr std::size_t kib = 1024;

enum class Scale { small, normal, large };

Scale test_scale() {
  const char* variable = std::getenv("WEFT_TEST_SCALE");
  const std::string scale = variable != nullptr ? variable : "";
  if (scale == "small") return Scale::small;
  return scale == "large" ? Scale::large : Scale::normal;
}

/// Sets an environment variable (or removes it, for null) until the end of the block.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(old_ ? old_->c_str() : nullptr); }

  void set(const char* value) {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t total = 0;
  std::size_t resident = 0;
  file >> total >> resident;
  return resident * page_size();
}

template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(no error)";
}

void give_all(StackPool& pool, std::vector<Stack>& stacks) {
  for (const Stack& stack : stacks) pool.give(stack);
  stacks.clear();
}

TEST(StackSize, WithoutVariableIs256KiB) {
  const Variable variable("WEFT_STACK_SIZE", nullptr);
  EXPECT_EQ(default_stack_size(), 256 * kib);
}

TEST(StackSize, ReadsTheVariable) {
  Variable variable("WEFT_STACK_SIZE", "65536");
  EXPECT_EQ(default_stack_size(), 64 * kib);
  variable.set("64k");
  EXPECT_EQ(default_stack_size(), 64 * kib);
  variable.set("1M");
  EXPECT_EQ(default_stack_size(), 1024 * kib);
  variable.set("1g");
  EXPECT_EQ(default_stack_size(), max_stack_size);
  variable.set("16k");
  EXPECT_EQ(default_stack_size(), min_stack_size);
  variable.set("");
  EXPECT_EQ(default_stack_size(), 256 * kib);
  EXPECT_EQ(StackPool().default_size(), 256 * kib);
}

TEST(StackSize, RefusesWhatIsNoSize) {
  Variable variable("WEFT_STACK_SIZE", "");
  for (const char* bad : {"large", "64kk", "-1", "64 k", "k", "0x1000", "1.5m", "15k", "0", "2g",
                          "99999999999999999999999", "18446744073709551615g"}) {
    variable.set(bad);
    EXPECT_THROW(static_cast<void>(default_stack_size()), std::invalid_argument) << bad;
    EXPECT_THROW(StackPool pool, std::invalid_argument) << bad;
  }
  variable.set("12q");
  EXPECT_EQ(
      error_of([] { static_cast<void>(default_stack_size()); }),
      "weft: WEFT_STACK_SIZE='12q' is not a size; write a size from 16k to 1g, such as 65536, "
      "64k or 1m");
}

TEST(Stack, KnowsItsBounds) {
  alignas(16) static std::array<std::byte, 64> memory;
  const Stack stack(memory.data(), memory.size());
  EXPECT_FALSE(stack.empty());
  EXPECT_TRUE(stack.contains(stack.bottom()));
  EXPECT_TRUE(stack.contains(stack.top() - 1));
  EXPECT_FALSE(stack.contains(stack.top()));
  EXPECT_FALSE(stack.contains(nullptr));
  const auto bottom = reinterpret_cast<std::uintptr_t>(stack.bottom());
  const auto at = [&](std::uintptr_t down) { return reinterpret_cast<void*>(bottom - down); };
  EXPECT_FALSE(stack.guards(at(0)));
  EXPECT_TRUE(stack.guards(at(1)));
  EXPECT_TRUE(stack.guards(at(guard_size)));
  EXPECT_FALSE(stack.guards(at(guard_size + 1)));
  EXPECT_FALSE(stack.guards(nullptr));

  const Stack none;
  EXPECT_TRUE(none.empty());
  EXPECT_FALSE(none.contains(nullptr));
  EXPECT_FALSE(none.guards(at(0)));
  EXPECT_FALSE(none.guards(reinterpret_cast<void*>(UINTPTR_MAX)));
}

TEST(StackPool, C2_ReusesTheLastGivenFirst) {
  StackPool pool({.size = 64 * kib});
  const Stack a = pool.take();
  const Stack b = pool.take();
  const Stack c = pool.take();
  EXPECT_EQ(pool.stats().in_use, 3u);
  pool.give(a);
  pool.give(c);
  pool.give(b);
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_EQ(pool.stats().cached, 3u);
  EXPECT_EQ(pool.take(), b);
  EXPECT_EQ(pool.take(), c);
  EXPECT_EQ(pool.take(), a);
  pool.give(a);
  pool.give(b);
  pool.give(c);
  pool.give(Stack());
}

TEST(StackPool, C3_TakesAnySize) {
  StackPool pool({.size = 100 * kib});
  std::vector<Stack> stacks;
  const auto size_for = [&](std::size_t wanted) {
    stacks.push_back(pool.take(wanted));
    std::memset(stacks.back().top() - 64, 1, 64);
    return stacks.back().size();
  };
  EXPECT_EQ(size_for(0), 128 * kib);
  EXPECT_EQ(size_for(1), std::max(16 * kib, page_size()));
  EXPECT_EQ(size_for(64 * kib), 64 * kib);
  EXPECT_EQ(size_for(64 * kib + 1), 128 * kib);
  EXPECT_EQ(size_for(1024 * kib), 1024 * kib);
  EXPECT_EQ(size_for(max_stack_size), max_stack_size);
  EXPECT_THROW(static_cast<void>(pool.take(max_stack_size + 1)), std::invalid_argument);
  EXPECT_THROW(StackPool({.size = max_stack_size + 1}), std::invalid_argument);

  // Sizes do not mix.
  const Stack big = stacks.back();
  stacks.pop_back();
  pool.give(big);
  EXPECT_EQ(size_for(64 * kib), 64 * kib);
  stacks.push_back(pool.take(max_stack_size));
  EXPECT_EQ(stacks.back(), big);
  give_all(pool, stacks);
}

TEST(StackPoolDeathTest, ChecksWhatIsGivenBack) {
  EXPECT_DEATH(
      {
        StackPool pool;
        const Stack stack = pool.take();
        pool.give(stack);
        pool.give(stack);
      },
      "given back twice");
  EXPECT_DEATH(
      {
        StackPool pool;
        StackPool other;
        const Stack stack = pool.take();
        const Stack another = other.take();
        static_cast<void>(another);
        other.give(stack);
      },
      "not from");
  EXPECT_DEATH(
      {
        StackPool pool;
        static_cast<void>(pool.take());
      },
      "destroyed with 1 stacks in use");
}

#if defined(WEFT_ASAN)
TEST(StackPoolDeathTest, AsanReportsUseOfAFreeStack) {
  StackPool pool;
  const Stack stack = pool.take();
  volatile std::byte* local = stack.top() - 100;
  *local = std::byte{1};
  // A frame that never returned, as of a task that was killed, leaves its poison behind.
  __asan_poison_memory_region(stack.top() - 512, 256);
  pool.give(stack);
  EXPECT_DEATH(*local = std::byte{2}, "use-after-poison");
  ASSERT_EQ(pool.take(), stack);
  std::memset(stack.bottom(), 1, stack.size());
  pool.give(stack);
}
#endif

class EveryGuard : public testing::TestWithParam<Guard> {
 protected:
  void SetUp() override {
    if (GetParam() == Guard::madvise && guard_install_error() != 0) {
      GTEST_SKIP() << "this kernel has no MADV_GUARD_INSTALL";
    }
  }
};

TEST_P(EveryGuard, C3_TrapsExactlyBelowTheBottom) {
  StackPool pool({.size = 64 * kib, .guard = GetParam()});
  EXPECT_EQ(pool.stats().guard, GetParam());
  std::vector<Stack> stacks = {pool.take(), pool.take(), pool.take()};
  for (const Stack& stack : stacks) {
    std::memset(stack.bottom(), 0x5a, stack.size());  // usable to the last byte
  }
  volatile std::byte* bottom = stacks[1].bottom();
  volatile std::byte* guard = stacks[1].guard_bottom();
  EXPECT_EQ(*stacks[1].bottom(), std::byte{0x5a});
  EXPECT_DEATH(bottom[-1] = std::byte{1}, "");
  EXPECT_DEATH(static_cast<void>(bottom[-1]), "");
  EXPECT_DEATH(guard[guard_size / 2] = std::byte{1}, "");
  EXPECT_DEATH(guard[0] = std::byte{1}, "");
  give_all(pool, stacks);
}

TEST_P(EveryGuard, GuardOutlivesReuseAndCleaning) {
  StackPool pool({.size = 64 * kib, .guard = GetParam(), .keep = 0});
  Stack stack = pool.take();
  std::memset(stack.bottom(), 1, stack.size());
  pool.give(stack);
  EXPECT_EQ(pool.take(), stack);
  EXPECT_EQ(*stack.bottom(), std::byte{0});
  pool.clean(stack);
  volatile std::byte* bottom = stack.bottom();
  EXPECT_DEATH(bottom[-1] = std::byte{1}, "");
  pool.give(stack);
}

INSTANTIATE_TEST_SUITE_P(StackPool, EveryGuard, testing::Values(Guard::madvise, Guard::mprotect),
                         [](const auto& each) { return std::string(to_string(each.param)); });

TEST(StackPool, GuardFollowsTheVariable) {
  Variable variable("WEFT_STACK_GUARD", "mprotect");
  EXPECT_EQ(StackPool().stats().guard, Guard::mprotect);
  EXPECT_EQ(StackPool().stats().guard_reason, "asked for by WEFT_STACK_GUARD");
  variable.set("stone");
  EXPECT_EQ(error_of([] { StackPool pool; }),
            "weft: WEFT_STACK_GUARD='stone' is unknown; write madvise, mprotect or automatic");
  EXPECT_EQ(StackPool({.guard = Guard::mprotect}).stats().guard, Guard::mprotect);
  variable.set(nullptr);
  const bool modern = guard_install_error() == 0;
  EXPECT_EQ(StackPool().stats().guard, modern ? Guard::madvise : Guard::mprotect);
  if (!modern) {
    EXPECT_THROW(StackPool({.guard = Guard::madvise}), std::system_error);
  }
}

TEST(StackPool, HighWaterIsRightToTheByte) {
  StackPool pool({.size = 64 * kib, .guard = Guard::mprotect});
  const Stack stack = pool.take();
  EXPECT_EQ(pool.high_water(stack), 0u);
  for (const std::size_t used : {1ul, 7ul, 8ul, 100ul, 4095ul, 4096ul, 4097ul, 40000ul, 65536ul}) {
    *(stack.top() - used) = std::byte{1};
    EXPECT_EQ(pool.high_water(stack), used);
  }
  pool.clean(stack);
  EXPECT_EQ(pool.high_water(stack), 0u);
  *(stack.top() - 300) = std::byte{1};
  EXPECT_EQ(pool.high_water(stack), 300u);
  // Used, but with zeros: counts to the page.
  *(stack.top() - 3 * page_size() + 5) = std::byte{0};
  EXPECT_EQ(pool.high_water(stack), 3 * page_size());
  pool.give(stack);
}

TEST(StackPool, HighWaterOfALargeStack) {
  StackPool pool;
  const Stack stack = pool.take(16 << 20);
  *(stack.top() - 5'000'001) = std::byte{1};
  EXPECT_EQ(pool.high_water(stack), 5'000'001u);
  pool.give(stack);
}

TEST(StackPool, ReturnsTheMemoryOfSurplusStacks) {
  constexpr std::size_t count = 256;
  constexpr std::size_t kept = 16;
  StackPool pool({.size = 64 * kib, .keep = kept});
  std::vector<Stack> stacks;
  for (std::size_t i = 0; i < count; ++i) {
    stacks.push_back(pool.take());
    std::memset(stacks.back().bottom(), 1, stacks.back().size());
  }
  const std::size_t before = resident_bytes();
  give_all(pool, stacks);
  const std::size_t after = resident_bytes();
  EXPECT_EQ(pool.stats().cached, kept);
  ASSERT_GT(before, after);
  EXPECT_GT(before - after, (count - kept) * 64 * kib / 2);  // a sanitizer takes some
  // The slots are still there, and their memory reads as new.
  const std::size_t reserved = pool.stats().reserved;
  for (std::size_t i = 0; i < count; ++i) {
    stacks.push_back(pool.take());
    if (i >= kept) {
      EXPECT_EQ(pool.high_water(stacks.back()), 0u);
    }
  }
  EXPECT_EQ(pool.stats().reserved, reserved);
  give_all(pool, stacks);
}

TEST(StackPool, KeepsLittleOfLargeStacks) {
  StackPool pool({.keep = 1024});
  std::vector<Stack> stacks;
  for (int i = 0; i < 20; ++i) stacks.push_back(pool.take(32 << 20));
  give_all(pool, stacks);
  EXPECT_EQ(pool.stats().cached, 8u);  // 256 MiB
}

TEST(Requirements, B5_ManyGuardedStacksCostOnePageEach) {
  constexpr std::array<std::size_t, 3> counts = {2'000, 20'000, 1'000'000};
  const std::size_t count = counts[static_cast<std::size_t>(test_scale())];
  StackPool pool;
  if (pool.stats().guard == Guard::mprotect && test_scale() == Scale::large) {
    GTEST_SKIP() << "two mappings a stack: " << pool.stats().guard_reason;
  }
  std::vector<Stack> stacks;
  stacks.reserve(count);
  const std::size_t before = resident_bytes();
  for (std::size_t i = 0; i < count; ++i) {
    stacks.push_back(pool.take());
    *(stacks.back().top() - 1) = std::byte{1};
  }
  const std::size_t each = (resident_bytes() - before) / count;
  EXPECT_EQ(pool.stats().in_use, count);
  if (!sanitized && test_scale() != Scale::small) {  // small: perhaps in an emulator
    EXPECT_LE(each, page_size() + page_size() / 8);
  }
  give_all(pool, stacks);
}

TEST(Requirements, B5_TooManyMappingsIsAClearError) {
  const std::size_t mappings = read_number("/proc/sys/vm/max_map_count", 65530);
  if (test_scale() == Scale::small) GTEST_SKIP() << "takes tens of thousands of stacks";
  if (mappings > 100'000 && test_scale() != Scale::large) {
    GTEST_SKIP() << "vm.max_map_count is " << mappings;
  }
  StackPool pool({.size = 16 * kib, .guard = Guard::mprotect});
  std::vector<Stack> stacks;
  std::string error;
  for (;;) {
    error = error_of([&] { stacks.push_back(pool.take()); });
    if (error != "(no error)") break;
  }
  EXPECT_GT(stacks.size(), mappings * 48 / 100);
  EXPECT_EQ(pool.stats().in_use, stacks.size());
  const auto mentions = [&](const std::string& text) {
    EXPECT_NE(error.find(text), std::string::npos) << text << " is missing in: " << error;
  };
  mentions("cannot guard a stack of 16 KiB by mprotect");
  mentions(std::to_string(stacks.size()) + " stacks are in use");
  mentions("vm.max_map_count is " + std::to_string(mappings));
  mentions("sysctl -w vm.max_map_count=");
  mentions("a kernel >= 6.13");
  mentions("coroutines");
  std::thread([] {}).join();  // the rest of the program still has mappings

  // Still in order: the same error again, and no slot lost by it.
  EXPECT_EQ(error_of([&] { stacks.push_back(pool.take()); }), error);
  const Stack last = stacks.back();
  pool.give(last);
  EXPECT_EQ(pool.take(), last);
  give_all(pool, stacks);
  EXPECT_EQ(pool.stats().in_use, 0u);
}

TEST(StackPoolDeathTest, NoAddressSpaceIsAClearError) {
  if (sanitized) GTEST_SKIP() << "the sanitizer needs address space of its own";
  if (test_scale() == Scale::small) GTEST_SKIP() << "an emulator may not limit address space";
  const auto exhaust = [] {
    StackPool pool;
    std::vector<Stack> stacks;
    stacks.push_back(pool.take());
    const std::size_t used = read_number("/proc/self/statm", 0) * page_size();
    const rlimit limit = {used + (64 << 20), used + (64 << 20)};
    setrlimit(RLIMIT_AS, &limit);
    std::string error;
    while (error.empty()) {
      try {
        stacks.push_back(pool.take());
      } catch (const std::system_error& caught) {
        error = caught.what();
      }
    }
    std::fprintf(stderr, "%zu stacks; %s\n", stacks.size(), error.c_str());
    const Stack last = stacks.back();
    pool.give(last);
    const bool fine = pool.take() == last && stacks.size() > 64 + 64;
    give_all(pool, stacks);
    std::exit(fine ? 0 : 1);
  };
  EXPECT_EXIT(exhaust(), testing::ExitedWithCode(0),
              "cannot reserve address space for a stack of 256 KiB: mmap of .* "
              "bytes failed with .* stacks in use.*ulimit -v");
}

TEST(StackPool, ServesManyThreads) {
  StackPool pool({.size = 16 * kib, .keep = 8});
  const auto work = [&pool](unsigned id) {
    std::vector<Stack> mine;
    for (unsigned round = 0; round < 2000; ++round) {
      if (round % 3 != 2) {
        mine.push_back(pool.take(round % 7 == 0 ? 32 * kib : 0));
        std::memset(mine.back().top() - 64, static_cast<int>(id), 64);
        continue;
      }
      EXPECT_EQ(mine.back().top()[-1], static_cast<std::byte>(id));
      pool.give(mine.back());
      mine.pop_back();
      if (mine.size() > 50) give_all(pool, mine);
    }
    give_all(pool, mine);
  };
  std::vector<std::thread> threads;
  for (unsigned id = 1; id <= 4; ++id) threads.emplace_back(work, id);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.stats().in_use, 0u);
  EXPECT_LE(pool.stats().cached, 16u);
}

}  // namespace
}  // namespace weft::stack

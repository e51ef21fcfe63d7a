// How the memory of stacks returns to the machine.
#include <weft/stack/stack_pool.hpp>

#include "stack/memory.hpp"

#include <array>
#include <cstring>
#include <vector>

#include <sys/mman.h>

#include <gtest/gtest.h>

namespace weft::stack {
namespace {

/// One too many, and 64 lose their pages.
TEST(StackPool, ReturnsMemoryOfManyStacksAtOnce) {
  constexpr std::size_t kept = 1024;
  StackPool pool({.size = 64 << 10, .keep = kept});
  std::vector<Stack> stacks;
  for (std::size_t i = 0; i < kept + 65; ++i) {
    stacks.push_back(pool.take());
    stacks.back().top()[-1] = std::byte{1};
  }
  for (std::size_t i = 0; i < kept; ++i) pool.give(stacks[i]);
  EXPECT_EQ(pool.stats().cached, kept);
  pool.give(stacks[kept]);
  EXPECT_EQ(pool.stats().cached, kept - 63);
  for (std::size_t i = kept + 1; i < stacks.size(); ++i) pool.give(stacks[i]);
  EXPECT_EQ(pool.stats().cached, kept - 63);
  std::size_t used = 0;
  for (Stack& stack : stacks) {
    stack = pool.take();
    if (pool.high_water(stack) > 0) ++used;
  }
  EXPECT_EQ(used, kept - 63);
  volatile std::byte* bottom = stacks.back().bottom();
  EXPECT_DEATH(bottom[-1] = std::byte{1}, "");
  for (const Stack& stack : stacks) pool.give(stack);
}

/// Of which the call for many stacks wants to know nothing.
TEST(StackPool, DropsLockedPagesToo) {
  const std::size_t page = page_size();
  std::byte* memory = reserve(3 * page);
  ASSERT_NE(memory, nullptr);
  if (mlock(memory + page, page) != 0) {
    unreserve(memory, 3 * page);
    GTEST_SKIP() << "no memory may be locked here (ulimit -l)";
  }
  std::memset(memory, 1, 3 * page);
  drop_pages(std::array{iovec{memory, page}, iovec{memory + page, page}});
  EXPECT_EQ(memory[0], std::byte{0});
  EXPECT_EQ(memory[page], std::byte{0});
  EXPECT_EQ(memory[2 * page], std::byte{1});
  unreserve(memory, 3 * page);
}

}  // namespace
}  // namespace weft::stack

#include <weft/base/slots.hpp>

#include <memory>
#include <stdexcept>

#include <gtest/gtest.h>

namespace weft::test {
namespace {

TEST(Slots, AreAPowerOfTwoOrNone) {
  EXPECT_EQ(Slots<int>().size(), 0U);
  EXPECT_EQ(Slots<int>(1).size(), 1U);
  EXPECT_EQ(Slots<int>(5).size(), 8U);
  EXPECT_EQ(Slots<int>(64).size(), 64U);
}

TEST(Slots, MoreThanThereCanBeIsAnError) {
  EXPECT_THROW(Slots<int>(~std::size_t{0} - 1), std::length_error);
  EXPECT_THROW(Slots<int>(~std::size_t{0} / 8), std::length_error);
}

// Full and empty at every place, round after round. Values own memory: a sanitizer sees what is
// emptied twice or never.
TEST(Slots, GoRound) {
  Slots<std::unique_ptr<int>> slots(4);
  int next = 0;
  int expected = 0;
  for (int round = 0; round < 4; ++round) {
    std::size_t count = 0;
    while (count < 4) slots.push(std::make_unique<int>(next++), count++);
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(*slots[i], expected + static_cast<int>(i));
    for (; count > 0; --count, ++expected) {
      EXPECT_EQ(*slots[0], expected);
      slots.drop_first();
    }
    // Begins at another place each time.
    slots.push(nullptr, 0);
    slots.drop_first();
  }
}

TEST(Slots, MoveWithTheirValues) {
  Slots<std::unique_ptr<int>> from(2);
  from.push(std::make_unique<int>(0), 0);
  from.drop_first();
  from.push(std::make_unique<int>(1), 0);
  from.push(std::make_unique<int>(2), 1);
  Slots<std::unique_ptr<int>> to(std::move(from));
  Slots<std::unique_ptr<int>> last;
  last = std::move(to);
  EXPECT_EQ(*last[0], 1);
  EXPECT_EQ(*last[1], 2);
  last.drop_first();
  last.drop_first();
}

}  // namespace
}  // namespace weft::test

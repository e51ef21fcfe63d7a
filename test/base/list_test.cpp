#include <weft/base/list.hpp>

#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace weft {
namespace {

struct Left;
struct Item : ListNode<>, ListNode<Left> {
  explicit Item(int n) : number(n) {}
  int number;
};
using Main = List<Item>;
using Side = List<Item, Left>;

std::vector<int> numbers(const Main& list) {
  std::vector<int> out;
  for (Item* i = list.front(); i != nullptr; i = list.next(*i)) out.push_back(i->number);
  return out;
}

void clear(Main& list) {
  while (list.pop_front() != nullptr) {
  }
}

TEST(List, KeepsOrderAtBothEnds) {
  Item a(1), b(2), c(3);
  Main list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front(), nullptr);
  EXPECT_EQ(list.pop_front(), nullptr);
  list.push_back(b);
  list.push_back(c);
  list.push_front(a);
  EXPECT_EQ(numbers(list), (std::vector{1, 2, 3}));
  EXPECT_EQ(list.pop_front(), &a);
  EXPECT_FALSE(static_cast<ListNode<>&>(a).linked());
  clear(list);
}

TEST(List, UnlinkFromAnywhereAndTwice) {
  Item a(1), b(2), c(3);
  for (Item* victim : {&a, &b, &c}) {
    Main list;
    list.push_back(a);
    list.push_back(b);
    list.push_back(c);
    static_cast<ListNode<>*>(victim)->unlink();
    static_cast<ListNode<>*>(victim)->unlink();
    EXPECT_EQ(numbers(list).size(), 2U);
    for (const int n : numbers(list)) EXPECT_NE(n, victim->number);
    list.push_back(*victim);
    EXPECT_EQ(numbers(list).back(), victim->number);
    clear(list);
  }
}

TEST(List, OneItemInTwoListsThroughTwoTags) {
  Item a(1);
  Main main;
  Side side;
  main.push_back(a);
  side.push_back(a);
  static_cast<ListNode<>&>(a).unlink();
  EXPECT_TRUE(main.empty());
  EXPECT_EQ(side.front(), &a);
  EXPECT_EQ(side.pop_front(), &a);
}

TEST(List, TakeAllAppendsAndEmptiesTheOther) {
  Item a(1), b(2), c(3), d(4);
  Main to;
  Main from;
  to.take_all(from);
  EXPECT_TRUE(to.empty());
  from.push_back(c);
  from.push_back(d);
  to.push_back(a);
  to.push_back(b);
  to.take_all(from);
  EXPECT_TRUE(from.empty());
  EXPECT_EQ(numbers(to), (std::vector{1, 2, 3, 4}));
  static_cast<ListNode<>&>(d).unlink();
  static_cast<ListNode<>&>(b).unlink();
  EXPECT_EQ(numbers(to), (std::vector{1, 3}));
  from.take_all(to);
  EXPECT_EQ(numbers(from), (std::vector{1, 3}));
  from.push_back(d);
  EXPECT_EQ(numbers(from), (std::vector{1, 3, 4}));
  clear(from);
}

TEST(ListDeathTest, ANodeCannotBeInsertedTwice) {
  EXPECT_DEATH(
      {
        Item a(1);
        Main list;
        list.push_back(a);
        list.push_front(a);
      },
      "already in a list");
}

TEST(ListDeathTest, ANodeMustNotDieLinked) {
  EXPECT_DEATH(
      {
        Main list;
        Item a(1);
        list.push_back(a);
      },
      "node destroyed while linked");
}

TEST(ListDeathTest, AListMustNotDieFull) {
  EXPECT_DEATH(
      {
        auto item = std::make_unique<Item>(1);
        Main list;
        list.push_back(*item);
        static_cast<void>(item.release());
      },
      "list destroyed with nodes");
}

}  // namespace
}  // namespace weft

/// For queues under the checker: items that must come out once, with what was written into them.
///
///     struct State : weak::Ledger<4> { ...queues...; };
///     state.push([&](Item& item) { return queue.push(&item); }, 0);     // put in item 0
///     state.take(queue.pop());                                          // null is fine
///     state.settle();                                                   // at the end
#pragma once

#include <weft/stack/sanitizer.hpp>

#include "support/everywhere.hpp"
#include "support/weak_memory/mutate.hpp"

#include <gtest/gtest.h>

namespace weft::test::weak {

struct Item {
  Cell<int> payload;
  Cell<Item*> next;
};
struct NextItem {
  static Item* get(const Item& item) { return item.next.get(); }
  static void set(Item& item, Item* next) { item.next.set(next); }
};

template <std::size_t Count>
class Ledger {
 public:
  /// `put`: false if it was not taken in.
  template <class Put>
  void push(Put put, std::size_t index) {
    items_[index].payload.set(static_cast<int>(index));
    if (put(items_[index])) ++in_[index];
  }
  /// Returns the number of the item, or -1.
  int take(Item* item) {
    if (item == nullptr) return -1;
    for (std::size_t i = 0; i < Count; ++i) {
      if (item != &items_[i]) continue;
      check(item->payload.get() == static_cast<int>(i), "an item is what its pusher left");
      ++out_[i];
      return static_cast<int>(i);
    }
    check(false, "a taken item is an item");
    return -1;
  }
  [[nodiscard]] bool is_out(std::size_t index) const { return out_[index] > 0; }
  /// When everything was drained.
  void settle() const {
    for (std::size_t i = 0; i < Count; ++i) {
      check(out_[i] <= in_[i], "nothing comes out twice");
      check(out_[i] >= in_[i], "nothing is lost");
    }
  }

 private:
  std::array<Item, Count> items_;
  std::array<int, Count> in_{};
  std::array<int, Count> out_{};
};

/// Exhaustive searches belong into plain builds: sanitizers and emulators get a sample.
inline bool exhaustive() {
#if defined(WEFT_ASAN) || defined(WEFT_TSAN)
  return false;
#else
  return scaled(0, 1, 1) == 1;
#endif
}

/// Proven; or, where that takes too long, without a violation for a while.
inline void expect_proven(const Scenario& scenario) {
  Options options;
  if (!exhaustive()) options.most_runs = 500;
  const Report report = scenario(options);
  EXPECT_EQ(report.violation, "") << report.text();
  if (exhaustive()) {
    EXPECT_TRUE(report.proven()) << report.text();
  }
}

}  // namespace weft::test::weak

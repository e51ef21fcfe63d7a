#pragma once

#include <mutex>
#include <vector>

namespace weft::test {

/// In which order things happened; tasks may run at the same time.
class Order {
 public:
  void add(int what) {
    std::lock_guard guard(lock_);
    order_.push_back(what);
  }
  std::vector<int> get() {
    std::lock_guard guard(lock_);
    return order_;
  }

 private:
  std::mutex lock_;
  std::vector<int> order_;
};

}  // namespace weft::test

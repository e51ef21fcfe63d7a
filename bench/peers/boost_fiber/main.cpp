// The contender `boost_fiber`: Boost.Fiber. One worker schedules round robin, several steal work
// from each other, as its manual recommends.
#include "boost_fiber/fibers.hpp"

int main(int argc, char** argv) {
  std::vector<suite::Benchmark> all;
  for (const auto part : {fibers::task_benchmarks(), fibers::sync_benchmarks()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return suite::contend(argc, argv, all);
}

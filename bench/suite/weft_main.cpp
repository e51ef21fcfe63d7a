// The contender `weft`.
#include "suite/weft_suite.hpp"

int main(int argc, char** argv) {
  using namespace weft::bench;
  std::vector<Benchmark> all;
  for (const auto part : {task_benchmarks(), tree_benchmarks(), sync_benchmarks(),
                          world_benchmarks(), path_benchmarks(), servers()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return suite::contend(argc, argv, all);
}

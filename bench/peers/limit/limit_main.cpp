// The contender `limit`: what the machine allows, without a scheduler, fairness, cancellation or
// any of the other things that a runtime is for. No runtime reaches these figures; they say how
// much there is left to gain.
#include "limit.hpp"

int main(int argc, char** argv) {
  std::vector<suite::Benchmark> all;
  for (const auto part : {limit::switches(), limit::calls(), limit::shared(), limit::servers()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return suite::contend(argc, argv, all);
}

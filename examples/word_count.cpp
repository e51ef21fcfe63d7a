// Counts words: chunks of text are counted at the same time, on every core, and the counts are
// added up in the order of the text.
#include <weft/weft.hpp>

#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace {

using Counts = std::map<std::string, int>;

Counts count(const std::string& text) {
  Counts counts;
  std::istringstream words(text);
  for (std::string word; words >> word;) ++counts[word];
  return counts;
}

std::vector<std::string> chapters() {
  std::vector<std::string> text;
  for (int i = 0; i < 200; ++i) {
    text.push_back(i % 2 == 0 ? "the warp goes up and the weft goes across"
                              : "and up and across until the cloth is done");
  }
  return text;
}

}  // namespace

int main() {
  weft::Pool pool;
  const Counts total = pool.run([] {
    Counts sum;
    auto counted = weft::seq::from(chapters()) | weft::seq::chunk(10) |
                   weft::seq::parallel_map(4, [](const std::vector<std::string>& some) {
                     Counts counts;
                     for (const auto& chapter : some) {
                       for (const auto& [word, n] : count(chapter)) counts[word] += n;
                     }
                     return counts;
                   });
    for (const Counts& counts : counted) {
      for (const auto& [word, n] : counts) sum[word] += n;
    }
    return sum;
  });
  for (const auto& [word, n] : total) std::printf("%s %d\n", word.c_str(), n);
  return 0;
}

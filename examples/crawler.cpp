// A crawler that is polite: at most three pages at a time, and fifty a second. It visits a little
// site on this machine, whose pages name others, until it has seen them all.
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>
#include <set>
#include <sstream>
#include <string>

using namespace std::chrono_literals;

namespace {

// Page n links to 2n and 2n + 1, up to 30.
void serve(const weft::TcpStream& client) {
  weft::Reader requests(client);
  while (const auto line = requests.line()) {
    const int page = std::stoi(std::string(*line));
    std::string links;
    for (const int link : {2 * page, 2 * page + 1}) {
      if (link <= 30) links += std::to_string(link) + " ";
    }
    client.write(links + "\n");
  }
}

std::string fetch(const std::string& address, int page) {
  const auto server = weft::TcpStream::connect(address);
  server.write(std::to_string(page) + "\n");
  weft::Reader reply(server);
  return std::string(reply.line().value_or(""));
}

class Crawler {
 public:
  explicit Crawler(std::string address) : address_(std::move(address)) {}

  std::size_t crawl(int start) {
    weft::Scope scope;
    visit(scope, start);
    scope.join();
    return seen_.size();
  }

 private:
  void visit(weft::Scope& scope, int page) {
    if (!seen_.insert(page).second) return;
    scope.spawn([this, &scope, page] {
      std::string links;
      {
        const auto permit = at_a_time_.acquire();
        pace_.acquire();
        links = (weft::flow::call([&] { return fetch(address_, page); }) |
                 weft::flow::timeout(10s) | weft::flow::retry({.most = 3, .delay = 10ms}))
                    .run()
                    .value();
      }
      std::istringstream numbers(links);
      for (int link = 0; numbers >> link;) visit(scope, link);
    });
  }

  const std::string address_;
  weft::Semaphore at_a_time_{3};
  weft::RateLimiter pace_{50, 1s, 10};
  std::set<int> seen_;  // a loop runs one task at a time
};

}  // namespace

int main() {
  weft::Loop loop;
  loop.run([] {
    const auto listener = weft::TcpListener::bind("127.0.0.1:0");
    weft::Scope scope;
    auto site = scope.spawn([&] {
      weft::Scope clients;
      for (;;) clients.spawn([client = listener.accept()] { serve(client); });
    });
    const weft::Instant start = weft::now();
    const std::size_t pages = Crawler(listener.local().to_string()).crawl(1);
    std::printf("%zu pages\n", pages);
    const bool polite = weft::now() - start >= 390ms;  // 10 at once, then 20 more at 50 a second
    std::puts(polite ? "politely" : "too fast");
    site.cancel();
  });
  return 0;
}

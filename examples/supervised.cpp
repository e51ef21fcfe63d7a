// A worker that fails now and then, and a supervisor that starts it again.
#include <weft/weft.hpp>

#include <chrono>
#include <cstdio>
#include <stdexcept>

using namespace std::chrono_literals;

int main() {
  weft::Loop loop({.kernel = weft::make_virtual_kernel()});
  loop.run([] {
    weft::Channel<int> jobs(10);
    for (int i = 1; i <= 8; ++i) jobs.send(i);
    jobs.close();

    weft::Supervisor team({.most = 3,
                           .window = 10s,
                           .delay = 100ms,
                           .on_failure = [](std::string_view name, const std::exception_ptr& e) {
                             std::printf("%.*s: %s; again\n", static_cast<int>(name.size()),
                                         name.data(), weft::describe(e).c_str());
                           }});
    team.add("worker", [&] {
      for (const int job : jobs) {
        if (job % 3 == 0) throw std::runtime_error("job " + std::to_string(job) + " is bad");
        std::printf("job %d\n", job);
      }
    });
    team.run();
    std::printf("all done, %llu restarts\n", static_cast<unsigned long long>(team.restarts()));
  });
  return 0;
}

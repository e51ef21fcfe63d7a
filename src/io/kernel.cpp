// What kernels do by default, and which real one is chosen.
#include <weft/io/kernel.hpp>

#include <weft/io/slow_call.hpp>

#include "io/real_kernel.hpp"

#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace weft {

void Kernel::watch(Source& source) {
  throw_sys_error(-ENOTSUP, "this kernel (" + describe().name +
                                ") watches no descriptors; waiting for number " +
                                std::to_string(source.fd()));
}
void Kernel::unwatch(Source&) noexcept {}

void Kernel::start(Job& job) {
  job.run();
  job.complete();
}
void Kernel::start(SlowCall& call) {
  start(static_cast<Job&>(call));
}

namespace io {

UniqueFd checked_fd(int fd, const char* what) {
  if (fd < 0) throw_sys_error(-errno, std::string(what) + " failed while setting up an Io");
  return UniqueFd(fd);
}

namespace {

struct Choice {
  Backend backend;
  std::string why;
};

Choice choose(Backend wanted) {
  std::string by = "asked for by KernelOptions";
  if (wanted == Backend::automatic) {
    const char* text = std::getenv("WEFT_IO");
    const std::string_view name = text == nullptr ? "" : text;
    by = "asked for by WEFT_IO=" + std::string(name);
    if (name == "epoll") {
      wanted = Backend::epoll;
    } else if (name == "uring" || name == "io_uring") {
      wanted = Backend::uring;
    } else if (name == "mixed") {
      wanted = Backend::mixed;
    } else if (!name.empty() && name != "auto") {
      throw std::invalid_argument("WEFT_IO=" + std::string(name) +
                                  " is not a way to wait; use epoll, uring, mixed or auto");
    }
  }
  if (wanted == Backend::epoll) return {wanted, by};
  const std::string& no_uring = why_no_uring();
  if (wanted == Backend::automatic) {
    if (!no_uring.empty()) return {Backend::epoll, no_uring};
    return {Backend::mixed, "a test submission came back, but epoll serves sockets no slower"};
  }
  if (!no_uring.empty()) {
    throw std::system_error(ENOTSUP, std::generic_category(),
                            "io_uring was " + by + ", but " + no_uring);
  }
  return {wanted, by};
}

}  // namespace
}  // namespace io

const std::string& why_no_uring() {
  static const std::string why = io::probe_uring();
  return why;
}

std::unique_ptr<Kernel> make_real_kernel(KernelOptions options) {
  io::Choice choice = io::choose(options.backend);
  if (choice.backend == Backend::uring) {
    return io::make_uring_kernel(options, std::move(choice.why));
  }
  return io::make_epoll_kernel(options, std::move(choice.why), choice.backend == Backend::mixed);
}

}  // namespace weft

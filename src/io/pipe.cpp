#include <weft/io/pipe.hpp>

#include <weft/base/unique_fd.hpp>

#include <string>

#include <fcntl.h>
#include <sys/stat.h>

namespace weft {

namespace {

UniqueFd copy_of(int number) {
  UniqueFd copy(::fcntl(number, F_DUPFD_CLOEXEC, 3));
  if (!copy) throw_sys_error(-errno, "using standard stream " + std::to_string(number));
  return copy;
}

Fd standard_stream(int number, int access) {
  UniqueFd copy = copy_of(number);
  struct stat status{};
  if (::fstat(copy.get(), &status) != 0) {
    throw_sys_error(-errno, "looking at standard stream " + std::to_string(number));
  }
  if (S_ISREG(status.st_mode)) return Fd(machine(), copy.release(), Source::Kind::other);
  const std::string path = "/proc/self/fd/" + std::to_string(number);
  UniqueFd anew(::open(path.c_str(), access | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
  return adopt_fd(anew ? anew.release() : copy.release());
}

}  // namespace

Pipe pipe() {
  const auto world = this_world();
  int fds[2];
  check_sys(world->pipe(fds), "making a pipe");
  Fd write(world, fds[1], Source::Kind::pipe);
  return {Fd(world, fds[0], Source::Kind::pipe), std::move(write)};
}

Fd standard_input() {
  return standard_stream(0, O_RDONLY);
}
Fd standard_output() {
  return standard_stream(1, O_WRONLY);
}
Fd standard_error() {
  return standard_stream(2, O_WRONLY);
}

}  // namespace weft

// The kernel on io_uring.
#include "io/real_kernel.hpp"

namespace weft::io {

std::unique_ptr<Kernel> make_uring_kernel(const KernelOptions&, std::string) {
  throw_sys_error(-ENOTSUP, "io_uring");
}

std::string probe_uring() {
  return "this build has no liburing";
}

}  // namespace weft::io

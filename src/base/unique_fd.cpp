#include <weft/base/unique_fd.hpp>

#include <unistd.h>

namespace weft {

void UniqueFd::reset() noexcept {
  // EINTR after close leaves the descriptor closed on Linux: never retried.
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

}  // namespace weft

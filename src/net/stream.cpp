#include <weft/net/stream.hpp>

#include <algorithm>
#include <string>

namespace weft {

namespace {
// The kernel's own limit is a little below 2 GiB.
constexpr std::uint64_t most_per_call = std::uint64_t{1} << 30;
}  // namespace

SysResult SendFileOp::call(Source& to) noexcept {
  const auto count = static_cast<std::size_t>(std::min(left_, most_per_call));
  return to.world().send_file(to.fd(), file_, offset_, count);
}

bool SendFileOp::absorb(SysResult result, std::uint32_t /*seen*/) noexcept {
  if (result <= 0) return true;  // an error, or the end of the file
  sent_ += static_cast<std::uint64_t>(result);
  left_ -= static_cast<std::uint64_t>(result);
  return left_ == 0;
}

std::uint64_t SendFileOp::take() const {
  if (result() < 0) {
    throw_sys_error(result(), "sending a file (descriptor " + std::to_string(file_) + ") after " +
                                  std::to_string(sent_) + " bytes");
  }
  return sent_;
}

}  // namespace weft

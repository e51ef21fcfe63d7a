#include <weft/base/outcome.hpp>

namespace weft {

const char* to_string(CancelReason reason) noexcept {
  switch (reason) {
    case CancelReason::none:
      return "not cancelled";
    case CancelReason::requested:
      return "requested";
    case CancelReason::timeout:
      return "timeout";
    case CancelReason::sibling_failed:
      return "sibling failed";
    case CancelReason::killed:
      return "killed";
    case CancelReason::shutdown:
      return "shutdown";
    case CancelReason::deadlock:
      return "deadlock";
  }
  return "unknown";
}

std::string describe(const std::exception_ptr& error) {
  if (!error) return "no error";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (const Cancelled& c) {
    return std::string("cancelled: ") + to_string(c.reason());
  } catch (...) {
    return "an exception that is not a std::exception";
  }
}

}  // namespace weft

#include <weft/flow/parallel.hpp>

namespace weft::flow_detail {

Coro<void> Together::end() {
  co_await scope_.joined();
  if (won()) co_return;
  if (const CancelReason reason = reason_.load(); reason != CancelReason::none) {
    throw Cancelled(reason);
  }
}

}  // namespace weft::flow_detail

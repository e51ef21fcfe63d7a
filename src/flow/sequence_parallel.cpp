#include <weft/flow/sequence_parallel.hpp>

#include <stdexcept>

namespace weft::flow_detail {

void check_tasks_run_beside_us() {
  if (this_task()->flow() != Wait::Flow::thread) return;
  throw std::logic_error(
      "a sequence that works ahead needs tasks that run beside its reader: read it on a Loop or a "
      "Pool, not on a plain thread or an Inline");
}

}  // namespace weft::flow_detail

/// Counts what operator new and the blocks' depot have given out and not got back. Under
/// sanitizers, which do this better, always 0.
#pragma once

#include <cstdint>

namespace weft::test {

[[nodiscard]] std::int64_t live_allocations() noexcept;

}  // namespace weft::test

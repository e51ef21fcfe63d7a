// The cores this process may use.
#pragma once

#include <cstddef>
#include <vector>

namespace weft {

/// Their numbers, as the machine's affinity mask says.
[[nodiscard]] const std::vector<int>& usable_cpus();

/// How many of them the process's control group (version 2 or 1) pays for; the number of
/// usable_cpus() if it does not say.
[[nodiscard]] std::size_t paid_cpus();

/// The calling thread stays on this one. Best effort.
void pin_to_cpu(int cpu) noexcept;

}  // namespace weft

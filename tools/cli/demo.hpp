// `weft demo`: the examples, one after the other, and then some figures of this machine.
#pragma once

#include <string>

namespace weft::cli {

/// "hello, pingpong, ..."
[[nodiscard]] std::string demo_names();

/// All of it, or just `only`. Returns the process's exit code; throws std::invalid_argument for an
/// unknown name.
int run_demo(const std::string& only);

}  // namespace weft::cli

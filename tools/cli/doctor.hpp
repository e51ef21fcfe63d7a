// `weft doctor`: what the library finds on this machine, what it chose and why, and what would not
// work.
#pragma once

namespace weft::cli {

/// Prints the findings, as text or as JSON. Returns the process's exit code: 1 if something would
/// not work.
int run_doctor(bool json);

}  // namespace weft::cli

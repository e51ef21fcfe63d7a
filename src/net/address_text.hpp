#pragma once

#include <cstddef>
#include <string>
#include <string_view>

// What reading and writing an address have in common.

namespace weft::detail {

inline constexpr std::string_view unix_prefix = "unix:";
inline constexpr std::string_view unix_unnamed_text = "(unnamed)";

void append_escaped(std::string& out, char c);
/// The text on one line: backslashes and control characters escaped.
std::string printable(std::string_view text);
/// The same, and not too long, for error messages; then in quotes.
std::string shown(std::string_view text);
std::string quoted(std::string_view text);

/// What is wrong with the name of a Unix socket, and what to do; `what` is empty if nothing is.
struct Complaint {
  std::string what;
  std::string hint;
};
Complaint unix_complaint(std::string_view name, bool abstract);

}  // namespace weft::detail

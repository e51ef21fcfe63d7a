/// The tape: everything that a simulated run left open, and how it was decided.
///
/// A run is a function of its tape. Each entry is one choice: of what kind, among how many, and
/// which. Zero is the plain choice: the task that runs goes on, the oldest of those that wait is
/// next, no fault happens. So a tape of zeros is the quiet run, what follows the end of a tape is
/// quiet, and a tape is shrunk by turning choices into zeros.
///
///     weft-tape 1
///     name Account.LostUpdate
///     seed 17 surw
///     hash 91c62b8a4f00d3e5
///     t2=1 t2=0 s3=2 t3=1
///
/// As text, an entry is its kind's letter, how many there were, and which was taken; trailing zeros
/// are left out. Kinds and counts are there to notice a tape that belongs to another program, or to
/// an earlier version of this one: it is refused where it ceases to fit, not misread.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weft::sim {

enum class Kind : char {
  task = 't',  // who goes on
  select =
      's',      // where the library's contract leaves it open, e.g. which case a select polls first
  user = 'u',   // sim::pick()
  fault = 'f',  // whether something goes wrong
  delay = 'd',  // how long something takes
};
[[nodiscard]] const char* to_string(Kind kind) noexcept;

struct Choice {
  Kind kind;
  std::uint32_t among;
  std::uint32_t taken;
  friend bool operator==(const Choice&, const Choice&) = default;
};

struct Tape {
  std::string name;        // of the test
  std::uint64_t seed = 0;  // that made it
  std::string strategy;
  std::uint64_t hash = 0;  // of the run
  std::vector<Choice> choices;

  [[nodiscard]] std::string text() const;
  /// Throws BadTape, with the line.
  [[nodiscard]] static Tape parse(std::string_view text);
  /// Throws std::system_error.
  void save(const std::string& path) const;
  /// Throws std::system_error, BadTape.
  [[nodiscard]] static Tape load(const std::string& path);

  /// Choices that are not the plain ones.
  [[nodiscard]] std::size_t edits() const noexcept;
};

/// It cannot be read, or does not fit the program.
class BadTape : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace weft::sim

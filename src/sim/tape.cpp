#include <weft/sim/tape.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace weft::sim {

namespace {

constexpr std::string_view first_line = "weft-tape 1";
constexpr std::size_t most_in_a_line = 12;

bool is_kind(char c) noexcept {
  switch (static_cast<Kind>(c)) {
    case Kind::task:
    case Kind::select:
    case Kind::user:
    case Kind::fault:
    case Kind::delay:
      return true;
  }
  return false;
}

template <class N>
N number(std::string_view text, int base, const std::string& where) {
  N value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) {
    throw BadTape(where + ": '" + std::string(text) + "' is not a number");
  }
  return value;
}

Choice parse_choice(std::string_view text, const std::string& where) {
  const std::size_t equals = text.find('=');
  if (text.size() < 4 || !is_kind(text[0]) || equals == std::string_view::npos) {
    throw BadTape(where + ": '" + std::string(text) +
                  "' is not a choice, which looks like t3=1 (kind, how many, which)");
  }
  const Choice choice{.kind = static_cast<Kind>(text[0]),
                      .among = number<std::uint32_t>(text.substr(1, equals - 1), 10, where),
                      .taken = number<std::uint32_t>(text.substr(equals + 1), 10, where)};
  if (choice.taken >= choice.among) {
    throw BadTape(where + ": '" + std::string(text) + "' takes what is not there");
  }
  return choice;
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace

const char* to_string(Kind kind) noexcept {
  switch (kind) {
    case Kind::task:
      return "who goes on";
    case Kind::select:
      return "which of several";
    case Kind::user:
      return "pick";
    case Kind::fault:
      return "a fault";
    case Kind::delay:
      return "a delay";
  }
  return "?";
}

std::size_t Tape::edits() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(choices, [](const Choice& c) { return c.taken != 0; }));
}

std::string Tape::text() const {
  std::string text = std::string(first_line) + "\nname " + name + "\nseed " + std::to_string(seed) +
                     " " + strategy + "\nhash " + hex(hash) + "\n";
  std::size_t end = choices.size();
  while (end > 0 && choices[end - 1].taken == 0) --end;
  for (std::size_t i = 0; i < end; ++i) {
    const Choice& c = choices[i];
    text += static_cast<char>(c.kind) + std::to_string(c.among) + "=" + std::to_string(c.taken);
    text += i + 1 == end || (i + 1) % most_in_a_line == 0 ? "\n" : " ";
  }
  return text;
}

Tape Tape::parse(std::string_view text) {
  std::istringstream lines{std::string(text)};
  Tape tape;
  std::string line;
  for (int n = 1; std::getline(lines, line); ++n) {
    const std::string where = "tape, line " + std::to_string(n);
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (n == 1) {
      if (line != first_line) {
        throw BadTape(where + ": it should begin with '" + std::string(first_line) + "', not '" +
                      line + "'");
      }
    } else if (word == "name") {
      tape.name = line.size() > 5 ? line.substr(5) : "";
    } else if (word == "seed") {
      words >> word;
      tape.seed = number<std::uint64_t>(word, 10, where);
      words >> tape.strategy;
    } else if (word == "hash") {
      words >> word;
      tape.hash = number<std::uint64_t>(word, 16, where);
    } else if (!word.empty()) {
      do {
        tape.choices.push_back(parse_choice(word, where));
      } while (words >> word);
    }
  }
  if (line.empty() && tape.name.empty() && tape.choices.empty()) throw BadTape("the tape is empty");
  return tape;
}

void Tape::save(const std::string& path) const {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text();
  file.close();
  if (!file) {
    throw std::system_error(errno, std::generic_category(), "cannot write the tape " + path);
  }
}

Tape Tape::load(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    throw std::system_error(errno, std::generic_category(), "cannot read the tape " + path);
  }
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  return parse(text);
}

}  // namespace weft::sim

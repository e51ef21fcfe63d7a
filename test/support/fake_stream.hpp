/// Streams in memory, on virtual time, that do whatever a stream may: arrive late, in short pieces,
/// fail now and then.
///
///     Tape tape(numbers);
///     FakeStream<Wakes::by_hints> stream("what there is to read", tape);
///     Reader in(stream);
///
/// All choices come from a tape, so that a property test can shrink them; an empty tape is a stream
/// that always has everything at once. `Wakes` says what its operations are made of.
#pragma once

#include <weft/io/fd.hpp>
#include <weft/time/sleep.hpp>

#include "support/everywhere.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::test {

/// Decisions written down beforehand; at its end there are only zeros.
class Tape {
 public:
  explicit Tape(const std::vector<std::uint16_t>& numbers) : numbers_(numbers) {}
  /// In [0, n).
  std::size_t next(std::size_t n) {
    return at_ < numbers_.size() ? numbers_[at_++] % n : std::size_t{0};
  }
  [[nodiscard]] bool at_end() const { return at_ >= numbers_.size(); }

 private:
  const std::vector<std::uint16_t>& numbers_;
  std::size_t at_ = 0;
};

enum class Wakes { surely, by_one_of_several, by_hints };

/// A sleep that wakes too early, several times over.
class RestlessOp {
 public:
  using Result = void;
  static constexpr Reason reason{"restless"};
  RestlessOp(Instant until, std::size_t& alarms) : sleep_(until), alarms_(&alarms) {}
  ObjectId object() const noexcept { return sleep_.object(); }
  bool try_now() const { return *alarms_ == 0 && sleep_.try_now(); }
  Armed arm(Arm& arm) noexcept { return sleep_.arm(arm); }
  void disarm(Arm& arm) noexcept { sleep_.disarm(arm); }
  bool confirm() noexcept {
    if (*alarms_ == 0) return true;
    --*alarms_;
    return false;
  }
  void take() const noexcept {}

 private:
  SleepOp sleep_;
  std::size_t* alarms_;
};

template <Wakes wakes>
class FakeStream {
 public:
  FakeStream(std::string input, Tape& tape) : input_(std::move(input)), tape_(tape) {}

  auto read_op(Bytes into) {
    return when_ready(reading_, [this, into] {
      const std::size_t n = std::min({allowed(reading_), into.size(), input_.size() - read_});
      std::ranges::copy(as_bytes(std::string_view(input_).substr(read_, n)), into.begin());
      read_ += n;
      return n;
    });
  }
  auto write_some_op(ConstBytes from) {
    return when_ready(writing_, [this, from] {
      const std::size_t n = std::min(allowed(writing_), from.size());
      output_ += as_text(from.first(n));
      return n;
    });
  }

  [[nodiscard]] const std::string& output() const { return output_; }
  [[nodiscard]] std::size_t errors() const { return errors_; }

 private:
  /// What happens next in one direction; decided once, however often somebody waits for it.
  struct Next {
    Instant at;
    std::size_t bytes = 0;
    bool fails = false;
    std::size_t alarms = 0;
    bool decided = false;
  };

  void decide(Next& next) {
    if (next.decided) return;
    next.decided = true;
    const bool bad = !tape_.at_end();
    next.at = now() + 1us * (tape_.next(2) == 0 ? 0 : tape_.next(20));
    next.bytes = bad ? 1 + tape_.next(tape_.next(3) == 0 ? 100 : 6) : std::size_t{1} << 20;
    next.fails = tape_.next(16) == 15;
    next.alarms = tape_.next(4) == 3 ? tape_.next(4) : 0;
  }
  std::size_t allowed(Next& next) {
    next.decided = false;
    if (next.fails) {
      ++errors_;
      throw std::system_error(EIO, std::system_category(), "as written");
    }
    return next.bytes;
  }
  template <class F>
  auto when_ready(Next& next, F f) {
    decide(next);
    if constexpr (wakes == Wakes::surely) {
      return map(sleep_until_op(next.at), f);
    } else if constexpr (wakes == Wakes::by_one_of_several) {
      // The order of the timers and that of the cases differ.
      return map(race(sleep_until_op(next.at + 3us), never<>(), sleep_until_op(next.at),
                      sleep_until_op(next.at)),
                 [f](auto&&) { return f(); });
    } else {
      return map(RestlessOp(next.at, next.alarms), f);
    }
  }

  const std::string input_;
  Tape& tape_;
  Next reading_;
  Next writing_;
  std::size_t read_ = 0;
  std::string output_;
  std::size_t errors_ = 0;
};

}  // namespace weft::test

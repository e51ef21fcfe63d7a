// Reader and Writer against a plain string that is obviously right: random streams, random
// operations, interrupted at random.
#include <weft/io/buffered.hpp>

#include "support/fake_stream.hpp"

#if defined(WEFT_HAVE_RAPIDCHECK)

#include <rapidcheck.h>

namespace weft::test {
namespace {

/// What came of all rounds: they must have been worth it. And the first thing that was wrong in
/// this one; not left to gtest, so that rapidcheck can look for a smaller case.
struct Totals {
  void expect(bool holds, const char* what) {
    if (!holds && wrong == nullptr) wrong = what;
  }
  const char* wrong = nullptr;
  std::size_t done = 0;
  std::size_t timed_out = 0;
  std::size_t cancelled = 0;
  std::size_t failed = 0;
  std::size_t too_long = 0;
  std::size_t ended = 0;
};

/// How one operation came out. Only a `done` one may have changed anything.
enum class How { done, timed_out, cancelled, failed, too_long, ended };

/// The bytes an operation gave, copied; nothing: the end, where it says so.
using Text = std::optional<std::string>;
Text text_of(std::optional<std::string_view> text) {
  return text ? Text(*text) : Text();
}
Text text_of(ConstBytes bytes) {
  return Text(as_text(bytes));
}
Text text_of(std::string text) {
  return text;
}

struct Tried {
  How how;
  Text text;
};

/// Performs an operation, perhaps interrupted by a timeout or a cancelled scope; `f` makes text of
/// what it gave, at once.
template <class O, class F>
Coro<Tried> try_it(Tape& tape, Totals& totals, O op, F f) {
  const std::size_t patience = tape.next(3);
  const Duration limit = 1us * tape.next(30);
  try {
    if (patience == 1) {
      auto got = co_await timeout(map(std::move(op), f), limit);
      ++(got ? totals.done : totals.timed_out);
      co_return got ? Tried{How::done, *got} : Tried{How::timed_out, {}};
    }
    if (patience == 2) {
      auto got = co_await within({.deadline = now() + limit}, [&](Scope&) -> Coro<Text> {
        co_return co_await map(std::move(op), f);
      });
      ++(got.cancelled() ? totals.cancelled : totals.done);
      if (got.cancelled()) co_return Tried{How::cancelled, {}};
      co_return Tried{How::done, std::move(got).value()};
    }
    Text got = co_await map(std::move(op), f);
    ++totals.done;
    co_return Tried{How::done, std::move(got)};
  } catch (const TooLong&) {
    ++totals.too_long;
    co_return Tried{How::too_long, {}};
  } catch (const EndOfStream&) {
    ++totals.ended;
    co_return Tried{How::ended, {}};
  } catch (const std::system_error&) {
    ++totals.failed;
    co_return Tried{How::failed, {}};
  }
}

/// A Reader and what it must give.
template <Wakes wakes>
class ReaderRun {
 public:
  ReaderRun(const std::string& input, ReaderOptions options, Tape& stream_tape, Tape& tape,
            Totals& totals)
      : stream_(input, stream_tape),
        reader_(stream_, options),
        most_(options.most),
        rest_(input),
        tape_(tape),
        totals_(totals) {}

  Coro<> run() {
    // Beyond the tape only the first kind of operation is done, uninterrupted: it comes to the end.
    while (!rest_.empty() || !tape_.at_end()) {
      co_await operation(tape_.next(9));
      totals_.expect(reader_.buffered() <= rest_.size(), "buffered: more than there is");
      if (totals_.wrong != nullptr) co_return;
    }
    const std::string end = co_await read_all_of_nothing();
    totals_.expect(end.empty(), "bytes after the end");
  }

 private:
  Coro<std::string> read_all_of_nothing() {
    for (;;) {
      try {
        co_return co_await reader_.read_all_op();
      } catch (const TooLong&) {
        throw;
      } catch (const std::system_error&) {  // as written; again
      }
    }
  }

  Coro<> operation(std::size_t which) {
    const std::size_t n = tape_.next(40);
    auto as_is = [](auto got) { return text_of(got); };
    switch (which) {
      case 0:
        return some(n + 1);
      case 1:
        return check_until(reader_.line_op(), "\n", true);
      case 2:
        return check_until(reader_.read_until_op('b'), "b", false);
      case 3:
        return check_until(reader_.read_until_op("ab\n"), "ab\n", false);
      case 4:
        return check_exactly(n, most_, try_it(tape_, totals_, reader_.read_exactly_op(n), as_is));
      case 5:
        return exactly_into(n);
      case 6:
        return peek(n);
      case 7:
        return skip(n);
      default:
        return all(n);
    }
  }

  void take(std::size_t count) { rest_.erase(0, count); }

  template <class O>
  Coro<> check_until(O op, std::string delimiter, bool is_line) {
    auto [how, text] =
        co_await try_it(tape_, totals_, std::move(op), [](auto got) { return text_of(got); });
    const std::size_t longest = most_ + delimiter.size();
    const std::size_t at = std::string_view(rest_).substr(0, longest).find(delimiter);
    const bool found = at != std::string::npos;
    if (how == How::too_long) {
      totals_.expect(!found && rest_.size() >= longest, "until: not too long");
    } else if (how == How::done) {
      totals_.expect(found || rest_.size() < longest, "until: too long");
      const std::string all = rest_.substr(0, found ? at + delimiter.size() : rest_.size());
      take(all.size());
      totals_.expect(text.has_value() == !all.empty(), "until: the end or not");
      std::string expected = all;
      if (is_line && found) expected.erase(expected.ends_with("\r\n") ? at - 1 : at);
      totals_.expect(text.value_or("") == expected, "until: other bytes");
    }
  }
  Coro<> check_exactly(std::size_t n, std::size_t most, Coro<Tried> trying) {
    auto [how, text] = co_await std::move(trying);
    totals_.expect(how != How::too_long || n > most, "exactly: not too long");
    totals_.expect(how != How::ended || rest_.size() < n, "exactly: not the end");
    if (how != How::done) co_return;
    totals_.expect(n <= most, "exactly: too long");
    totals_.expect(text == rest_.substr(0, n), "exactly: other bytes");
    take(n);
  }
  Coro<> exactly_into(std::size_t n) {
    std::vector<std::byte> out(n);
    auto filled = [&out] { return text_of(ConstBytes(out)); };
    co_await check_exactly(n, n,
                           try_it(tape_, totals_, reader_.read_exactly_op(Bytes(out)), filled));
  }
  Coro<> some(std::size_t n) {
    std::vector<std::byte> out(n);
    auto [how, text] =
        co_await try_it(tape_, totals_, reader_.read_some_op(out),
                        [&out](std::size_t got) { return text_of(ConstBytes(out).first(got)); });
    if (how == How::done) check_some(*text, n);
  }
  Coro<> peek(std::size_t n) {
    auto [how, text] =
        co_await try_it(tape_, totals_, reader_.peek_op(n), [](auto got) { return text_of(got); });
    totals_.expect(how != How::too_long || n > most_, "peek: not too long");
    totals_.expect(how != How::done || text == rest_.substr(0, n), "peek: other bytes");
  }
  Coro<> skip(std::size_t n) {
    const std::size_t buffered = reader_.buffered();
    auto [how, text] = co_await try_it(tape_, totals_, reader_.skip_op(n), [](std::size_t skipped) {
      return text_of(std::string(skipped, '.'));
    });
    if (how != How::done) co_return;
    totals_.expect(text->size() >= std::min(n, buffered), "skip: too few");
    check_some(rest_.substr(0, text->size()), n);
  }
  Coro<> all(std::size_t n) {
    auto [how, text] = co_await try_it(tape_, totals_, reader_.read_all_op(n * 8),
                                       [](std::string got) { return text_of(std::move(got)); });
    totals_.expect(how != How::too_long || rest_.size() > n * 8, "all: not too long");
    if (how != How::done) co_return;
    totals_.expect(text == rest_, "all: other bytes");
    rest_.clear();
  }
  void check_some(const std::string& got, std::size_t asked) {
    totals_.expect(got.size() <= asked, "some: too many");
    totals_.expect(got.empty() == (asked == 0 || rest_.empty()), "some: the end or not");
    totals_.expect(got == rest_.substr(0, got.size()), "some: other bytes");
    take(got.size());
  }

  FakeStream<wakes> stream_;
  Reader<FakeStream<wakes>> reader_;
  std::size_t most_;
  std::string rest_;
  Tape& tape_;
  Totals& totals_;
};

/// A Writer and what must have arrived.
template <Wakes wakes>
class WriterRun {
 public:
  WriterRun(std::size_t buffer_size, Tape& stream_tape, Tape& tape, Totals& totals)
      : stream_("", stream_tape),
        writer_(stream_, {.buffer_size = buffer_size}),
        buffer_size_(buffer_size),
        tape_(tape),
        totals_(totals) {}

  Coro<> run() {
    while (!tape_.at_end()) {
      if (tape_.next(3) == 0) {
        co_await flush();
      } else {
        co_await write();
      }
      check_order();
      if (totals_.wrong != nullptr) break;
    }
    for (bool flushed = false; !flushed && totals_.wrong == nullptr;) {
      flushed = co_await flush();
      check_order();
    }
    totals_.expect(stream_.output() == accepted_, "flushed: other bytes");
    writer_.drop();
  }

 private:
  void check_order() {
    totals_.expect(accepted_.starts_with(stream_.output()), "sent: other bytes");
    totals_.expect(accepted_.size() - stream_.output().size() == writer_.unsent(), "unsent: wrong");
  }
  Coro<bool> flush() {
    auto [how, text] = co_await try_it(tape_, totals_, writer_.flush_op(), [] { return Text(); });
    totals_.expect(how != How::done || writer_.unsent() == 0, "flush: not all");
    co_return how == How::done;
  }
  Coro<> write() {
    std::string text(tape_.next(tape_.next(4) == 0 ? 200 : 12), ' ');
    for (char& c : text) c = static_cast<char>('a' + count_++ % 26);
    auto [how, nothing] =
        co_await try_it(tape_, totals_, writer_.write_op(text), [] { return Text(); });
    if (how != How::done) co_return;
    accepted_ += text;
    totals_.expect(text.empty() || writer_.unsent() <= std::max(buffer_size_, text.size()),
                   "unsent: too many");
  }

  FakeStream<wakes> stream_;
  Writer<FakeStream<wakes>> writer_;
  std::size_t buffer_size_;
  Tape& tape_;
  Totals& totals_;
  std::string accepted_;
  std::size_t count_ = 0;
};

using Numbers = std::vector<std::uint16_t>;

rc::Gen<Numbers> tapes(std::size_t most) {
  return rc::gen::mapcat(
      rc::gen::resize(100, rc::gen::inRange<std::size_t>(0, most)), [](std::size_t length) {
        return rc::gen::container<Numbers>(
            length, rc::gen::resize(100, rc::gen::inRange<std::uint16_t>(0, 10080)));
      });
}

template <class Body>
void run_case(Totals& totals, Body body) {
  totals.wrong = nullptr;
  run_on_one_thread(false, [&](Here&) -> Coro<> { return body(); });
  if (totals.wrong != nullptr) RC_FAIL(totals.wrong);
}

template <Wakes wakes>
void check_reader(Totals& totals) {
  const std::size_t times = scaled(1, 5, 100);  // for each of a hundred rounds
  ASSERT_TRUE(rc::check("a Reader gives what a string does", [&] {
    for (std::size_t i = 0; i < times; ++i) {
      const auto input = *rc::gen::resize(
          300, rc::gen::container<std::string>(rc::gen::element('a', 'b', '\n', '\r', 'c')));
      const auto stream_numbers = *tapes(400);
      const auto numbers = *tapes(400);
      const ReaderOptions options{.buffer_size = *rc::gen::inRange<std::size_t>(1, 40),
                                  .most = *rc::gen::inRange<std::size_t>(0, 60)};
      run_case(totals, [&]() -> Coro<> {
        Tape stream_tape(stream_numbers);
        Tape tape(numbers);
        ReaderRun<wakes> run(input, options, stream_tape, tape, totals);
        co_await run.run();
      });
    }
  }));
}

template <Wakes wakes>
void check_writer(Totals& totals) {
  const std::size_t times = scaled(1, 5, 100);
  ASSERT_TRUE(rc::check("a Writer passes on what it accepted, in order", [&] {
    for (std::size_t i = 0; i < times; ++i) {
      const auto stream_numbers = *tapes(600);
      const auto numbers = *tapes(400);
      const auto buffer_size = *rc::gen::inRange<std::size_t>(1, 40);
      run_case(totals, [&]() -> Coro<> {
        Tape stream_tape(stream_numbers);
        Tape tape(numbers);
        WriterRun<wakes> run(buffer_size, stream_tape, tape, totals);
        co_await run.run();
      });
    }
  }));
}

void expect_worth_it(const Totals& totals) {
  EXPECT_GT(totals.done, 1000U);
  EXPECT_GT(totals.timed_out, 100U);
  EXPECT_GT(totals.cancelled, 100U);
  EXPECT_GT(totals.failed, 100U);
}
void expect_reader_worth_it(const Totals& totals) {
  expect_worth_it(totals);
  EXPECT_GT(totals.too_long, 100U);
  EXPECT_GT(totals.ended, 100U);
}

TEST(Buffered, T16_ReaderIsAString) {
  Totals totals;
  check_reader<Wakes::surely>(totals);
  expect_reader_worth_it(totals);
}
TEST(Buffered, T16_ReaderIsAStringThoughTheStreamHasSeveralBranches) {
  Totals totals;
  check_reader<Wakes::by_one_of_several>(totals);
  expect_reader_worth_it(totals);
}
TEST(Buffered, T16_ReaderIsAStringThoughTheStreamOnlyHints) {
  Totals totals;
  check_reader<Wakes::by_hints>(totals);
  expect_reader_worth_it(totals);
}
TEST(Buffered, T16_WriterKeepsTheOrder) {
  Totals totals;
  check_writer<Wakes::surely>(totals);
  expect_worth_it(totals);
}
TEST(Buffered, T16_WriterKeepsTheOrderThoughTheStreamHasSeveralBranches) {
  Totals totals;
  check_writer<Wakes::by_one_of_several>(totals);
  expect_worth_it(totals);
}
TEST(Buffered, T16_WriterKeepsTheOrderThoughTheStreamOnlyHints) {
  Totals totals;
  check_writer<Wakes::by_hints>(totals);
  expect_worth_it(totals);
}

}  // namespace
}  // namespace weft::test

#endif

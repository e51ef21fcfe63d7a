#include <weft/io/buffered.hpp>

#include "support/fake_stream.hpp"

#include <array>
#include <ranges>
#include <vector>

using namespace weft;
using namespace weft::test;

static_assert(ReadableStream<Fd> && WritableStream<Fd>);
static_assert(ReadableStream<Reader<const Fd>>, "a Reader is a stream to read from");
static_assert(std::ranges::input_range<Reader<Fd>::Lines>);
static_assert(!std::is_constructible_v<Reader<Fd>, Fd>, "the stream is only borrowed");

namespace {

/// Always ready: `piece` bytes at a time. Remembers what it was asked for.
class Spy {
 public:
  explicit Spy(std::string text, std::size_t piece_size = 1 << 20)
      : piece(piece_size), text_(std::move(text)) {}
  auto read_op(Bytes into) {
    asked.push_back(into);
    const std::size_t n = std::min({into.size(), piece, text_.size()});
    return map(always(n), [this, into](std::size_t count) {
      std::ranges::copy(as_bytes(std::string_view(text_).substr(0, count)), into.begin());
      text_.erase(0, count);
      return count;
    });
  }
  void more(std::string_view text) { text_ += text; }

  std::size_t piece;
  std::vector<Bytes> asked;

 private:
  std::string text_;
};

/// Takes `budget` bytes, then nobody ever wakes who waits.
class Sink {
 public:
  class WriteOp {
   public:
    using Result = std::size_t;
    static constexpr Reason reason{"sink"};
    WriteOp(Sink& sink, ConstBytes bytes) : sink_(sink), bytes_(bytes) {}
    ObjectId object() const noexcept { return ObjectId::none; }
    bool try_now() const { return sink_.budget > 0 || sink_.broken; }
    Armed arm(Arm&) noexcept { return Armed::waiting; }
    void disarm(Arm&) noexcept {}
    std::size_t take() {
      if (sink_.broken) throw std::system_error(EPIPE, std::system_category(), "sink");
      const std::size_t n = std::min(sink_.budget, bytes_.size());
      sink_.got += as_text(bytes_.first(n));
      sink_.budget -= n;
      ++sink_.writes;
      return sink_.says_nothing ? 0 : n;
    }

   private:
    Sink& sink_;
    ConstBytes bytes_;
  };
  WriteOp write_some_op(ConstBytes bytes) { return {*this, bytes}; }

  std::size_t budget = 0;
  bool broken = false;
  bool says_nothing = false;
  std::string got;
  std::size_t writes = 0;
};

EVERYWHERE(Reader, T16_LinesOfBothKinds) {
  for (const std::size_t piece : {1U, 2U, 3U, 100U}) {
    Spy spy("one\ntwo\r\n\n\r\nfo\rur\nlast", piece);
    Reader in(spy);
    std::vector<std::string> lines;
    while (auto line = co_await in.line_op()) lines.emplace_back(*line);
    EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "", "", "fo\rur", "last"}));
    EXPECT_FALSE((co_await in.line_op()).has_value());
    spy.more("again\n");  // the end was not for ever
    EXPECT_EQ(co_await in.line_op(), "again");
  }
}

EVERYWHERE(Reader, T16_RangeOfLinesForFibers) {
  Spy spy("a\nb\nc", 2);
  Reader in(spy);
  std::string all;
  Scope scope;
  scope.spawn([&] {
    for (const std::string_view line : in.lines()) all += line;
  });
  co_await scope.joined();
  EXPECT_EQ(all, "abc");
}

EVERYWHERE(Reader, T16_UntilGivesTheDelimiterToo) {
  Spy spy("key: value\r\n\r\nbody;rest", 3);
  Reader in(spy, {.buffer_size = 4});
  EXPECT_EQ(co_await in.read_until_op("\r\n\r\n"), "key: value\r\n\r\n");
  EXPECT_EQ(co_await in.read_until_op(';'), "body;");
  EXPECT_EQ(co_await in.read_until_op(';'), "rest");  // cut off: no delimiter
  EXPECT_EQ(co_await in.read_until_op(';'), std::nullopt);
}

EVERYWHERE(Reader, T16_TooLongSaysTheLimitAndTakesNothing) {
  Spy spy("12345\n123456\n12345", 4);
  Reader in(spy, {.buffer_size = 2, .most = 5});
  EXPECT_EQ(co_await in.line_op(), "12345");
  for (int again = 0; again < 2; ++again) {
    try {
      co_await in.line_op();
      ADD_FAILURE() << "a line of six bytes";
    } catch (const TooLong& error) {
      EXPECT_EQ(error.limit(), 5U);
      EXPECT_EQ(error.code(), std::errc::message_size);
      EXPECT_NE(std::string(error.what()).find("within the 5 bytes"), std::string::npos);
    }
  }
  EXPECT_EQ(co_await in.skip_op(3), 3U);
  EXPECT_EQ(co_await in.line_op(), "456");
  EXPECT_EQ(co_await in.line_op(), "12345");  // as long as allowed, without a delimiter
  EXPECT_EQ(co_await in.line_op(), std::nullopt);
}

EVERYWHERE(Reader, T16_LimitsOfTheOthers) {
  Spy spy("0123456789");
  Reader in(spy, {.buffer_size = 2, .most = 5});
  auto too_long = [](auto op) -> Coro<std::size_t> {
    try {
      co_await std::move(op);
    } catch (const TooLong& error) {
      co_return error.limit();
    }
    co_return 0;
  };
  EXPECT_EQ(co_await too_long(in.read_exactly_op(6)), 5U);
  EXPECT_EQ(co_await too_long(in.peek_op(6)), 5U);
  EXPECT_EQ(in.buffered(), 0U);
  EXPECT_EQ(co_await too_long(in.read_all_op()), 5U);
  EXPECT_EQ(co_await too_long(in.read_all_op(9)), 9U);
  std::array<std::byte, 6> six;  // whose memory it is has decided how much it may be
  co_await in.read_exactly_op(six);
  EXPECT_EQ(as_text(six), "012345");
  EXPECT_EQ(co_await in.read_all_op(4), "6789");
  EXPECT_EQ(co_await in.read_all_op(0), "");
}

EVERYWHERE(Reader, T16_EndInTheMiddleSaysHowMuchCame) {
  Spy spy("abc", 2);
  Reader in(spy);
  try {
    co_await in.read_exactly_op(8);
    ADD_FAILURE() << "eight of three bytes";
  } catch (const EndOfStream& error) {
    EXPECT_EQ(error.got(), 3U);
    EXPECT_EQ(error.wanted(), 8U);
    EXPECT_NE(std::string(error.what()).find("3 of 8 bytes"), std::string::npos);
  }
  spy.more("defgh");
  EXPECT_EQ(as_text(co_await in.read_exactly_op(8)), "abcdefgh");
  std::array<std::byte, 2> out{};
  spy.more("x");
  std::size_t got = 9;
  try {
    co_await in.read_exactly_op(out);
  } catch (const EndOfStream& error) {
    got = error.got();
  }
  EXPECT_EQ(got, 1U);
  EXPECT_EQ(out[0], std::byte{0});
  EXPECT_EQ(as_text(co_await in.peek_op(5)), "x");
}

EVERYWHERE(Reader, T16_NothingAskedNothingRead) {
  Spy spy("abc");
  Reader in(spy, {.most = 0});
  EXPECT_EQ((co_await in.read_exactly_op(0)).size(), 0U);
  EXPECT_EQ((co_await in.peek_op(0)).size(), 0U);
  EXPECT_EQ(co_await in.skip_op(0), 0U);
  EXPECT_EQ(co_await in.read_some_op({}), 0U);
  co_await in.read_exactly_op(Bytes());
  EXPECT_TRUE(spy.asked.empty());
  EXPECT_EQ(co_await in.skip_op(2), 2U);  // needs nothing in the buffer
  EXPECT_EQ(co_await in.skip_op(2), 1U);
  EXPECT_EQ(co_await in.skip_op(2), 0U);
}

EVERYWHERE(Reader, T16_LargeReadsGoPastTheBuffer) {
  Spy spy("0123456789abcdef", 8);
  Reader in(spy, {.buffer_size = 8});
  std::array<std::byte, 8> large;
  std::array<std::byte, 7> small;
  EXPECT_EQ(co_await in.read_some_op(large), 8U);
  EXPECT_EQ(spy.asked.back().data(), large.data());
  EXPECT_EQ(as_text(large), "01234567");
  EXPECT_EQ(in.buffered(), 0U);
  EXPECT_EQ(co_await in.read_some_op(small), 7U);
  EXPECT_EQ(in.buffered(), 1U);
  EXPECT_EQ(co_await in.read_some_op(large), 1U);  // what is buffered comes first
  EXPECT_EQ(large[0], std::byte{'f'});
  EXPECT_EQ(co_await in.read_some_op(large), 0U);
}

EVERYWHERE(Reader, T16_BufferGrowsForALongLineAndShrinksAgain) {
  Spy spy(std::string(1000, 'x') + "\n");
  Reader in(spy, {.buffer_size = 16, .most = 5000});
  EXPECT_EQ((co_await in.line_op())->size(), 1000U);
  spy.more("short\n");
  EXPECT_EQ(co_await in.line_op(), "short");
  EXPECT_EQ(spy.asked.back().size(), 16U);
  // Known in advance: at once as large as needed.
  spy.asked.clear();
  spy.more(std::string(300, 'y'));
  EXPECT_EQ((co_await in.read_exactly_op(300)).size(), 300U);
  EXPECT_EQ(spy.asked.size(), 1U);
}

EVERYWHERE(Reader, T16_ViewsStayUntilTheNextOperation) {
  Spy spy("first line\nsecond line\n");
  Reader in(spy, {.buffer_size = 64});
  const std::string_view line = *co_await in.line_op();
  co_await sleep_op(1ms);
  EXPECT_EQ(in.buffered(), 12U);
  EXPECT_EQ(line, "first line");
}

EVERYWHERE(Reader, F9_TimedOutReadKeepsWhatCame) {
  const std::vector<std::uint16_t> numbers(400, 10079);  // late, and in small pieces
  Tape tape(numbers);
  FakeStream<Wakes::by_hints> stream("a long line in small pieces\nnext", tape);
  Reader in(stream);
  std::size_t timeouts = 0;
  for (;;) {
    try {
      auto line = co_await timeout(in.line_op(), 5us);
      if (!line) {
        ++timeouts;
        continue;
      }
      EXPECT_EQ(*line, "a long line in small pieces");
      break;
    } catch (const std::system_error&) {  // as written
    }
  }
  EXPECT_GT(timeouts, 5U);
}

/// Bytes come through one channel or another: operations with branches on several objects, in whose
/// queues nothing may be left.
class TwoChannels {
 public:
  auto read_op(Bytes into) {
    return map(race(one.recv_op(), other.recv_op()), [into](auto got) -> std::size_t {
      const std::optional<char> c = got.index() == 0 ? std::get<0>(got) : std::get<1>(got);
      if (!c) return 0;
      into[0] = static_cast<std::byte>(*c);
      return 1;
    });
  }
  Channel<char> one;
  Channel<char> other;
};

CONCURRENT(Reader, C16_StreamsOfSeveralObjects) {
  TwoChannels stream;
  Reader in(stream);
  Channel<int> third;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    const std::string_view text = "some bytes by this way, some by that\nand more\n";
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i % 5 == 0) co_await sleep_op(3us);
      if (i % 7 == 0) co_await third.send_op(1);
      co_await (i % 3 == 0 ? stream.one : stream.other).send_op(text[i]);
    }
    stream.one.close();
    third.close();
  });
  std::vector<std::string> lines;
  int interrupted = 0;
  int timed_out = 0;
  for (bool ended = false; !ended;) {
    auto won = co_await race(in.line_op(), third.recv_op(), sleep_op(2us));
    if (won.index() == 0) {
      ended = !std::get<0>(won);
      if (!ended) lines.emplace_back(*std::get<0>(won));
    } else if (won.index() == 1) {
      ++interrupted;
    } else {
      ++timed_out;
    }
  }
  EXPECT_EQ(lines, (std::vector<std::string>{"some bytes by this way, some by that", "and more"}));
  EXPECT_GE(interrupted, 7);
  EXPECT_GT(timed_out, 0);
  co_await scope.joined();
}

CONCURRENT(Reader, F9_CancelledBetweenTwoPieces) {
  TwoChannels stream;
  Reader in(stream);
  Scope scope({.on_failure = OnFailure::isolate});
  auto waiter = here.spawn(scope, [&]() -> Coro<> { co_await in.read_exactly_op(3); });
  co_await stream.one.send_op('a');
  co_await stream.other.send_op('b');
  waiter.cancel();
  EXPECT_TRUE((co_await waiter.join_op()).cancelled());
  EXPECT_EQ(in.buffered(), 2U);
  auto again = here.spawn(scope, [&]() -> Coro<std::string> {
    co_return std::string(as_text(co_await in.read_exactly_op(3)));
  });
  co_await stream.other.send_op('c');
  EXPECT_EQ((co_await again.join_op()).value(), "abc");
  co_await scope.joined();
}

EVERYWHERE(Writer, T16_WaitsOnlyIfFull) {
  Sink sink;
  Writer out(sink, {.buffer_size = 8});
  co_await out.write_op("1234");
  co_await out.write_op("5678");
  co_await out.write_op("");
  EXPECT_EQ(out.unsent(), 8U);
  EXPECT_FALSE(co_await timeout(out.write_op("9"), 1ms));
  EXPECT_EQ(out.unsent(), 8U);
  sink.budget = 3;
  co_await out.write_op("9a");
  EXPECT_EQ(sink.got, "123");
  EXPECT_FALSE(co_await timeout(out.flush_op(), 1ms));
  EXPECT_EQ(out.unsent(), 7U);
  sink.budget = 100;
  co_await out.flush_op();
  EXPECT_EQ(sink.got, "123456789a");
  EXPECT_EQ(sink.writes, 2U);
  co_await out.flush_op();
  EXPECT_EQ(sink.writes, 2U);  // nothing to do
}

EVERYWHERE(Writer, T16_LargeWritesAreNotCopiedWithoutNeed) {
  Sink sink;
  sink.budget = 30;
  Writer out(sink, {.buffer_size = 8});
  co_await out.write_op("ab");
  co_await out.write_op("a write larger than the buffer");
  EXPECT_EQ(sink.writes, 2U);
  EXPECT_EQ(out.unsent(), 2U);  // for 30 of 32 there was room
  EXPECT_FALSE(co_await timeout(out.write_op("another one that is too large"), 1ms));
  EXPECT_EQ(out.unsent(), 2U);  // all or nothing
  sink.budget = 2;
  co_await out.write_op("more than fits");
  EXPECT_EQ(out.unsent(), 14U);
  EXPECT_FALSE(co_await timeout(out.write_op("x"), 1ms));
  EXPECT_EQ(out.drop(), 14U);
  EXPECT_EQ(out.unsent(), 0U);
}

EVERYWHERE(Writer, T16_FailedWritesKeepWhatWasNotSent) {
  Sink sink;
  Writer out(sink, {.buffer_size = 8});
  co_await out.write_op("12345678");
  sink.broken = true;
  auto fails = [](auto op) -> Coro<int> {
    try {
      co_await std::move(op);
    } catch (const std::system_error& error) {
      co_return error.code().value();
    }
    co_return 0;
  };
  EXPECT_EQ(co_await fails(out.flush_op()), EPIPE);
  EXPECT_EQ(co_await fails(out.write_op("9")), EPIPE);
  EXPECT_EQ(out.unsent(), 8U);
  sink.broken = false;
  sink.budget = 100;
  co_await out.flush_op();
  EXPECT_EQ(sink.got, "12345678");
  sink.broken = true;
  EXPECT_EQ(co_await fails(out.write_op("past the buffer")), EPIPE);
  EXPECT_EQ(out.unsent(), 0U);
  sink.broken = false;
  sink.says_nothing = true;
  co_await out.write_op("x");
  EXPECT_EQ(co_await fails(out.flush_op()), EIO);  // rather than for ever again
  out.drop();
}

EVERYWHERE(Writer, T16_BytesLeftAtTheEndAreCounted) {
  const std::uint64_t before = unflushed_bytes_lost();
  Sink sink;
  {
    Writer out(sink);
    co_await out.write_op("not sent");
  }
  EXPECT_EQ(unflushed_bytes_lost() - before, 8U);
  {
    Writer out(sink);
    co_await out.write_op("not wanted");
    out.drop();
  }
  EXPECT_EQ(unflushed_bytes_lost() - before, 8U);
  EXPECT_EQ(sink.got, "");
}

TEST(Buffered, T16_OneOperationAtATime) {
  EXPECT_DEATH(block_on([]() -> Coro<> {
                 TwoChannels stream;
                 Reader in(stream);
                 co_await race(in.line_op(), in.peek_op(1));
               }),
               "one operation at a time");
  EXPECT_DEATH(block_on([]() -> Coro<> {
                 TwoChannels stream;
                 Scope scope;
                 Reader in(stream);
                 scope.spawn([&]() -> Coro<> { co_await in.line_op(); });
                 co_await sleep_op(1us);
               }),
               "destroyed while a task waits");
  EXPECT_DEATH(block_on([]() -> Coro<> {
                 Spy spy("x");
                 Reader in(spy);
                 co_await in.read_until_op("");
               }),
               "delimiter is empty");
}

}  // namespace

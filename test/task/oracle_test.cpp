// Random programs, run for real and by a model. The traces must be equal: as fibers, as coroutines,
// and each time.
#include "support/everywhere.hpp"
#include "task/oracle_model.hpp"

#include <array>
#include <optional>

#if defined(WEFT_HAVE_RAPIDCHECK)

#include <rapidcheck.h>

namespace weft::test {
namespace {

constexpr std::chrono::hours patience{1};  // then whoever is stuck is cancelled

/// A program running on a loop.
class Reality {
 public:
  Reality(const std::vector<std::size_t>& capacities, Kind kind)
      : loop_({.kernel = make_virtual_kernel(), .on_deadlock = OnDeadlock::fail}),
        here_(Engine::loop, kind, loop_) {
    for (const std::size_t c : capacities) channels_.push_back(std::make_unique<Channel<int>>(c));
  }

  Trace run(const Program& program) {
    loop_.run([&]() -> Coro<> {
      Scope root({.on_failure = OnFailure::isolate});
      root_ = &root;
      spawn(0, program, root);
      co_await sleep_op(patience);
      root.cancel(CancelReason::requested);
      co_await root.joined();
    });
    for (auto& [id, handle] : handles_) {
      const Outcome<void>& o = handle.join();
      trace_.push_back(std::to_string(id) + " ended: " + ending(o.failed(), o.reason()));
    }
    EXPECT_EQ(loop_.live(), 0U);
    EXPECT_EQ(loop_.stacks().stats().in_use, 0U);
    return std::move(trace_);
  }

 private:
  void note(int self, const std::string& text) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now() - Instant{});
    trace_.push_back(std::to_string(self) + " " + text + " @" + std::to_string(ms.count()));
  }
  void spawn(int id, const Program& program, Scope& scope) {
    auto handle = here_.spawn(scope, [this, id, &program] { return body(id, program, *root_); },
                              {.stack_size = 65536});
    handles_.emplace(id, std::move(handle).share());
  }
  Coro<> body(int self, const Program& program, Scope& scope) {
    for (const Stmt& s : program) co_await execute(self, s, scope);
  }

  Coro<> execute(int self, const Stmt& s, Scope& innermost) {
    Channel<int>* ch = channels_[static_cast<std::size_t>(s.a) % channels_.size()].get();
    switch (s.what) {
      case Do::yield:
        co_await next_turn();
        this_task()->throw_if_cancelled();
        note(self, "yield");
        break;
      case Do::sleep:
        co_await sleep_op(1ms * s.a);
        note(self, "sleep");
        break;
      case Do::send: {
        this_task()->throw_if_cancelled();
        const int value = ++sent_;
        EXPECT_TRUE(co_await ch->send_op(value));
        note(self, "send");
        break;
      }
      case Do::recv:
        note_recv(self, co_await ch->recv_op());
        break;
      case Do::recv_for:
        note_recv(self, (co_await timeout(ch->recv_op(), 1ms * s.b)).value_or(std::nullopt));
        break;
      case Do::spawn:
        note(self, "spawn " + std::to_string(s.a));
        spawn(s.a, s.body, innermost);
        break;
      case Do::cancel:
        note(self, "cancel " + std::to_string(s.a));
        if (handles_.contains(s.a)) handles_.at(s.a).cancel();
        break;
      case Do::join:
        co_await join(self, s.a);
        break;
      case Do::scope: {
        Scope nursery;
        for (const Stmt& child : s.body) spawn(child.a, child.body, nursery);
        co_await nursery.joined();
        note(self, "scope");
        break;
      }
      case Do::within:
        co_await run_within(self, s);
        break;
      case Do::fail:
        throw std::runtime_error("as written");
    }
  }
  void note_recv(int self, std::optional<int> value) {
    note(self, "recv " + (value ? std::to_string(*value) : "nothing"));
  }
  Coro<> join(int self, int id) {
    const std::string text = "join " + std::to_string(id);
    const auto found = handles_.find(id);
    if (found == handles_.end()) {
      note(self, text + " unknown");
      co_return;
    }
    const Outcome<void>& o = co_await found->second.join_op();
    note(self, text + " " + ending(o.failed(), o.reason()));
  }
  Coro<> run_within(int self, const Stmt& s) {
    const Instant deadline = s.b > 0 ? now() + 1ms * s.b : Instant::never();
    const Outcome<void> o = co_await within(
        {.deadline = deadline, .on_failure = s.policy},
        [this, self, &s](Scope& inner) -> Coro<> { return body(self, s.body, inner); });
    note(self, "within " + ending(o.failed(), o.reason()));
  }

  Loop loop_;
  Here here_;
  Scope* root_ = nullptr;
  std::vector<std::unique_ptr<Channel<int>>> channels_;
  std::map<int, Future<void>> handles_;
  int sent_ = 0;
  Trace trace_;
};

std::string text_of(const Trace& trace) {
  std::string text;
  for (const std::string& line : trace) text += line + "\n";
  return text;
}

struct Totals {
  std::size_t lines = 0;
  std::map<std::string, std::size_t> endings;
};

/// Runs it for real, leaves nothing behind, and gives what was different, if anything.
std::string difference(const Program& program, const std::vector<std::size_t>& capacities,
                       Kind kind, const Trace& expected) {
  const auto before = live_allocations();
  std::string text;
  {
    const Trace trace = Reality(capacities, kind).run(program);
    if (trace != expected) text = text_of(trace);
  }
  const bool balanced = !text.empty() || live_allocations() == before;
  RC_ASSERT(balanced);
  return text;
}

void check_program(const std::vector<std::uint16_t>& tape, Totals& totals) {
  Decoder decoder(tape);
  const Program program = decoder.program(0);
  std::vector<std::size_t> capacities;
  for (std::size_t i = 0; i < 3; ++i) capacities.push_back(i < tape.size() ? tape[i] % 3U : 0U);
  const int patience_ms = static_cast<int>(std::chrono::milliseconds(patience).count());
  Trace expected;
  for (const Kind kind : {Kind::fiber, Kind::coroutine, Kind::coroutine}) {
    // Of fibers with stacks of their own size only if there is one left over; here there is not.
    expected = Model(capacities, patience_ms, kind == Kind::coroutine).run(program);
    const std::string other = difference(program, capacities, kind, expected);
    if (other.empty()) continue;
    RC_LOG() << "expected:\n" << text_of(expected) << "but got:\n" << other;
    RC_FAIL(kind == Kind::fiber ? "as fibers" : "as coroutines");
  }
  totals.lines += expected.size();
  for (const std::string& line : expected) {
    if (const auto at = line.find("ended: "); at != std::string::npos) {
      ++totals.endings[line.substr(at + 7)];
    }
  }
}

TEST(Oracle, T1_RandomProgramsDoWhatTheModelSays) {
  const std::size_t times = scaled(2, 20, 500);  // for each of a hundred rounds
  Totals totals;
  ASSERT_TRUE(rc::check("a program does what the model says", [&] {
    for (std::size_t i = 0; i < times; ++i) {
      // Nominal size: otherwise the first rounds have only the smallest numbers.
      const auto length = *rc::gen::resize(100, rc::gen::inRange<std::size_t>(20, 300));
      const auto tape = *rc::gen::container<std::vector<std::uint16_t>>(
          length, rc::gen::resize(100, rc::gen::inRange<std::uint16_t>(0, 240)));
      check_program(tape, totals);
    }
  }));
  // The programs must be worth running: all kinds of endings, and not too few lines.
  EXPECT_GT(totals.lines, 1000 * times);
  for (const char* kind : {"value", "error", "killed", "requested", "timeout", "sibling failed"}) {
    EXPECT_GT(totals.endings[kind], 0U) << kind;
  }
  std::string summary;
  for (const auto& [kind, count] : totals.endings) {
    summary += kind + "=" + std::to_string(count) + " ";
  }
  RecordProperty("endings", summary);
}

}  // namespace
}  // namespace weft::test

#endif

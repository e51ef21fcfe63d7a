// Children run to their end, or cut short: run(), and cancellation.
#include <weft/base/rng.hpp>
#include <weft/io/process.hpp>

#include "io/children.hpp"

#include <array>
#include <stdexcept>
#include <system_error>

using namespace weft;
using namespace weft::test;

namespace {

REAL_AND_INLINE(Process, T16_Run) {
  const std::string text = pattern(1 << 20);
  Finished cat = co_await co_run(Command("cat"), text);
  EXPECT_TRUE(cat.status.ok());
  EXPECT_EQ(cat.out, text);
  EXPECT_EQ(cat.err, "");

  Finished both = co_await co_run(shell("echo out; echo err >&2; exit 4"));
  EXPECT_EQ(both.status.code, 4);
  EXPECT_EQ(both.out, "out\n");
  EXPECT_EQ(both.err, "err\n");

  Finished one = co_await co_run(shell("echo out; echo err >&2; echo out").stderr_to_stdout());
  EXPECT_EQ(one.out, "out\nerr\nout\n");
  EXPECT_EQ(one.err, "");

  // Much on both at once, in the order that fills one pipe while the other is read.
  Finished much = co_await co_run(
      shell("head -c 500000 /dev/zero >&2; head -c 500000 /dev/zero; echo end >&2"));
  EXPECT_EQ(much.out.size(), 500'000U);
  EXPECT_EQ(much.err.size(), 500'004U);

  EXPECT_EQ((co_await co_run(Command("cat"))).out, "");  // has no input, rather than ours
}

REAL_AND_INLINE(Process, T16_RunOfAProgramThatDoesNotReadItsInput) {
  const Finished finished = co_await co_run(shell("exit 2"), std::string(1 << 20, 'x'));
  EXPECT_EQ(finished.status.code, 2);
}

REAL_AND_INLINE(Process, T16_RunKeepsItsLimit) {
  bool refused = false;
  try {
    co_await co_run(Command("yes"), "", 100'000);
  } catch (const std::length_error& error) {
    refused = true;
    EXPECT_NE(std::string_view(error.what()).find("'yes' wrote more than 100000"),
              std::string_view::npos);
  }
  EXPECT_TRUE(refused);
  co_await no_children_left();
  const Finished just = co_await co_run(shell("head -c 1000 /dev/zero"), "", 1000);
  EXPECT_EQ(just.out.size(), 1000U);
}

REAL(Process, T16_FiftyAtOnce) {
  Scope scope;
  std::vector<JoinHandle<int>> all;
  for (int i = 0; i < 50; ++i) {
    all.push_back(here.spawn(scope, [i]() -> Coro<int> {
      const std::string code = std::to_string(i);
      Finished finished =
          co_await co_run(shell("read x; echo $x; exit " + code), "line " + code + "\n");
      EXPECT_EQ(finished.out, "line " + code + "\n");
      co_return finished.status.code;
    }));
  }
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ((co_await all[static_cast<std::size_t>(i)].join_op()).value(), i);
  }
  co_await scope.joined();
}

REAL(Process, F9_CancellingTheTaskKillsTheChild) {
  Scope scope;
  int pid = 0;
  auto task = here.spawn(scope, [&]() -> Coro<> {
    Process child = co_await Process::start_op(Command("sleep").arg("1000").stdin_pipe());
    pid = child.pid();
    co_await child.wait_op();
  });
  while (pid == 0) co_await sleep_op(100us);
  EXPECT_TRUE(is_running(pid));
  task.cancel();
  EXPECT_TRUE((co_await task.join_op()).cancelled());
  while (is_there(pid)) co_await sleep_op(100us);
  EXPECT_FALSE(has_children());
  co_await scope.joined();
}

REAL(Process, F9_CancelledWhileStarting) {
  for (int i = 0; i < 20; ++i) {
    Scope scope;
    auto task = here.spawn(scope, [&]() -> Coro<> {
      const Process child = co_await Process::start_op(Command("sleep").arg("1000").stdin_pipe());
    });
    co_await sleep_op(std::chrono::microseconds(i * 50));
    task.cancel();
    co_await scope.joined();
  }
  co_await no_children_left();
}

REAL(Process, F9_WaitersOfADestroyedProcess) {
  auto process =
      std::make_unique<Process>(co_await Process::start_op(Command("sleep").arg("1000")));
  Scope scope;
  auto waiter = here.spawn(scope, [&, op = process->wait_op()]() mutable -> Coro<int> {
    try {
      co_await std::move(op);
    } catch (const std::system_error& error) {
      co_return error.code().value();
    }
    co_return 0;
  });
  co_await sleep_op(100us);
  process = nullptr;
  EXPECT_EQ((co_await waiter.join_op()).value(), EBADF);
  co_await scope.joined();
  co_await no_children_left();
}

// Whatever a task does with children, it can be cancelled at any moment.
Coro<> anything_with_a_child(std::uint32_t what) {
  if (what == 0) {
    co_await co_run(Command("cat"), std::string(100'000, 'x'));
  } else if (what == 1) {
    Process child = co_await Process::start_op(Command("sleep").arg("1000").new_group());
    co_await child.wait_op();
  } else if (what == 2) {
    Process child = co_await Process::start_op(Command("cat").stdin_pipe().stdout_null());
    co_await child.in().write_op(as_bytes("x"));
    co_await child.co_terminate(1h);
  } else if (what == 3) {
    Process child = co_await Process::start_op(Command("yes").stdout_pipe());
    co_await read_all(child.out());
  } else {
    Process child = co_await Process::start_op(Command("true").stdin_null().stdout_null());
    co_await timeout(child.wait_op(), 1ms);
  }
}

REAL(Process, F9_CancelledAtAnyMomentNothingIsLeft) {
  Rng rng(11);
  const std::size_t rounds = scaled(10, 60, 250);
  for (std::size_t round = 0; round < rounds; ++round) {
    Scope scope;
    std::vector<JoinHandle<void>> tasks;
    for (int i = 0; i < 8; ++i) {
      const std::uint32_t what = rng.below(5);
      tasks.push_back(
          here.spawn(scope, [what]() -> Coro<> { return anything_with_a_child(what); }));
    }
    for (auto& task : tasks) {
      if (rng.below(2) == 0) co_await sleep_op(std::chrono::microseconds(rng.below(1500)));
      task.cancel();
    }
    co_await scope.joined();
  }
  co_await no_children_left();
}

}  // namespace

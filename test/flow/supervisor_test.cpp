#include <weft/flow/supervisor.hpp>

#include <weft/flow/task_graph.hpp>

#include "support/everywhere.hpp"

#include <mutex>

namespace weft::test {
namespace {

struct Broken : std::runtime_error {
  Broken() : std::runtime_error("broken") {}
};

/// Who was started, in order.
class Diary {
 public:
  void note(const std::string& what) {
    std::lock_guard guard(mutex_);
    text_ += what;
  }
  std::string text() {
    std::lock_guard guard(mutex_);
    return text_;
  }

 private:
  std::mutex mutex_;
  std::string text_;
};

/// Three, of which the second one fails twice; the others go on until the third time.
Coro<std::string> three_with(Restart restart) {
  Diary diary;
  std::atomic<int> attempts{0};
  Event done;
  Supervisor team({.restart = restart, .most = 5, .window = 1h});
  const auto steady = [&](const char* name) {
    return [&diary, &done, name]() -> Coro<> {
      diary.note(name);
      co_await done.wait_op();
    };
  };
  team.add("a", steady("a"));
  team.add("b", [&]() -> Coro<> {
    diary.note("b");
    co_await sleep_op(1ms);
    if (++attempts < 3) throw Broken();
    co_await sleep_op(1ms);
    done.set();
  });
  team.add("c", steady("c"));
  co_await team.co_run();
  co_return diary.text();
}

ONE_AFTER_ANOTHER(Supervisor, T22_RestartsOneTheRestOrAll) {
  EXPECT_EQ(co_await three_with(Restart::one), "abcbb");
  EXPECT_EQ(co_await three_with(Restart::rest), "abcbcbc");
  EXPECT_EQ(co_await three_with(Restart::all), "abcabcabc");
}

CONCURRENT(Supervisor, T22_GivesUpAfterTooMany) {
  std::atomic<int> starts{0};
  std::atomic<int> told{0};
  std::atomic<bool> other_stopped{false};
  struct Stopped {
    std::atomic<bool>& flag;
    ~Stopped() { flag = true; }
  };
  Supervisor team({.most = 3,
                   .window = 1s,
                   .delay = 10ms,
                   .on_failure = [&](std::string_view name, const std::exception_ptr& error) {
                     EXPECT_EQ(name, "hopeless");
                     EXPECT_EQ(describe(error), "broken");
                     ++told;
                   }});
  team.add("other", [&]() -> Coro<> {
    const Stopped on_exit{other_stopped};
    co_await sleep_op(1h);
  });
  team.add("hopeless", [&]() -> Coro<> {
    ++starts;
    throw Broken();
    co_return;
  });
  const Instant start = now();
  std::string message;
  try {
    co_await team.co_run();
  } catch (const GaveUp& e) {
    message = e.what();
    EXPECT_THROW(std::rethrow_if_nested(e), Broken);
  }
  EXPECT_EQ(message, "gave up after 3 restarts in 1000 ms; last: 'hopeless': broken");
  EXPECT_EQ(starts, 4);
  EXPECT_EQ(told, 4);
  EXPECT_EQ(team.restarts(), 3U);
  EXPECT_TRUE(other_stopped);
  EXPECT_EQ(now() - start, 10ms + 20ms + 40ms);
}

/// Failures that are far apart are accidents.
CONCURRENT(Supervisor, T22_OldFailuresAreForgotten) {
  std::atomic<int> starts{0};
  Supervisor team({.most = 1, .window = 10ms});
  team.add("now and then", [&]() -> Coro<> {
    co_await sleep_op(20ms);
    if (++starts < 10) throw Broken();
  });
  co_await team.co_run();
  EXPECT_EQ(starts, 10);
  EXPECT_EQ(team.restarts(), 9U);
}

CONCURRENT(Supervisor, T22_WhatMustNotEndIsStartedAgain) {
  std::atomic<int> starts{0};
  Supervisor team({.most = 4, .window = 1h});
  team.add(
      "server",
      [&]() -> Coro<> {
        ++starts;
        co_return;
      },
      EndsWell::never);
  bool gave_up = false;
  try {
    co_await team.co_run();
  } catch (const GaveUp&) {
    gave_up = true;
  }
  EXPECT_TRUE(gave_up);
  EXPECT_EQ(starts, 5);
}

CONCURRENT(Supervisor, S6_CancellingItStopsAll) {
  std::atomic<int> alive{0};
  struct Alive {
    std::atomic<int>& count;
    explicit Alive(std::atomic<int>& c) : count(c) { ++count; }
    ~Alive() { --count; }
  };
  Scope scope;
  auto handle = here.spawn(scope, [&]() -> Coro<> {
    Supervisor team;
    for (int i = 0; i < 5; ++i) {
      team.add("w", [&]() -> Coro<> {
        const Alive here_i_am(alive);
        co_await sleep_op(1h);
      });
    }
    co_await team.co_run();
  });
  co_await all_others_wait();
  EXPECT_EQ(alive, 5);
  handle.cancel();
  EXPECT_TRUE((co_await handle.join_op()).cancelled());
  EXPECT_EQ(alive, 0);
  co_await scope.joined();
}

TEST(Supervisor, T22_OfFibers) {
  Loop loop;
  int starts = 0;
  loop.run([&] {
    Supervisor team;
    team.add("fiber", [&] {
      sleep(1us);
      if (++starts < 3) throw Broken();
    });
    team.run();
  });
  EXPECT_EQ(starts, 3);
}

CONCURRENT(TaskGraph, T23_EachAfterThoseItWaitsFor) {
  Diary diary;
  const auto step = [&](const char* name, Duration d) {
    return [&diary, name, d]() -> Coro<> {
      co_await sleep_op(d);
      diary.note(name);
    };
  };
  const std::vector<std::string> after_bc{"b", "c"};
  const std::vector<std::string> after_a{"a"};
  TaskGraph graph;
  graph.add("d", step("d", 0ms), after_bc);
  graph.add("c", step("c", 2ms), after_a);
  graph.add("b", step("b", 1ms), after_a);
  graph.add("a", step("a", 5ms));
  co_await graph.co_run();
  EXPECT_EQ(diary.text(), "abcd");
}

TEST(TaskGraph, T23_CyclesAndUnknownNamesAreErrors) {
  const auto fails_with = [](TaskGraph& graph) -> std::string {
    try {
      graph.run();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  int ran = 0;
  const auto f = [&] { ++ran; };
  TaskGraph cycle;
  cycle.add("start", f);
  cycle.add("a", f, {"start", "c"});
  cycle.add("b", f, {"a"});
  cycle.add("c", f, {"b"});
  EXPECT_EQ(fails_with(cycle),
            "task graph: a cycle: 'a' waits for 'c' waits for 'b' waits for 'a'");
  TaskGraph unknown;
  unknown.add("a", f, {"z"});
  EXPECT_EQ(fails_with(unknown), "task graph: 'a' waits for 'z', which was not added");
  TaskGraph self;
  self.add("a", f, {"a"});
  EXPECT_EQ(fails_with(self), "task graph: a cycle: 'a' waits for 'a'");
  EXPECT_THROW(self.add("a", f), std::invalid_argument);
  EXPECT_EQ(ran, 0);
}

CONCURRENT(TaskGraph, T23_AnErrorStopsTheRest) {
  std::atomic<int> ran{0};
  const std::vector<std::string> after_bad{"bad"};
  TaskGraph graph;
  graph.add("bad", []() -> Coro<> {
    co_await sleep_op(1ms);
    throw Broken();
  });
  graph.add(
      "later",
      [&]() -> Coro<> {
        ++ran;
        co_return;
      },
      after_bad);
  bool thrown = false;
  try {
    co_await graph.co_run();
  } catch (const Broken&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(ran, 0);
}

CONCURRENT(SpawnAfter, T23_WaitsForItsDependencies) {
  Scope scope({.on_failure = OnFailure::isolate});
  const Future<int> a = async([]() -> Coro<int> {
    co_await sleep_op(2ms);
    co_return 1;
  });
  const Future<int> bad = async([]() -> Coro<int> {
    co_await sleep_op(1ms);
    throw Broken();
  });
  auto sum = spawn_after(scope, [&]() -> Coro<int> { co_return a.outcome().value() + 1; }, a);
  auto never = spawn_after(scope, []() -> Coro<int> { co_return 1; }, a, bad);
  EXPECT_EQ((co_await sum.join_op()).value(), 2);
  const auto outcome = co_await never.join_op();
  EXPECT_THROW(std::rethrow_exception(outcome.error()), DependencyFailed);
  co_await scope.joined();
}

}  // namespace
}  // namespace weft::test

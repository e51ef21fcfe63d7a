#include "support/everywhere.hpp"

#include <map>
#include <string>
#include <vector>

namespace weft::test {
namespace {

class Recorder final : public Observer {
 public:
  void on_edge(const Task& task, TaskState from, TaskState to) noexcept override {
    trace[std::string(task.name())].push_back(std::string(to_string(from)) + ">" + to_string(to));
  }
  std::map<std::string, std::vector<std::string>> trace;
};

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) text += part + " ";
  return text;
}

template <class F>
std::string edges_of(F f) {
  Recorder recorder;
  Loop loop({.kernel = make_virtual_kernel()});
  loop.observe(&recorder);
  loop.spawn(std::move(f), {.name = "it"});
  loop.spawn([] { yield(); }, {.name = "other"});  // somebody to yield to
  loop.run();
  return joined(recorder.trace["it"]);
}

constexpr const char* life =
    "created>ready ready>running running>ready ready>running "  // yields
    "running>blocked blocked>ready ready>running "              // sleeps
    "running>complete ";

TEST(State, T5_HooksSeeEveryEdgeOfAFiber) {
  EXPECT_EQ(edges_of([] {
              yield();
              sleep(1ms);
            }),
            life);
}

TEST(State, T5_HooksSeeEveryEdgeOfACoroutine) {
  EXPECT_EQ(edges_of([]() -> Coro<> {
              co_await next_turn();
              co_await sleep_op(1ms);
            }),
            life);
}

TEST(State, T5_ATaskCancelledBeforeItRunsStillHasALegalLife) {
  Recorder recorder;
  Loop loop;
  loop.observe(&recorder);
  bool ran = false;
  loop.run([&] {
    Scope scope;
    scope.cancel();
    scope.spawn([&] { ran = true; }, {.name = "it"});
    scope.spawn(
        [&]() -> Coro<> {
          ran = true;
          co_return;
        },
        {.name = "co"});
  });
  EXPECT_FALSE(ran);
  EXPECT_EQ(joined(recorder.trace["it"]), "created>ready ready>running running>complete ");
  EXPECT_EQ(joined(recorder.trace["co"]), "created>ready ready>running running>complete ");
}

TEST(StateDeathTest, T5_IllegalEdgesAreAsserted) {
  EXPECT_DEATH(block_on([] { this_task()->to_state(TaskState::created); }),
               "task 'main' \\(tid 1\\) cannot go from running to created");
}

/// Starts something urgent at the n-th time that `it` waits.
class Starter final : public Observer {
 public:
  Starter(Loop& loop, int n) : loop_(loop), n_(n) {}
  void on_edge(const Task& task, TaskState, TaskState to) noexcept override {
    if (to != TaskState::blocked || task.name() != "it" || ++seen_ != n_) return;
    loop_.spawn([this] { started = true; }, {.name = "urgent", .priority = priority::urgent});
  }
  bool started = false;

 private:
  Loop& loop_;
  const int n_;
  int seen_ = 0;
};

// An urgent task changes how a loop keeps those that are ready, here while one is about to leave.
TEST(State, T5_AHookMayStartWhatIsUrgent) {
  for (int n = 1; n <= 6; ++n) {
    Loop loop;
    Starter starter(loop, n);
    loop.observe(&starter);
    Channel<int> values;
    int received = 0;
    loop.spawn(
        [&] {
          for (int i = 0; i < 20; ++i) values.send(i);
        },
        {.name = "it"});
    loop.spawn([&] {
      for (int i = 0; i < 20; ++i) received += values.recv() ? 1 : 0;
    });
    loop.spawn([] {
      for (int i = 0; i < 200; ++i) yield();
    });
    loop.run();
    EXPECT_EQ(received, 20);
    EXPECT_TRUE(starter.started);
  }
}

TEST(State, T1_TidsAreUniqueAndRising) {
  Loop loop;
  std::vector<std::uint64_t> tids;
  loop.run([&] {
    Scope scope;
    for (int i = 0; i < 5; ++i) tids.push_back(scope.spawn([] {}).tid());
    EXPECT_EQ(this_task()->tid(), 1U);
  });
  EXPECT_EQ(tids, (std::vector<std::uint64_t>{2, 3, 4, 5, 6}));
}

TaskLocal<std::string> request;

EVERYWHERE(TaskLocals, S3_InheritedAtSpawnAndNotLeaked) {
  EXPECT_EQ(request.get(), nullptr);
  Scope scope;
  {
    Bind outer(request, "outer");
    EXPECT_EQ(*request.get(), "outer");
    here.spawn(scope, []() -> Coro<> {
      EXPECT_EQ(*request.get(), "outer");
      Bind inner(request, "inner");
      co_await sleep_op(1ms);
      EXPECT_EQ(*request.get(), "inner");
    });
    here.spawn(scope, []() -> Coro<> {
      co_await sleep_op(2ms);
      EXPECT_EQ(*request.get(), "outer") << "a sibling's binding must not show";
    });
  }
  EXPECT_EQ(request.get(), nullptr);
  here.spawn(scope, []() -> Coro<> {
    EXPECT_EQ(request.get(), nullptr);
    co_return;
  });
  co_await scope.joined();
}

}  // namespace
}  // namespace weft::test

/// Random programs on several workers, cut short by timeouts and kills at random; what every call
/// gave must have an explanation by the calls one after the other (sim/linearizable.hpp). A
/// call that timed out or was cancelled must have done nothing: it is not in the history, so if it
/// did something, nothing explains that.
#include <weft/sim/linearizable.hpp>
#include <weft/sync/channel.hpp>
#include <weft/sync/event.hpp>
#include <weft/sync/mutex.hpp>
#include <weft/sync/owned_pool.hpp>
#include <weft/sync/semaphore.hpp>

#include "support/everywhere.hpp"

#include <deque>

#if defined(WEFT_HAVE_RAPIDCHECK)

#include <rapidcheck.h>

namespace weft::test {
namespace {

using sim::linearizable;

struct Call {
  int kind = 0;
  int argument = 0;
  int result = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

constexpr int nothing = -1;
constexpr std::size_t tasks = 4;
/// For each task what it does, a number for each step.
using Program = std::vector<std::vector<int>>;

Program any_program() {
  const auto steps = rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 1000));
  return *rc::gen::container<Program>(tasks, rc::gen::resize(10, steps));
}

/// Runs a program; `step(task, number)` does one step as a coroutine. Some tasks are killed on the
/// way.
template <class Step>
void run_program(const Program& program, int kill_after, Step step) {
  Pool pool(virtual_pool(4));
  pool.run([&]() -> Coro<> {
    Scope scope;
    std::vector<JoinHandle<void>> handles;
    for (std::size_t t = 0; t < program.size(); ++t) {
      handles.push_back(scope.spawn([&, t]() -> Coro<> {
        for (const int number : program[t]) co_await step(t, number);
      }));
    }
    for (int i = 0; i < kill_after; ++i) co_await next_turn();
    handles[static_cast<std::size_t>(kill_after) % handles.size()].cancel();
    co_await scope.joined();
  });
}

/// `check(program, kill_after)` for many programs.
template <class Check>
void for_programs(const char* what, Check check) {
  const std::size_t rounds = scaled(30, 400, 5'000);
  for (std::size_t done = 0; done < rounds; done += 100) {
    ASSERT_TRUE(rc::check(what, [&] {
      const Program program = any_program();
      RC_ASSERT(check(program, *rc::gen::inRange(0, 30)));
    }));
  }
}

struct QueueModel {
  enum Kind { send, recv, try_send, try_recv, close };
  std::size_t capacity;
  std::deque<int> queue{};
  bool closed = false;

  bool apply(const Call& call) {
    switch (call.kind) {
      case send:
      case try_send:
        if (call.result == 0) return closed || (call.kind == try_send && queue.size() >= capacity);
        if (closed || queue.size() >= capacity) return false;
        queue.push_back(call.argument);
        return true;
      case recv:
      case try_recv:
        if (call.result == nothing) return queue.empty() && (closed || call.kind == try_recv);
        if (queue.empty() || queue.front() != call.result) return false;
        queue.pop_front();
        return true;
      default:
        closed = true;
        return true;
    }
  }
  [[nodiscard]] std::string key() const {
    std::string text(closed ? "c" : "o");
    for (const int value : queue) text += ' ' + std::to_string(value);
    return text;
  }
};

/// `Chan` is a Channel<int>, or something that looks like one.
template <class Chan>
bool channel_history_is_right(const Program& program, int kill_after, std::size_t capacity) {
  Chan channel(capacity);
  sim::History<Call> recorder;
  std::atomic<int> values{0};
  run_program(program, kill_after, [&](std::size_t, int number) -> Coro<> {
    Call call{.begin = recorder.tick()};
    const Duration limit = 1us * (number % 7);
    const int what = number / 7 % 20;
    if (what < 7) {
      call.kind = QueueModel::send;
      call.argument = ++values;
      const auto sent = co_await timeout(channel.send_op(call.argument), limit);
      if (!sent) co_return;
      call.result = *sent ? 1 : 0;
    } else if (what < 14) {
      call.kind = QueueModel::recv;
      const auto got = co_await timeout(channel.recv_op(), limit);
      if (!got) co_return;
      call.result = got->value_or(nothing);
    } else if (what < 16 && capacity > 0) {
      call.kind = QueueModel::try_send;
      call.argument = ++values;
      call.result = channel.try_send(call.argument) ? 1 : 0;
    } else if (what < 19 && capacity > 0) {
      call.kind = QueueModel::try_recv;
      call.result = channel.try_recv().value_or(nothing);
    } else if (number % 3 == 0) {
      call.kind = QueueModel::close;
      channel.close();
    } else {
      co_await sleep_op(limit);
      co_return;
    }
    recorder.note(call);
  });
  return linearizable(recorder.calls(), QueueModel{std::max<std::size_t>(capacity, 1)});
}

TEST(Linearizable, C17_Channels) {
  for (const std::size_t capacity : {0U, 1U, 3U}) {
    for_programs("a channel", [&](const Program& program, int kill_after) {
      return channel_history_is_right<Channel<int>>(program, kill_after, capacity);
    });
  }
}

/// The checker's own test: a channel that now and then says it is empty when it is not, and one
/// that takes a value for a receiver that has given up.
class Forgetful : public Channel<int> {
 public:
  using Channel<int>::Channel;
  std::optional<int> try_recv() {
    if (++asked_ % 3 == 0) return std::nullopt;
    return Channel<int>::try_recv();
  }

 private:
  std::atomic<int> asked_{0};
};
class Wasteful : public Channel<int> {
 public:
  using Channel<int>::Channel;
  auto recv_op() {
    return guard([this] {
      if (++asked_ % 5 == 0) Channel<int>::try_recv();  // and then it waits
      return Channel<int>::recv_op();
    });
  }

 private:
  std::atomic<int> asked_{0};
};

template <class Broken>
bool finds_a_wrong_history() {
  Rng rng(1);
  for (int round = 0; round < 2'000; ++round) {
    Program program(tasks);
    for (auto& steps : program) {
      for (int i = 0; i < 8; ++i) steps.push_back(static_cast<int>(rng.below(1'000)));
    }
    if (!channel_history_is_right<Broken>(program, 30, 3)) return true;
  }
  return false;
}
TEST(Linearizable, C17_BrokenChannelsAreFound) {
  EXPECT_TRUE(finds_a_wrong_history<Forgetful>());
  EXPECT_TRUE(finds_a_wrong_history<Wasteful>());
}

/// And one by hand: two sends one after the other, received the other way round.
TEST(Linearizable, C17_TheCheckerKnowsOrder) {
  const auto call = [](int kind, int argument, int result, std::uint64_t from, std::uint64_t to) {
    return Call{.kind = kind, .argument = argument, .result = result, .begin = from, .end = to};
  };
  using Model = QueueModel;
  const std::vector<Call> swapped{call(Model::send, 1, 1, 1, 2), call(Model::send, 2, 1, 3, 4),
                                  call(Model::recv, 0, 2, 5, 6), call(Model::recv, 0, 1, 7, 8)};
  EXPECT_FALSE(linearizable(swapped, QueueModel{4}));
  const std::vector<Call> overlapping{call(Model::send, 1, 1, 1, 4), call(Model::send, 2, 1, 2, 3),
                                      call(Model::recv, 0, 2, 5, 6), call(Model::recv, 0, 1, 7, 8)};
  EXPECT_TRUE(linearizable(overlapping, QueueModel{4}));
}

struct CountModel {
  enum Kind { acquire, release };
  int free;

  bool apply(const Call& call) {
    free += call.kind == release ? call.argument : -call.argument;
    return free >= 0;
  }
  [[nodiscard]] std::string key() const { return std::to_string(free); }
};

TEST(Linearizable, C17_Mutexes) {
  for_programs("a mutex", [&](const Program& program, int kill_after) {
    Mutex mutex;
    sim::History<Call> recorder;
    run_program(program, kill_after, [&](std::size_t, int number) -> Coro<> {
      Call call{.kind = CountModel::acquire, .argument = 1, .begin = recorder.tick()};
      auto guard = co_await timeout(mutex.lock_op(), 1us * (number % 7));
      if (!guard) co_return;
      recorder.note(call);
      if (number % 3 == 0) co_await next_turn();
      call = {.kind = CountModel::release, .argument = 1, .begin = recorder.tick()};
      guard->unlock();
      recorder.note(call);
    });
    // A killed one may have let go by its guard, unseen; then the history has no end for it.
    std::vector<Call> history = recorder.calls();
    int balance = 0;
    for (const Call& call : history) balance += call.kind == CountModel::release ? 1 : -1;
    if (mutex.locked()) return false;
    if (balance == 0) return linearizable(history, CountModel{1});
    return balance == -1;
  });
}

TEST(Linearizable, C17_Semaphores) {
  for_programs("a semaphore", [&](const Program& program, int kill_after) {
    Semaphore semaphore(3);
    sim::History<Call> recorder;
    run_program(program, kill_after, [&](std::size_t, int number) -> Coro<> {
      const int count = number % 3 + 1;
      Call call{.kind = CountModel::acquire, .argument = count, .begin = recorder.tick()};
      auto permit = co_await timeout(semaphore.acquire_op(static_cast<std::size_t>(count)),
                                     1us * (number % 7));
      if (!permit) co_return;
      recorder.note(call);
      call = {.kind = CountModel::release, .argument = count, .begin = recorder.tick()};
      permit->release();
      recorder.note(call);
    });
    return semaphore.available() == 3 && linearizable(recorder.calls(), CountModel{3});
  });
}

struct EventModel {
  enum Kind { set, reset, wait };
  bool by_one;
  bool is_set = false;

  bool apply(const Call& call) {
    if (call.kind != wait) {
      is_set = call.kind == set;
      return true;
    }
    if (!is_set) return false;
    if (by_one) is_set = false;
    return true;
  }
  [[nodiscard]] std::string key() const { return is_set ? "1" : "0"; }
};

TEST(Linearizable, C17_Events) {
  for (const bool by_one : {false, true}) {
    for_programs("an event", [&](const Program& program, int kill_after) {
      Event event(by_one ? Event::Reset::by_one : Event::Reset::by_hand);
      sim::History<Call> recorder;
      run_program(program, kill_after, [&](std::size_t, int number) -> Coro<> {
        Call call{.begin = recorder.tick()};
        if (number % 10 < 4) {
          call.kind = EventModel::set;
          event.set();
        } else if (number % 10 < 6) {
          call.kind = EventModel::reset;
          event.reset();
        } else {
          call.kind = EventModel::wait;
          if (!co_await timeout(event.wait_op(), 1us * (number % 7))) co_return;
        }
        recorder.note(call);
      });
      return linearizable(recorder.calls(), EventModel{by_one});
    });
  }
}

struct LoanModel {
  enum Kind { acquire, give_back };
  std::size_t most;
  std::set<int> out{};

  bool apply(const Call& call) {
    if (call.kind == give_back) return out.erase(call.argument) == 1;
    return out.size() < most && out.insert(call.result).second;
  }
  [[nodiscard]] std::string key() const {
    std::string text;
    for (const int thing : out) text += ' ' + std::to_string(thing);
    return text;
  }
};

TEST(Linearizable, C18_OwnedPools) {
  for_programs("an owned pool", [&](const Program& program, int kill_after) {
    std::atomic<int> made{0};
    OwnedPool<int> pool({.create = [&] { return ++made; }, .most = 2});
    sim::History<Call> recorder;
    run_program(program, kill_after, [&](std::size_t, int number) -> Coro<> {
      Call call{.kind = LoanModel::acquire, .begin = recorder.tick()};
      auto lent = co_await timeout(pool.acquire_op(), 1us * (number % 7));
      if (!lent) co_return;
      const int thing = **lent;
      call.result = thing;
      recorder.note(call);
      call = {.kind = LoanModel::give_back, .argument = thing, .begin = recorder.tick()};
      if (number % 5 == 0) {
        lent->discard();
      } else {
        lent->give_back();
      }
      recorder.note(call);
    });
    return pool.stats().out == 0 && linearizable(recorder.calls(), LoanModel{2});
  });
}

}  // namespace
}  // namespace weft::test

#endif

/// What is cancelled in cancel_points_test.cpp: small programs, each about one way of waiting, that
/// keep count of what must hold whenever they are cut short.
#pragma once

#include "support/everywhere.hpp"

#include <map>
#include <memory>
#include <stdexcept>

namespace weft::test {

/// What a scenario reports about itself.
struct Env {
  Env(Here& h, std::uint64_t seed, Duration tick) : here(h), rng(seed), unit(tick) {}

  /// A random short time, the same in each run with the same seed.
  [[nodiscard]] Duration some() { return unit * (1 + rng.below(3)); }
  /// Called after each suspension that a cancelled task must not survive.
  void passed() {
    if (cancelled) ++passes[this_task()->tid()];
  }

  Here& here;
  Rng rng;
  Duration unit;
  bool cancelled = false;
  bool exact = true;  // on a virtual clock, and `cancelled` is known
  std::map<std::uint64_t, int> passes;
  int alive = 0;  // Trackers
  int sent = 0;
  int received = 0;
  int entered = 0;  // clean-up that must be done if it was begun
  int cleaned = 0;
};

/// Something with a destructor, on the stack or in the frame of a task.
class Tracker {
 public:
  explicit Tracker(Env& env) : env_(env), memory_(new int(1)) { ++env_.alive; }
  Tracker(const Tracker&) = delete;
  Tracker& operator=(const Tracker&) = delete;
  ~Tracker() { --env_.alive; }

 private:
  Env& env_;
  std::unique_ptr<int> memory_;
};

/// A channel whose left-overs count as received.
class Counted : public Channel<int> {
 public:
  Counted(Env& env, std::size_t capacity) : Channel<int>(capacity), env_(env) {}
  ~Counted() { env_.received += static_cast<int>(size()); }

 private:
  Env& env_;
};

inline Coro<> sleep_chain(Env& env) {
  Tracker t(env);
  for (int i = 0; i < 4; ++i) {
    co_await sleep_op(env.some());
    env.passed();
    Tracker inner(env);
    co_await next_turn();
  }
}

inline Coro<> ping_pong(Env& env) {
  Tracker t(env);
  Counted there(env, env.rng.below(2));
  Counted back(env, 0);
  auto all = co_await within({}, [&](Scope& scope) -> Coro<> {
    env.here.spawn(scope, [&]() -> Coro<> {
      Tracker partner(env);
      while (auto got = co_await there.recv_op()) {
        ++env.received;
        env.passed();
        env.sent += (co_await back.send_op(*got)) ? 1 : 0;
        env.passed();
      }
    });
    for (int i = 0; i < 3; ++i) {
      env.sent += (co_await there.send_op(i)) ? 1 : 0;
      env.passed();
      env.received += (co_await back.recv_op()) ? 1 : 0;
      env.passed();
    }
    there.close();
  });
  EXPECT_TRUE(all.ok());
}

inline Coro<> nested_scopes(Env& env) {
  Tracker t(env);
  Scope outer;
  for (int i = 0; i < 2; ++i) {
    env.here.spawn(outer, [&]() -> Coro<> {
      Tracker child(env);
      Scope inner;
      for (int k = 0; k < 2; ++k) {
        env.here.spawn(inner, [&]() -> Coro<> {
          Tracker grandchild(env);
          co_await sleep_op(env.some());
          env.passed();
        });
      }
      co_await inner.joined();
      env.passed();
    });
  }
  co_await outer.joined();
  env.passed();
}

inline Coro<> within_children(Env& env) {
  Tracker t(env);
  const auto late = co_await within({.deadline = now() + env.unit * 4}, [&](Scope& s) -> Coro<int> {
    Tracker body(env);
    auto h = env.here.spawn(s, [&]() -> Coro<int> {
      Tracker child(env);
      co_await sleep_op(env.some());
      env.passed();
      co_return 1;
    });
    const int got = co_await [&]() -> Coro<int> { co_return (co_await h.join_op()).value(); }();
    env.passed();
    co_await sleep_op(env.unit * 100);
    env.passed();
    co_return got;
  });
  EXPECT_EQ(late.reason(), CancelReason::timeout);
  EXPECT_FALSE(env.exact && env.cancelled)
      << "a cancellation from outside must pass through within()";
  const auto failed = co_await within({}, [&](Scope& s) -> Coro<int> {
    env.here.spawn(s, [&]() -> Coro<> {
      co_await sleep_op(env.some());
      throw std::runtime_error("child");
    });
    co_await sleep_op(env.unit * 100);
    co_return 1;
  });
  EXPECT_TRUE(failed.failed());
}

inline Coro<> join_a_task(Env& env) {
  Tracker t(env);
  const auto all = co_await within({}, [&](Scope& s) -> Coro<> {
    auto h = env.here.spawn(s, [&]() -> Coro<std::unique_ptr<int>> {
      Tracker child(env);
      co_await sleep_op(env.unit * 3);
      co_return std::make_unique<int>(4);
    });
    const auto shared = std::move(h).share();
    const auto early = co_await timeout(shared.join_op(), env.unit);
    env.passed();
    EXPECT_FALSE(env.exact && early.has_value());
    const Outcome<std::unique_ptr<int>>& o = co_await shared.join_op();
    env.passed();
    EXPECT_TRUE(o.ok() || env.cancelled);
  });
  EXPECT_TRUE(all.ok());
}

inline Coro<> select_three(Env& env) {
  Tracker t(env);
  Counted a(env, 0);
  Counted b(env, 1);
  const auto all = co_await within({}, [&](Scope& s) -> Coro<> {
    env.here.spawn(s, [&]() -> Coro<> {
      for (int i = 0; i < 2; ++i) {
        co_await sleep_op(env.some());
        env.passed();
        env.sent += (co_await a.send_op(1)) ? 1 : 0;
        env.sent += (co_await b.send_op(2)) ? 1 : 0;
      }
      a.close();
    });
    for (bool open = true; open;) {
      const auto r = co_await race(a.recv_op(), b.recv_op(), sleep_op(env.unit));
      env.passed();
      if (r.index() == 0) {
        open = std::get<0>(r).has_value();
        env.received += open ? 1 : 0;
      } else if (r.index() == 1) {
        ++env.received;
      }
    }
  });
  EXPECT_TRUE(all.ok());
}

inline Coro<> shielded_cleanup(Env& env) {
  Tracker t(env);
  CancelReason reason = CancelReason::none;
  ++env.entered;
  try {
    co_await sleep_op(env.unit * 3);
    env.passed();
  } catch (const Cancelled& c) {
    reason = c.reason();
  }
  {
    Shield shield;
    Tracker under(env);
    co_await sleep_op(env.unit);
    co_await next_turn();
    co_await sleep_op(env.unit);
    ++env.cleaned;
  }
  if (reason != CancelReason::none) throw Cancelled(reason);
  co_await next_turn();
  co_await sleep_op(env.unit);
  env.passed();
}

// Only a fiber can wait in a handler. As a coroutine it does so in a child.
inline Coro<> wait_in_a_handler(Env& env) {
  const auto all = co_await within({}, [&](Scope& s) -> Coro<> {
    s.spawn([&] {
      Tracker t(env);
      ++env.entered;
      try {
        sleep(env.unit * 2);
        env.passed();
        throw std::runtime_error("ours");
      } catch (...) {
        Shield shield;
        sleep(env.unit);
        yield();
        ++env.cleaned;
        try {
          throw;
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "ours");
        }
      }
    });
    co_return;
  });
  EXPECT_TRUE(all.ok());
}

inline Coro<int> deep(Env& env, int depth) {
  Tracker t(env);
  if (depth == 0) {
    co_await sleep_op(env.some());
    env.passed();
    co_return 1;
  }
  const int below = co_await deep(env, depth - 1);
  co_await sleep_op(env.unit);
  env.passed();
  co_return below + 1;
}
inline Coro<> five_deep(Env& env) {
  EXPECT_EQ(co_await deep(env, 5), 6);
}

inline Coro<> timeouts(Env& env) {
  Tracker t(env);
  const auto nested = co_await timeout(timeout(never<int>(), env.unit * 2), env.unit);
  EXPECT_FALSE(env.exact && nested.has_value());
  env.passed();
  const auto o = co_await timeout(env.unit * 3, [&]() -> Coro<int> {
    Tracker outer(env);
    const auto inner = co_await timeout(env.unit, [&]() -> Coro<int> {
      Tracker body(env);
      co_await sleep_op(env.unit * 50);
      env.passed();
      co_return 1;
    });
    EXPECT_EQ(inner.reason(), CancelReason::timeout);
    co_await sleep_op(env.unit * 50);
    env.passed();
    co_return 2;
  });
  EXPECT_EQ(o.reason(), CancelReason::timeout);
  EXPECT_FALSE(env.exact && env.cancelled);
}

inline Coro<> parker(Env& env) {
  Tracker t(env);
  Parker bell;
  const auto all = co_await within({}, [&](Scope& s) -> Coro<> {
    env.here.spawn(s, [&]() -> Coro<> {
      for (int i = 0; i < 3; ++i) {
        co_await sleep_op(env.some());
        env.passed();
        bell.unpark();
      }
    });
    for (int i = 0; i < 3; ++i) {
      co_await bell.park_op([] { return true; });
      env.passed();
    }
  });
  EXPECT_TRUE(all.ok());
  bell.unpark();
  EXPECT_FALSE(co_await bell.park_op([] { return true; }));
}

// A fiber calls a coroutine that waits for a fiber that calls a coroutine.
inline Coro<> both_kinds(Env& env) {
  Tracker t(env);
  const auto all = co_await within({}, [&](Scope& s) -> Coro<> {
    auto h = s.spawn([&] {
      Tracker fiber(env);
      Scope own;
      auto c = own.spawn([&]() -> Coro<int> {
        Tracker coroutine(env);
        co_await sleep_op(env.some());
        env.passed();
        co_return 1;
      });
      const int below = await(deep(env, 1));
      env.passed();
      own.join();
      return below + c.get();
    });
    const auto o = co_await h.join_op();
    env.passed();
    EXPECT_TRUE(o.cancelled() ? env.cancelled : o.value() == 3);
  });
  EXPECT_TRUE(all.ok());
}

struct Scenario {
  const char* name;
  Coro<> (*body)(Env&);
};
inline constexpr Scenario scenarios[] = {
    {"sleep_chain", sleep_chain},
    {"ping_pong", ping_pong},
    {"nested_scopes", nested_scopes},
    {"within_children", within_children},
    {"join_a_task", join_a_task},
    {"select_three", select_three},
    {"shielded_cleanup", shielded_cleanup},
    {"wait_in_a_handler", wait_in_a_handler},
    {"five_deep", five_deep},
    {"timeouts", timeouts},
    {"parker", parker},
    {"both_kinds", both_kinds},
};

}  // namespace weft::test

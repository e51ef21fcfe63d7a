/// Small concurrent programs with a well-known mistake, each with a version that does not have it.
/// After the descriptions in the literature on schedule search (SCTBench and its sources).
#pragma once

#include <weft/sim/sim.hpp>
#include <weft/sync/atomic.hpp>
#include <weft/weft.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace weft::test {

struct Classic {
  const char* name;
  void (*wrong)();
  void (*right)();
};

namespace classics {

using sim::check;

/// Two deposits, each of which reads and then writes.
template <bool right>
void account() {
  atomic<int> balance{0};
  Mutex mutex;
  Scope scope;
  for (int i = 0; i < 2; ++i) {
    scope.spawn([&] {
      Mutex::Guard guard;
      if (right) guard = mutex.lock();
      balance.store(balance.load() + 50);
    });
  }
  scope.join();
  check(balance.load() == 100, "a deposit is lost");
}

/// A driver that is being stopped while a request comes in: the request looks whether it is being
/// stopped, and only then counts itself.
template <bool right>
void bluetooth() {
  atomic<int> pending{1};
  atomic<bool> stopping{false};
  atomic<bool> stopped{false};
  Event quiet;
  const auto leave = [&] {
    if (pending.fetch_sub(1) == 1) quiet.set();
  };
  const auto enter = [&] {
    if (right) {
      pending.fetch_add(1);
      if (!stopping.load()) return true;
      leave();
      return false;
    }
    if (stopping.load()) return false;
    pending.fetch_add(1);
    return true;
  };
  Scope scope;
  scope.spawn(
      [&] {
        stopping.store(true);
        leave();
        quiet.wait();
        stopped.store(true);
      },
      {.name = "stop"});
  scope.spawn(
      [&] {
        if (!enter()) return;
        check(!stopped.load(), "a request is served by a driver that was stopped");
        leave();
      },
      {.name = "request"});
  scope.join();
}

/// Two values that belong together, each under a lock of its own.
template <bool right>
void two_stage() {
  Mutex first;
  Mutex second;
  Mutex both;
  atomic<int> a{0};
  atomic<int> b{0};
  Scope scope;
  scope.spawn([&] {
    Mutex::Guard all;
    if (right) all = both.lock();
    {
      const auto guard = first.lock();
      a.store(1);
    }
    const auto guard = second.lock();
    b.store(a.load() + 1);
  });
  scope.spawn([&] {
    Mutex::Guard all;
    if (right) all = both.lock();
    int seen = 0;
    {
      const auto guard = first.lock();
      if (a.load() == 0) return;
      seen = a.load();
    }
    const auto guard = second.lock();
    check(b.load() == seen + 1, "the second value does not belong to the first");
  });
  scope.join();
}

/// Everybody locks, but not the same.
template <bool right>
void wrong_lock() {
  Mutex one;
  Mutex another;
  atomic<int> data{0};
  Scope scope;
  scope.spawn([&] {
    const auto guard = one.lock();
    const int before = data.load();
    data.store(before + 1);
    check(data.load() == before + 1, "somebody else has changed it");
  });
  for (int i = 0; i < 3; ++i) {
    scope.spawn([&] {
      const auto guard = (right ? one : another).lock();
      data.store(data.load() + 10);
    });
  }
  scope.join();
}

/// Many set one value and then the other; one looks at both.
template <bool right, int tasks>
void reorder() {
  atomic<int> a{0};
  atomic<int> b{0};
  Mutex mutex;
  Scope scope;
  for (int i = 0; i + 1 < tasks; ++i) {
    scope.spawn([&] {
      Mutex::Guard guard;
      if (right) guard = mutex.lock();
      a.store(1);
      b.store(-1);
    });
  }
  scope.spawn(
      [&] {
        Mutex::Guard guard;
        if (right) guard = mutex.lock();
        const int seen_a = a.load();
        const int seen_b = b.load();
        check((seen_a == 0 && seen_b == 0) || (seen_a == 1 && seen_b == -1),
              "one is set and the other is not");
      },
      {.name = "look"});
  scope.join();
}

/// Made when it is first needed; two need it at once.
template <bool right>
void lazy_init() {
  atomic<int> made{0};
  atomic<bool> there{false};
  Mutex mutex;
  const auto get = [&] {
    if (!there.load()) {
      Mutex::Guard guard;
      if (right) guard = mutex.lock();
      if (right && there.load()) return;
      made.fetch_add(1);
      there.store(true);
    }
  };
  Scope scope;
  for (int i = 0; i < 3; ++i) scope.spawn(get);
  scope.join();
  check(made.load() == 1, "it was made more than once");
}

/// A ring whose count is looked at, and changed later.
template <bool right>
void circular_buffer() {
  constexpr int size = 2;
  std::array<atomic<int>, size> slots{};
  atomic<int> first{0};
  atomic<int> count{0};
  Mutex mutex;
  const auto put = [&](int value) {
    Mutex::Guard guard;
    if (right) guard = mutex.lock();
    const int n = count.load();
    if (n == size) return false;
    slots[static_cast<std::size_t>((first.load() + n) % size)].store(value);
    count.store(n + 1);
    return true;
  };
  const auto take = [&]() -> int {
    Mutex::Guard guard;
    if (right) guard = mutex.lock();
    const int n = count.load();
    if (n == 0) return 0;
    const int at = first.load();
    const int value = slots[static_cast<std::size_t>(at)].load();
    first.store((at + 1) % size);
    count.store(n - 1);
    return value;
  };
  int sent = 0;
  int received = 0;
  Scope scope;
  scope.spawn(
      [&] {
        for (int i = 1; i <= 3; ++i) {
          if (put(i)) sent += i;
        }
      },
      {.name = "sender"});
  scope.spawn(
      [&] {
        for (int i = 0; i < 3; ++i) received += take();
      },
      {.name = "receiver"});
  scope.join();
  while (const int value = take()) received += value;
  check(sent == received, "what was received is not what was sent");
}

/// A stack whose top is compared by address alone: it may be another element in the same place.
/// Elements are numbers here; `version` counts pops.
template <bool right>
void aba_stack() {
  constexpr int none = 0;
  struct State {
    atomic<std::uint64_t> top{0};  // element, and above it the version
    std::array<atomic<int>, 4> next{};
    std::array<atomic<int>, 4> holders{};
  } s;
  const auto element = [](std::uint64_t word) { return static_cast<int>(word & 0xff); };
  const auto word = [](int e, std::uint64_t version) {
    return static_cast<std::uint64_t>(e) | (right ? version << 8 : 0);
  };
  const auto version = [](std::uint64_t w) { return w >> 8; };
  const auto push = [&](int e) {
    s.holders[static_cast<std::size_t>(e)].fetch_sub(1);
    std::uint64_t top = s.top.load();
    do {
      s.next[static_cast<std::size_t>(e)].store(element(top));
    } while (!s.top.compare_exchange_strong(top, word(e, version(top) + 1)));
  };
  const auto pop = [&]() -> int {
    std::uint64_t top = s.top.load();
    for (;;) {
      const int e = element(top);
      if (e == none) return none;
      const int below = s.next[static_cast<std::size_t>(e)].load();
      if (s.top.compare_exchange_strong(top, word(below, version(top) + 1))) {
        check(s.holders[static_cast<std::size_t>(e)].fetch_add(1) == 0, "two hold one element");
        return e;
      }
    }
  };
  for (int e = 1; e <= 3; ++e) {
    s.holders[static_cast<std::size_t>(e)].store(1);
    push(e);
  }
  Scope scope;
  scope.spawn([&] { static_cast<void>(pop()); }, {.name = "pop"});
  scope.spawn(
      [&] {
        const int a = pop();
        const int b = pop();
        if (a != none) push(a);
        static_cast<void>(b);
        static_cast<void>(pop());
      },
      {.name = "pop, push"});
  scope.join();
  static_cast<void>(pop());
  static_cast<void>(pop());
}

/// The owner takes from one end, a thief from the other; with one element left they meet.
template <bool right>
void work_stealing() {
  atomic<int> head{0};
  atomic<int> tail{0};
  std::array<atomic<int>, 4> taken{};
  Mutex mutex;
  const auto take_it = [&](int i) {
    check(taken[static_cast<std::size_t>(i)].fetch_add(1) == 0, "one element is taken twice");
  };
  for (int i = 0; i < 2; ++i) tail.fetch_add(1);
  Scope scope;
  scope.spawn(
      [&] {
        for (int i = 0; i < 2; ++i) {
          const int t = tail.load() - 1;
          // First it says what it wants, then it looks whether somebody else does. (Wrong: first it
          // looks.)
          if (right) tail.store(t);
          const int h = head.load();
          if (!right) tail.store(t);
          if (h <= t) {
            take_it(t);
            continue;
          }
          tail.store(t + 1);
          const auto guard = mutex.lock();
          const int again = head.load();
          if (again >= tail.load()) continue;
          tail.store(tail.load() - 1);
          take_it(tail.load());
        }
      },
      {.name = "owner"});
  scope.spawn(
      [&] {
        const auto guard = mutex.lock();
        const int h = head.load();
        head.store(h + 1);
        if (h < tail.load()) {
          take_it(h);
        } else {
          head.store(h);
        }
      },
      {.name = "thief"});
  scope.join();
}

/// Everybody takes the left fork first.
template <bool right>
void philosophers() {
  constexpr std::size_t n = 3;
  std::array<Mutex, n> forks;
  Scope scope;
  for (std::size_t i = 0; i < n; ++i) {
    scope.spawn([&, i] {
      std::size_t first = i;
      std::size_t second = (i + 1) % n;
      if (right && first > second) std::swap(first, second);
      const auto a = forks[first].lock();
      const auto b = forks[second].lock();
    });
  }
  scope.join();
}

/// Each passes on what its neighbour has; nobody waits for the neighbour.
template <bool right>
void token_ring() {
  atomic<int> x1{1};
  atomic<int> x2{2};
  atomic<int> x3{3};
  Mutex mutex;
  std::array<Event, 3> turns;
  const auto step = [&](std::size_t i, auto f) {
    return [&, i, f] {
      if (right && i > 0) turns[i - 1].wait();
      {
        const auto guard = mutex.lock();
        f();
      }
      if (i < turns.size()) turns[i].set();
    };
  };
  Scope scope;
  scope.spawn(step(0, [&] { x1.store((x3.load() + 1) % 4); }));
  scope.spawn(step(1, [&] { x2.store(x1.load()); }));
  scope.spawn(step(2, [&] { x3.store(x2.load()); }));
  scope.spawn(step(3, [&] {
    if (!right && (x1.load() != 0 || x2.load() != 0)) return;
    check(x1.load() == x2.load() && x2.load() == x3.load(), "the token is lost");
  }));
  scope.join();
}

/// One asks another for its length, and then for so many characters; meanwhile it got shorter.
template <bool right>
void string_buffer() {
  class Buffer {
   public:
    explicit Buffer(std::string text) : text_(std::move(text)) {}
    std::size_t length() {
      const auto guard = mutex.lock();
      return text_.size();
    }
    std::string first(std::size_t n) {
      const auto guard = mutex.lock();
      return first_locked(n);
    }
    std::string first_locked(std::size_t n) {
      check(n <= text_.size(), "more characters are asked for than there are");
      return text_.substr(0, n);
    }
    std::string all() {
      const auto guard = mutex.lock();
      return first_locked(text_.size());
    }
    void erase() {
      const auto guard = mutex.lock();
      text_.clear();
    }
    Mutex mutex;

   private:
    std::string text_;
  };
  Buffer other("abc");
  Scope scope;
  scope.spawn([&] { other.erase(); }, {.name = "erase"});
  scope.spawn(
      [&] {
        const std::string got = right ? other.all() : other.first(other.length());
        check(got.empty() || got == "abc", "half a text");
      },
      {.name = "append"});
  scope.join();
}

}  // namespace classics

#define WEFT_CLASSIC(name) {#name, &classics::name<false>, &classics::name<true>}
inline constexpr Classic all_classics[] = {
    WEFT_CLASSIC(account),
    WEFT_CLASSIC(bluetooth),
    WEFT_CLASSIC(two_stage),
    WEFT_CLASSIC(wrong_lock),
    {"reorder_3", &classics::reorder<false, 3>, &classics::reorder<true, 3>},
    {"reorder_10", &classics::reorder<false, 10>, &classics::reorder<true, 10>},
    {"reorder_20", &classics::reorder<false, 20>, &classics::reorder<true, 20>},
    WEFT_CLASSIC(lazy_init),
    WEFT_CLASSIC(circular_buffer),
    WEFT_CLASSIC(aba_stack),
    WEFT_CLASSIC(work_stealing),
    WEFT_CLASSIC(philosophers),
    WEFT_CLASSIC(token_ring),
    WEFT_CLASSIC(string_buffer),
};
#undef WEFT_CLASSIC

}  // namespace weft::test

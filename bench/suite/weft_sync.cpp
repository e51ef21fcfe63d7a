// Meeting points: channels, mutexes, select.
#include "suite/weft_suite.hpp"

#include <array>

namespace weft::bench {

namespace {

using suite::Clock;
using suite::per;
using suite::Result;

/// A value there and back. `apart`: each end on a worker and a processor of its own; the figure is
/// in us then.
template <bool apart, class F>
Result pingpong_on(const Run& run, F body) {
  if constexpr (apart) return on_pool(run, std::move(body), 0, true);
  return on_workers(run, std::move(body));
}
template <bool apart>
Result pingpong_fiber(const Run& run) {
  return pingpong_on<apart>(run, [&] {
    Channel<std::size_t> ping;
    Channel<std::size_t> pong;
    Scope scope;
    scope.spawn(
        [&] {
          while (auto got = ping.recv()) pong.send(*got);
        },
        {.worker = apart ? std::uint16_t{2} : std::uint16_t{0}});
    auto client = scope.spawn(
        [&] {
          const auto start = Clock::now();
          for (std::size_t i = 0; i < run.size; ++i) {
            ping.send(i);
            pong.recv();
          }
          const double ns = per(start, run.size);
          ping.close();
          return ns;
        },
        {.worker = apart ? std::uint16_t{1} : std::uint16_t{0}});
    return client.get() / (apart ? 1e3 : 1);
  });
}
template <bool apart>
Result pingpong_coro(const Run& run) {
  return pingpong_on<apart>(run, [&]() -> Coro<double> {
    Channel<std::size_t> ping;
    Channel<std::size_t> pong;
    Scope scope;
    scope.spawn(
        [&]() -> Coro<> {
          while (auto got = co_await ping.recv_op()) co_await pong.send_op(*got);
        },
        {.worker = apart ? std::uint16_t{2} : std::uint16_t{0}});
    auto client = scope.spawn(
        [&]() -> Coro<double> {
          const auto start = Clock::now();
          for (std::size_t i = 0; i < run.size; ++i) {
            co_await ping.send_op(i);
            co_await pong.recv_op();
          }
          const double ns = per(start, run.size);
          ping.close();
          co_return ns;
        },
        {.worker = apart ? std::uint16_t{1} : std::uint16_t{0}});
    const Outcome<double> ns = co_await client.join_op();
    co_await scope.joined();
    co_return ns.value() / (apart ? 1e3 : 1);
  });
}

/// From so many senders to as many receivers; per value.
template <std::size_t ends>
Result queue_fiber(const Run& run) {
  return on_workers(run, [&] {
    Channel<std::size_t> values(128);
    Latch senders(ends);
    const auto start = Clock::now();
    Scope scope;
    for (std::size_t i = 0; i < ends; ++i) {
      scope.spawn([&] {
        for (std::size_t k = 0; k < run.size / ends; ++k) values.send(k);
        senders.count_down();
      });
      scope.spawn([&] {
        while (values.recv()) {
        }
      });
    }
    senders.wait();
    values.close();
    scope.join();
    return per(start, run.size);
  });
}
template <std::size_t ends>
Result queue_coro(const Run& run) {
  return on_workers(run, [&]() -> Coro<double> {
    Channel<std::size_t> values(128);
    Latch senders(ends);
    const auto start = Clock::now();
    Scope scope;
    for (std::size_t i = 0; i < ends; ++i) {
      scope.spawn([&]() -> Coro<> {
        for (std::size_t k = 0; k < run.size / ends; ++k) co_await values.send_op(k);
        senders.count_down();
      });
      scope.spawn([&]() -> Coro<> {
        while (co_await values.recv_op()) {
        }
      });
    }
    co_await senders.wait_op();
    values.close();
    co_await scope.joined();
    co_return per(start, run.size);
  });
}

constexpr std::size_t lockers = 8;

/// Lock, count, unlock. `across`: yields while it holds the lock.
template <bool across>
Result mutex_fiber(const Run& run) {
  return on_workers(run, [&] {
    Mutex mutex;
    std::size_t count = 0;
    const auto start = Clock::now();
    Scope scope;
    for (std::size_t i = 0; i < lockers; ++i) {
      scope.spawn([&] {
        for (std::size_t k = 0; k < run.size / lockers; ++k) {
          const auto guard = mutex.lock();
          ++count;
          if (across) yield();
        }
      });
    }
    scope.join();
    suite::expect(count == run.size / lockers * lockers, "an update is lost");
    return per(start, run.size);
  });
}
template <bool across>
Result mutex_coro(const Run& run) {
  return on_workers(run, [&]() -> Coro<double> {
    Mutex mutex;
    std::size_t count = 0;
    const auto start = Clock::now();
    Scope scope;
    for (std::size_t i = 0; i < lockers; ++i) {
      scope.spawn([&]() -> Coro<> {
        for (std::size_t k = 0; k < run.size / lockers; ++k) {
          const auto guard = co_await mutex.lock_op();
          ++count;
          if (across) co_await next_turn();
        }
      });
    }
    co_await scope.joined();
    suite::expect(count == run.size / lockers * lockers, "an update is lost");
    co_return per(start, run.size);
  });
}

constexpr std::size_t sources = 8;
using Sources = std::array<Channel<std::size_t>, sources>;

auto first_of(Sources& channels) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return race(channels[I].recv_op()...);
  }(std::make_index_sequence<sources>{});
}

/// The first value of eight channels without buffer, which one sender feeds in turn.
Result select_fiber(const Run& run) {
  return on_workers(run, [&] {
    Sources channels;
    Scope scope;
    scope.spawn([&] {
      for (std::size_t i = 0; i < run.size; ++i) channels[i % sources].send(i);
    });
    const auto start = Clock::now();
    for (std::size_t i = 0; i < run.size; ++i) perform(first_of(channels));
    return per(start, run.size);
  });
}
Result select_coro(const Run& run) {
  return on_workers(run, [&]() -> Coro<double> {
    Sources channels;
    Scope scope;
    scope.spawn([&]() -> Coro<> {
      for (std::size_t i = 0; i < run.size; ++i) co_await channels[i % sources].send_op(i);
    });
    const auto start = Clock::now();
    for (std::size_t i = 0; i < run.size; ++i) co_await first_of(channels);
    const double ns = per(start, run.size);
    co_await scope.joined();
    co_return ns;
  });
}

constexpr std::array benchmarks{
    Benchmark{"chan_pingpong", "ns", 500'000, &pingpong_fiber<false>},
    Benchmark{"chan_pingpong_coro", "ns", 500'000, &pingpong_coro<false>},
    Benchmark{"chan_pingpong_cross", "us", 20'000, &pingpong_fiber<true>},
    Benchmark{"chan_pingpong_cross_coro", "us", 20'000, &pingpong_coro<true>},
    Benchmark{"chan_spsc_128", "ns/value", 5'000'000, &queue_fiber<1>},
    Benchmark{"chan_spsc_128_coro", "ns/value", 2'000'000, &queue_coro<1>},
    Benchmark{"chan_mpmc_4x4", "ns/value", 5'000'000, &queue_fiber<4>},
    Benchmark{"chan_mpmc_4x4_coro", "ns/value", 3'000'000, &queue_coro<4>},
    Benchmark{"mutex_8", "ns", 10'000'000, &mutex_fiber<false>},
    Benchmark{"mutex_8_coro", "ns", 10'000'000, &mutex_coro<false>},
    Benchmark{"mutex_yield_8", "ns", 1'000'000, &mutex_fiber<true>},
    Benchmark{"mutex_yield_8_coro", "ns", 1'000'000, &mutex_coro<true>},
    Benchmark{"select_8", "ns", 500'000, &select_fiber},
    Benchmark{"select_8_coro", "ns", 500'000, &select_coro},
};

}  // namespace

std::span<const Benchmark> sync_benchmarks() {
  return benchmarks;
}

}  // namespace weft::bench

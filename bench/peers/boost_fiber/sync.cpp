// Meeting points: channels, mutexes, and waking a worker that sleeps. There is no select.
#include "boost_fiber/fibers.hpp"

#include <array>
#include <mutex>

namespace fibers {

namespace {

using namespace suite;
using Rendezvous = bf::unbuffered_channel<std::size_t>;

void answer(Rendezvous& ping, Rendezvous& pong) {
  std::size_t value = 0;
  while (ping.pop(value) == bf::channel_op_status::success) pong.push(value);
}
double ask(Rendezvous& ping, Rendezvous& pong, std::size_t count) {
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    ping.push(i);
    std::size_t back = 0;
    pong.pop(back);
  }
  const double ns = per(begin, count);
  ping.close();
  return ns;
}

Result pingpong(const Run& run) {
  return on_workers(run, [&] {
    Rendezvous ping;
    Rendezvous pong;
    double ns = 0;
    bf::fiber other = start([&] { answer(ping, pong); });
    bf::fiber client = start([&] { ns = ask(ping, pong, run.size); });
    client.join();
    other.join();
    return ns;
  });
}

/// Two threads, each with a scheduler and a processor of its own.
Result pingpong_cross(const Run& run) {
  Rendezvous ping;
  Rendezvous pong;
  std::thread other([&] {
    pin_this_thread(1);
    answer(ping, pong);
  });
  pin_this_thread(0);
  const double ns = ask(ping, pong, run.size);
  other.join();
  return ns / 1e3;
}

template <std::size_t ends>
Result queue(const Run& run) {
  return on_workers(run, [&] {
    bf::buffered_channel<std::size_t> values(128);
    const auto begin = Clock::now();
    std::vector<bf::fiber> senders;
    std::vector<bf::fiber> receivers;
    for (std::size_t i = 0; i < ends; ++i) {
      senders.push_back(start([&] {
        for (std::size_t k = 0; k < run.size / ends; ++k) values.push(k);
      }));
      receivers.push_back(start([&] {
        std::size_t value = 0;
        while (values.pop(value) == bf::channel_op_status::success) {
        }
      }));
    }
    for (auto& fiber : senders) fiber.join();
    values.close();
    for (auto& fiber : receivers) fiber.join();
    return per(begin, run.size);
  });
}

template <bool across>
Result mutex(const Run& run) {
  return on_workers(run, [&] {
    constexpr std::size_t lockers = 8;
    bf::mutex lock;
    std::size_t count = 0;
    const auto begin = Clock::now();
    std::vector<bf::fiber> all;
    for (std::size_t i = 0; i < lockers; ++i) {
      all.push_back(start([&] {
        for (std::size_t k = 0; k < run.size / lockers; ++k) {
          const std::lock_guard guard(lock);
          ++count;
          if (across) boost::this_fiber::yield();
        }
      }));
    }
    for (auto& fiber : all) fiber.join();
    expect(count == run.size / lockers * lockers, "an update is lost");
    return per(begin, run.size);
  });
}

Result wake_latency(const Run& run) {
  bf::buffered_channel<Clock::time_point> sent(2);
  std::vector<double> ns;
  std::thread plain([&] {
    for (std::size_t i = 0; i < run.size; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      sent.push(Clock::now());
    }
    sent.close();
  });
  on_workers(run, [&] {
    start([&] {
      Clock::time_point when;
      while (sent.pop(when) == bf::channel_op_status::success) ns.push_back(ns_since(when));
    }).join();
    return 0;
  });
  plain.join();
  return median_us(std::move(ns));
}

constexpr std::array benchmarks{
    Benchmark{"chan_pingpong", "ns", 300'000, &pingpong},
    Benchmark{"chan_pingpong_cross", "us", 10'000, &pingpong_cross},
    Benchmark{"chan_spsc_128", "ns/value", 5'000'000, &queue<1>},
    Benchmark{"chan_mpmc_4x4", "ns/value", 3'000'000, &queue<4>},
    Benchmark{"mutex_8", "ns", 4'000'000, &mutex<false>},
    Benchmark{"mutex_yield_8", "ns", 300'000, &mutex<true>},
    Benchmark{"wake_latency", "us", 200, &wake_latency},
};

}  // namespace

std::span<const Benchmark> sync_benchmarks() {
  return benchmarks;
}

}  // namespace fibers

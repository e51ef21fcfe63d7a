// The contender `threads`: what the operating system's threads cost for the same work. Workers are
// processors here: with --workers 1 all threads share one.
#include "suite/protocol.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <semaphore>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace suite;

void use_processors(std::size_t count) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  for (unsigned cpu = 0; cpu < CPU_SETSIZE && count > 0; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    CPU_SET(cpu, &chosen);
    --count;
  }
  ::sched_setaffinity(0, sizeof chosen, &chosen);
}

template <std::size_t tasks>
Result yield(const Run& run) {
  use_processors(run.workers);
  const auto start = Clock::now();
  std::vector<std::jthread> threads;
  for (std::size_t t = 0; t < tasks; ++t) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < run.size / tasks; ++i) ::sched_yield();
    });
  }
  threads.clear();
  return per(start, run.size);
}

Result spawn_join(const Run& run) {
  use_processors(run.workers);
  const auto start = Clock::now();
  for (std::size_t i = 0; i < run.size; ++i) std::thread([] {}).join();
  return per(start, run.size);
}

/// A bounded queue as one writes it with a mutex and two conditions.
class Queue {
 public:
  explicit Queue(std::size_t capacity) : ring_(capacity) {}

  void send(std::size_t value) {
    std::unique_lock lock(mutex_);
    not_full_.wait(lock, [&] { return count_ < ring_.size(); });
    ring_[(first_ + count_++) % ring_.size()] = value;
    lock.unlock();
    not_empty_.notify_one();
  }
  bool recv(std::size_t& value) {
    std::unique_lock lock(mutex_);
    not_empty_.wait(lock, [&] { return count_ > 0 || closed_; });
    if (count_ == 0) return false;
    value = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    lock.unlock();
    not_full_.notify_one();
    return true;
  }
  void close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    not_empty_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable not_full_;
  std::condition_variable not_empty_;
  std::vector<std::size_t> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  bool closed_ = false;
};

/// Two semaphores: the least that two threads need to take turns.
double pingpong_ns(std::size_t count, bool apart) {
  std::binary_semaphore ping(0);
  std::binary_semaphore pong(0);
  std::jthread other([&] {
    if (apart) pin_this_thread(1);
    for (std::size_t i = 0; i < count; ++i) {
      ping.acquire();
      pong.release();
    }
  });
  if (apart) pin_this_thread(0);
  const auto start = Clock::now();
  for (std::size_t i = 0; i < count; ++i) {
    ping.release();
    pong.acquire();
  }
  return per(start, count);
}
Result pingpong(const Run& run) {
  use_processors(run.workers);
  return pingpong_ns(run.size, false);
}
Result pingpong_cross(const Run& run) {
  return pingpong_ns(run.size, true) / 1e3;
}

template <std::size_t ends>
Result queue(const Run& run) {
  use_processors(run.workers);
  Queue values(128);
  const auto start = Clock::now();
  std::vector<std::jthread> senders;
  std::vector<std::jthread> receivers;
  for (std::size_t i = 0; i < ends; ++i) {
    senders.emplace_back([&] {
      for (std::size_t k = 0; k < run.size / ends; ++k) values.send(k);
    });
    receivers.emplace_back([&] {
      std::size_t value = 0;
      while (values.recv(value)) {
      }
    });
  }
  senders.clear();
  values.close();
  receivers.clear();
  return per(start, run.size);
}

template <bool across>
Result mutex(const Run& run) {
  use_processors(run.workers);
  constexpr std::size_t lockers = 8;
  std::mutex lock;
  std::size_t count = 0;
  const auto start = Clock::now();
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < lockers; ++i) {
    threads.emplace_back([&] {
      for (std::size_t k = 0; k < run.size / lockers; ++k) {
        const std::lock_guard guard(lock);
        ++count;
        if (across) ::sched_yield();
      }
    });
  }
  threads.clear();
  expect(count == run.size / lockers * lockers, "an update is lost");
  return per(start, run.size);
}

Result wake_latency(const Run& run) {
  use_processors(run.workers);
  std::binary_semaphore sent(0);
  Clock::time_point when;
  std::vector<double> ns;
  std::jthread reader([&] {
    for (std::size_t i = 0; i < run.size; ++i) {
      sent.acquire();
      ns.push_back(ns_since(when));
    }
  });
  for (std::size_t i = 0; i < run.size; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    when = Clock::now();
    sent.release();
  }
  reader.join();
  return median_us(std::move(ns));
}

/// Of threads with small stacks, as many as a system allows without being asked for more.
Result memory(const Run& run) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, 32 << 10);
  std::counting_semaphore<> gate(0);
  std::vector<pthread_t> threads(run.size);
  const double before = resident_bytes();
  for (pthread_t& thread : threads) {
    const int error = ::pthread_create(
        &thread, &attributes,
        [](void* g) -> void* {
          static_cast<std::counting_semaphore<>*>(g)->acquire();
          return nullptr;
        },
        &gate);
    expect(error == 0, "the system allows no more threads");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const double used = resident_bytes() - before;
  gate.release(static_cast<std::ptrdiff_t>(run.size));
  for (const pthread_t thread : threads) ::pthread_join(thread, nullptr);
  return used / static_cast<double>(run.size);
}

void echo(int fd) {
  std::array<char, 1024> buffer;
  ssize_t n = 0;
  while ((n = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0) {
    if (::send(fd, buffer.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL) != n) break;
  }
  ::close(fd);
}

void serve(const Run&) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const bool ready = ::bind(listener, generic, size) == 0 && ::listen(listener, 4096) == 0 &&
                     ::getsockname(listener, generic, &size) == 0;
  expect(ready, "cannot listen");
  announce_port(ntohs(address.sin_port));
  std::thread([] {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    ::_exit(0);
  }).detach();
  for (;;) {
    const int fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    expect(fd >= 0, "cannot accept");
    std::thread(&echo, fd).detach();
  }
}

constexpr std::array benchmarks{
    Benchmark{"yield", "ns", 500'000, &yield<2>},
    Benchmark{"yield_100", "ns", 500'000, &yield<100>},
    Benchmark{"spawn_join", "ns", 10'000, &spawn_join},
    Benchmark{"chan_pingpong", "ns", 30'000, &pingpong},
    Benchmark{"chan_pingpong_cross", "us", 20'000, &pingpong_cross},
    Benchmark{"chan_spsc_128", "ns/value", 1'000'000, &queue<1>},
    Benchmark{"chan_mpmc_4x4", "ns/value", 300'000, &queue<4>},
    Benchmark{"mutex_8", "ns", 10'000'000, &mutex<false>},
    Benchmark{"mutex_yield_8", "ns", 200'000, &mutex<true>},
    Benchmark{"wake_latency", "us", 200, &wake_latency},
    Benchmark{"memory_1m", "bytes", 5'000, &memory},
    Benchmark{"serve", "", 1, nullptr, &serve},
};

}  // namespace

int main(int argc, char** argv) {
  return contend(argc, argv, benchmarks);
}

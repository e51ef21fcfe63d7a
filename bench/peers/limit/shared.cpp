// Memory that two threads share, and nothing that sleeps: a ring buffer, a word that goes to and
// fro, a lock of one word.
#include "limit.hpp"

#include <array>
#include <atomic>
#include <thread>

#include <sched.h>

namespace limit {

namespace {

using namespace suite;

/// Waits by looking again and again, and gives way if that takes long: the other thread may have no
/// processor.
class Spin {
 public:
  void once() {
    if (++count_ % 128 == 0) ::sched_yield();
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

 private:
  unsigned count_ = 0;
};

/// One sender and one receiver. Each keeps what it last saw of the other, so that the shared words
/// move between the processors once for many values.
class Ring {
 public:
  bool push(std::size_t value) {
    if (tail_ - seen_head_ == slots_.size()) {
      // acquire: with the release in pop; the slot has been read.
      seen_head_ = head_shared_.load(std::memory_order_acquire);
      if (tail_ - seen_head_ == slots_.size()) return false;
    }
    slots_[tail_ % slots_.size()] = value;
    tail_shared_.store(++tail_, std::memory_order_release);  // with the acquire in pop
    return true;
  }
  bool pop(std::size_t& value) {
    if (head_ == seen_tail_) {
      // acquire: with the release in push; the slot has been written.
      seen_tail_ = tail_shared_.load(std::memory_order_acquire);
      if (head_ == seen_tail_) return false;
    }
    value = slots_[head_ % slots_.size()];
    head_shared_.store(++head_, std::memory_order_release);  // with the acquire in push
    return true;
  }

 private:
  std::array<std::size_t, 128> slots_{};
  alignas(64) std::size_t tail_ = 0;  // the sender's
  std::size_t seen_head_ = 0;
  alignas(64) std::size_t head_ = 0;  // the receiver's
  std::size_t seen_tail_ = 0;
  alignas(64) std::atomic<std::size_t> tail_shared_{0};
  alignas(64) std::atomic<std::size_t> head_shared_{0};
};

Result ring_buffer(const Run& run) {
  Ring ring;
  std::size_t sum = 0;
  std::size_t value = 0;
  const auto start = Clock::now();
  if (run.workers == 1) {
    for (std::size_t i = 0; i < run.size;) {
      while (i < run.size && ring.push(i)) ++i;
      while (ring.pop(value)) sum += value;
    }
  } else {
    std::jthread sender([&] {
      pin_this_thread(1);
      Spin spin;
      for (std::size_t i = 0; i < run.size; ++i) {
        while (!ring.push(i)) spin.once();
      }
    });
    pin_this_thread(0);
    Spin spin;
    for (std::size_t i = 0; i < run.size; ++i) {
      while (!ring.pop(value)) spin.once();
      sum += value;
    }
  }
  const double ns = per(start, run.size);
  expect(sum == run.size * (run.size - 1) / 2, "a value is lost");
  return ns;
}

Result to_and_fro(const Run& run) {
  alignas(64) std::atomic<std::size_t> ping{0};
  alignas(64) std::atomic<std::size_t> pong{0};
  std::jthread other([&] {
    pin_this_thread(1);
    Spin spin;
    for (std::size_t i = 1; i <= run.size; ++i) {
      while (ping.load() != i) spin.once();
      pong.store(i);
    }
  });
  pin_this_thread(0);
  Spin spin;
  const auto start = Clock::now();
  for (std::size_t i = 1; i <= run.size; ++i) {
    ping.store(i);
    while (pong.load() != i) spin.once();
  }
  return per(start, run.size) / 1e3;
}

/// Taken and given back by one thread: nobody else wants it.
Result lock(const Run& run) {
  std::atomic<bool> held{false};
  volatile std::size_t count = 0;
  Spin spin;
  const auto start = Clock::now();
  for (std::size_t i = 0; i < run.size; ++i) {
    // acquire and release: what a lock must be, between whoever uses it
    while (held.exchange(true, std::memory_order_acquire)) spin.once();
    count = count + 1;
    held.store(false, std::memory_order_release);
  }
  return per(start, run.size);
}

constexpr std::array benchmarks{
    Benchmark{"chan_spsc_128", "ns/value", 10'000'000, &ring_buffer},
    Benchmark{"chan_pingpong_cross", "us", 100'000, &to_and_fro},
    Benchmark{"mutex_8", "ns", 20'000'000, &lock},
};

}  // namespace

std::span<const Benchmark> shared() {
  return benchmarks;
}

}  // namespace limit

// The contender `asio`: Boost.Asio with C++20 coroutines. One worker is a context that knows it has
// one thread; several threads run one context. There is no mutex for coroutines, no channel whose
// ends stay on a thread, and no select: receiving from the first of several channels may also take,
// and lose, a value of another.
#include "suite/protocol.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/experimental/channel.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <unistd.h>

namespace {

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using namespace suite;
using asio::any_io_executor;
using asio::awaitable;
using asio::use_awaitable;
using boost::system::error_code;

using Signature = void(error_code, std::size_t);
using OneThread = asio::experimental::channel<Signature>;
using ManyThreads = asio::experimental::concurrent_channel<Signature>;
constexpr auto or_error = asio::as_tuple(use_awaitable);

void run_on(asio::io_context& context, std::size_t workers) {
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < workers; ++i) others.emplace_back([&] { context.run(); });
  context.run();
}

/// Runs `body`, a coroutine that takes an executor, until nothing is left to do.
template <class F>
double on_workers(const Run& run, F body) {
  asio::io_context context(static_cast<int>(run.workers));
  double result = 0;
  const auto keep = [&](std::exception_ptr error, double value) {
    if (error) std::rethrow_exception(error);
    result = value;
  };
  asio::co_spawn(context, body(context.get_executor()), keep);
  run_on(context, run.workers);
  return result;
}

/// Counts tasks that end; the last one lets go whoever waits. What they share lives until both are
/// done with it: the one that waits may go on while the last is still at it.
class Countdown {
 public:
  Countdown(any_io_executor executor, std::size_t count)
      : state_(std::make_shared<State>(count, executor)) {}
  /// A completion handler for co_spawn.
  auto ended() {
    return [state = state_](std::exception_ptr) {
      if (state->left.fetch_sub(1) == 1) state->done.try_send(error_code{}, 0);
    };
  }
  awaitable<void> wait() { co_await state_->done.async_receive(use_awaitable); }

 private:
  struct State {
    State(std::size_t count, any_io_executor executor) : left(count), done(executor, 1) {}
    std::atomic<std::size_t> left;
    ManyThreads done;
  };
  std::shared_ptr<State> state_;
};

awaitable<void> yield_often(std::size_t count) {
  const auto executor = co_await asio::this_coro::executor;
  for (std::size_t i = 0; i < count; ++i) co_await asio::post(executor, use_awaitable);
}

template <std::size_t tasks>
Result yield(const Run& run) {
  return on_workers(run, [&](any_io_executor executor) -> awaitable<double> {
    const auto start = Clock::now();
    Countdown all(executor, tasks);
    for (std::size_t i = 0; i < tasks; ++i) {
      asio::co_spawn(executor, yield_often(run.size / tasks), all.ended());
    }
    co_await all.wait();
    co_return per(start, run.size);
  });
}

Result spawn_join(const Run& run) {
  return on_workers(run, [&](any_io_executor executor) -> awaitable<double> {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < run.size; ++i) {
      co_await asio::co_spawn(executor, []() -> awaitable<void> { co_return; }, use_awaitable);
    }
    co_return per(start, run.size);
  });
}

Result fanout(const Run& run) {
  return on_workers(run, [&](any_io_executor executor) -> awaitable<double> {
    std::atomic<std::size_t> ran{0};
    const auto start = Clock::now();
    Countdown all(executor, run.size);
    for (std::size_t i = 0; i < run.size; ++i) {
      asio::co_spawn(
          executor,
          [&]() -> awaitable<void> {
            ran.fetch_add(1, std::memory_order_relaxed);
            co_return;
          },
          all.ended());
    }
    co_await all.wait();
    const double ns = per(start, run.size);
    expect(ran == run.size, "not every task ran");
    co_return ns;
  });
}

awaitable<int> fib_of(int n) {
  if (n < 2) co_return n;
  const auto [left, right] = co_await (fib_of(n - 1) && fib_of(n - 2));
  co_return left + right;
}
/// Both calls may be made elsewhere here; the figure is for one of the two, as for the others.
Result fib(const Run& run) {
  return on_workers(run, [&](any_io_executor) -> awaitable<double> {
    int result = 0;
    int next = 1;
    for (std::size_t i = 0; i < run.size; ++i) result = std::exchange(next, result + next);
    const auto start = Clock::now();
    const int got = co_await fib_of(static_cast<int>(run.size));
    const double ns = ns_since(start);
    expect(got == result, "the tree's result");
    co_return ns / (next - 1);
  });
}

awaitable<std::int64_t> skynet_of(std::int64_t number, std::int64_t leaves) {
  if (leaves == 1) co_return number;
  const auto executor = co_await asio::this_coro::executor;
  std::array<std::int64_t, 10> sums{};
  Countdown all(executor, sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto first = number + static_cast<std::int64_t>(i) * leaves / 10;
    asio::co_spawn(executor, skynet_of(first, leaves / 10),
                   [&sums, i, ended = all.ended()](std::exception_ptr error, std::int64_t sum) {
                     sums[i] = sum;
                     ended(error);
                   });
  }
  co_await all.wait();
  std::int64_t sum = 0;
  for (const std::int64_t part : sums) sum += part;
  co_return sum;
}
Result skynet(const Run& run) {
  return on_workers(run, [&](any_io_executor) -> awaitable<double> {
    const auto leaves = static_cast<std::int64_t>(run.size);
    const auto start = Clock::now();
    const std::int64_t sum = co_await skynet_of(0, leaves);
    const double ms = ms_since(start);
    expect(sum == leaves * (leaves - 1) / 2, "the tree's result");
    co_return ms;
  });
}

template <class Channel>
awaitable<void> answer(Channel& ping, Channel& pong) {
  for (;;) {
    const auto [error, value] = co_await ping.async_receive(or_error);
    if (error) co_return;
    co_await pong.async_send(error_code{}, value, use_awaitable);
  }
}
template <class Channel>
Result pingpong_on(const Run& run) {
  return on_workers(run, [&](any_io_executor executor) -> awaitable<double> {
    Channel ping(executor);
    Channel pong(executor);
    Countdown other(executor, 1);
    asio::co_spawn(executor, answer(ping, pong), other.ended());
    const auto start = Clock::now();
    for (std::size_t i = 0; i < run.size; ++i) {
      co_await ping.async_send(error_code{}, i, use_awaitable);
      co_await pong.async_receive(use_awaitable);
    }
    const double ns = per(start, run.size);
    ping.close();
    co_await other.wait();
    co_return ns;
  });
}
Result pingpong(const Run& run) {
  return run.workers == 1 ? pingpong_on<OneThread>(run) : pingpong_on<ManyThreads>(run);
}

template <class Channel>
awaitable<void> send_all(Channel& values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    co_await values.async_send(error_code{}, i, use_awaitable);
  }
}
template <class Channel>
awaitable<void> receive_all(Channel& values) {
  for (;;) {
    const auto [error, value] = co_await values.async_receive(or_error);
    if (error) co_return;
  }
}
template <class Channel>
Result queue_on(const Run& run, std::size_t ends) {
  return on_workers(run, [&, ends](any_io_executor executor) -> awaitable<double> {
    Channel values(executor, 128);
    Countdown senders(executor, ends);
    Countdown receivers(executor, ends);
    const auto start = Clock::now();
    for (std::size_t i = 0; i < ends; ++i) {
      asio::co_spawn(executor, send_all(values, run.size / ends), senders.ended());
      asio::co_spawn(executor, receive_all(values), receivers.ended());
    }
    co_await senders.wait();
    values.close();
    co_await receivers.wait();
    co_return per(start, run.size);
  });
}
template <std::size_t ends>
Result queue(const Run& run) {
  return run.workers == 1 ? queue_on<OneThread>(run, ends) : queue_on<ManyThreads>(run, ends);
}

Result wake_latency(const Run& run) {
  asio::io_context context(static_cast<int>(run.workers));
  asio::experimental::concurrent_channel<void(error_code, Clock::time_point)> sent(context, 16);
  std::vector<double> ns;
  asio::co_spawn(
      context,
      [&]() -> awaitable<void> {
        for (;;) {
          const auto [error, when] = co_await sent.async_receive(or_error);
          if (error) co_return;
          ns.push_back(ns_since(when));
        }
      },
      asio::detached);
  auto work = asio::make_work_guard(context);
  std::jthread plain([&] {
    for (std::size_t i = 0; i < run.size; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      sent.try_send(error_code{}, Clock::now());
    }
    asio::post(context, [&] {
      sent.close();
      work.reset();
    });
  });
  run_on(context, run.workers);
  return median_us(std::move(ns));
}

Result timers(const Run& run) {
  const double before = cpu_ms();
  on_workers(run, [&](any_io_executor executor) -> awaitable<double> {
    Countdown all(executor, run.size);
    for (std::size_t i = 0; i < run.size; ++i) {
      asio::co_spawn(
          executor,
          [executor,
           nap = std::chrono::nanoseconds(1'000'000'000 / run.size * i)]() -> awaitable<void> {
            asio::steady_timer timer(executor, nap);
            co_await timer.async_wait(use_awaitable);
          },
          all.ended());
    }
    co_await all.wait();
    co_return 0;
  });
  return cpu_ms() - before;
}

Result memory(const Run& run) {
  return on_workers(run, [&](any_io_executor executor) -> awaitable<double> {
    OneThread gate(executor);
    std::size_t parked = 0;
    Countdown all(executor, run.size);
    const double before = resident_bytes();
    for (std::size_t i = 0; i < run.size; ++i) {
      asio::co_spawn(
          executor,
          [&]() -> awaitable<void> {
            ++parked;
            co_await gate.async_receive(or_error);
          },
          all.ended());
    }
    while (parked < run.size) co_await asio::post(executor, use_awaitable);
    const double used = resident_bytes() - before;
    gate.close();
    co_await all.wait();
    co_return used / static_cast<double>(run.size);
  });
}

awaitable<void> echo(asio::ip::tcp::socket socket) {
  socket.set_option(asio::ip::tcp::no_delay(true));
  std::array<char, 1024> buffer;
  for (;;) {
    const auto [error, n] = co_await socket.async_read_some(asio::buffer(buffer), or_error);
    if (error) co_return;
    const auto [failed, m] =
        co_await asio::async_write(socket, asio::buffer(buffer.data(), n), or_error);
    if (failed) co_return;
  }
}
awaitable<void> accept_all(asio::ip::tcp::acceptor& acceptor) {
  for (;;) {
    asio::co_spawn(acceptor.get_executor(), echo(co_await acceptor.async_accept(use_awaitable)),
                   asio::detached);
  }
}
void serve(const Run& run) {
  asio::io_context context(static_cast<int>(run.workers));
  const asio::ip::tcp::endpoint here(asio::ip::address_v4::loopback(), 0);
  asio::ip::tcp::acceptor acceptor(context, here);
  announce_port(acceptor.local_endpoint().port());
  asio::posix::stream_descriptor input(context, ::dup(STDIN_FILENO));
  input.async_wait(asio::posix::stream_descriptor::wait_read, [&](error_code) { context.stop(); });
  asio::co_spawn(context, accept_all(acceptor), asio::detached);
  run_on(context, run.workers);
}

constexpr std::array benchmarks{
    Benchmark{"yield", "ns", 2'000'000, &yield<2>},
    Benchmark{"yield_100", "ns", 2'000'000, &yield<100>},
    Benchmark{"spawn_join", "ns", 300'000, &spawn_join},
    Benchmark{"fanout_1m", "ns/task", 1'000'000, &fanout},
    Benchmark{"skynet_1m", "ms", 1'000'000, &skynet},
    Benchmark{"fib", "ns/call", 22, &fib},
    Benchmark{"chan_pingpong", "ns", 200'000, &pingpong},
    Benchmark{"chan_spsc_128", "ns/value", 500'000, &queue<1>},
    Benchmark{"chan_mpmc_4x4", "ns/value", 500'000, &queue<4>},
    Benchmark{"wake_latency", "us", 200, &wake_latency},
    Benchmark{"timers_1m", "ms CPU", 1'000'000, &timers},
    Benchmark{"memory_1m", "bytes", 1'000'000, &memory},
    Benchmark{"serve", "", 1, nullptr, &serve},
};

}  // namespace

int main(int argc, char** argv) {
  return contend(argc, argv, benchmarks);
}

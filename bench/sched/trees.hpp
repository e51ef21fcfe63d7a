/// Fork and join, as forks and as tasks: the same trees both ways, as fibers and as coroutines.
#pragma once

#include <weft/weft.hpp>

#include <array>
#include <cstdint>
#include <optional>

namespace weft::bench {

inline int fib(int n) {
  if (n < 2) return n;
  Fork left([n] { return fib(n - 1); });
  const int right = fib(n - 2);
  return left.get() + right;
}
inline Coro<int> fib_coro(int n) {
  if (n < 2) co_return n;
  Fork left(fib_coro(n - 1));
  const int right = co_await fib_coro(n - 2);
  co_return co_await left + right;
}

inline int fib_tasks(int n) {
  if (n < 2) return n;
  Scope scope;
  auto left = scope.spawn([n] { return fib_tasks(n - 1); });
  const int right = fib_tasks(n - 2);
  return left.get() + right;
}
inline Coro<int> fib_coro_tasks(int n) {
  if (n < 2) co_return n;
  Scope scope;
  auto left = scope.spawn([n] { return fib_coro_tasks(n - 1); });
  const int right = co_await fib_coro_tasks(n - 2);
  const int sum = (co_await left.join_op()).value() + right;
  co_await scope.joined();
  co_return sum;
}

/// Ten branches, each with a tenth of the leaves, which are numbered from `number`.
inline std::int64_t skynet(std::int64_t number, std::int64_t leaves) {
  if (leaves == 1) return number;
  const auto branch = [=](std::int64_t i) {
    return [=] { return skynet(number + i * leaves / 10, leaves / 10); };
  };
  std::array<std::optional<Fork<decltype(branch(0))>>, 9> others;
  for (std::int64_t i = 0; i < 9; ++i) others[static_cast<std::size_t>(i)].emplace(branch(i));
  std::int64_t sum = branch(9)();
  for (std::size_t i = 9; i-- > 0;) sum += others[i]->get();
  return sum;
}
inline Coro<std::int64_t> skynet_coro(std::int64_t number, std::int64_t leaves) {
  if (leaves == 1) co_return number;
  const auto branch = [=](std::int64_t i) {
    return skynet_coro(number + i * leaves / 10, leaves / 10);
  };
  std::array<std::optional<Fork<Coro<std::int64_t>>>, 9> others;
  for (std::int64_t i = 0; i < 9; ++i) others[static_cast<std::size_t>(i)].emplace(branch(i));
  std::int64_t sum = co_await branch(9);
  for (std::size_t i = 9; i-- > 0;) sum += co_await *others[i];
  co_return sum;
}

inline std::int64_t skynet_tasks(std::int64_t number, std::int64_t leaves) {
  if (leaves == 1) return number;
  Scope scope;
  std::array<JoinHandle<std::int64_t>, 10> children;
  for (std::int64_t i = 0; i < 10; ++i) {
    children[static_cast<std::size_t>(i)] =
        scope.spawn([=] { return skynet_tasks(number + i * leaves / 10, leaves / 10); });
  }
  std::int64_t sum = 0;
  for (auto& child : children) sum += child.get();
  return sum;
}
inline Coro<std::int64_t> skynet_coro_tasks(std::int64_t number, std::int64_t leaves) {
  if (leaves == 1) co_return number;
  Scope scope;
  std::array<JoinHandle<std::int64_t>, 10> children;
  for (std::int64_t i = 0; i < 10; ++i) {
    children[static_cast<std::size_t>(i)] =
        scope.spawn([=] { return skynet_coro_tasks(number + i * leaves / 10, leaves / 10); });
  }
  std::int64_t sum = 0;
  for (auto& child : children) sum += (co_await child.join_op()).value();
  co_await scope.joined();
  co_return sum;
}

}  // namespace weft::bench

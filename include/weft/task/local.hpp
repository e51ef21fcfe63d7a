/// Task-locals: values that follow a task, as thread-locals follow a thread, and that children
/// inherit.
///
///     TaskLocal<std::string> request_id;                  // a global: the key
///     Bind bind(request_id, "r-17");                      // until the end of the block
///     scope.spawn([] { log(*request_id.get()); });        // inherited at spawn
///
/// A child sees what its parent had bound when it was spawned; later changes on either side do not
/// show on the other. Implemented as an immutable chain of bindings with counted links, shared by
/// parent and children: a spawn costs one increment. Lookups walk the chain, which is as long as
/// the number of live bindings.
#pragma once

#include <weft/task/task.hpp>

#include <memory>

namespace weft {

struct LocalBinding {
  Atomic<std::uint32_t> refs{1};
  const void* key;
  std::shared_ptr<void> value;
  LocalBinding* next;  // counted
};

[[nodiscard]] LocalBinding* share_locals(LocalBinding* chain) noexcept;
void drop_locals(LocalBinding* chain) noexcept;

namespace detail {

[[nodiscard]] void* find_local(const void* key) noexcept;
void push_local(const void* key, std::shared_ptr<void> value);
void pop_local(const void* key) noexcept;

}  // namespace detail

template <class T>
class TaskLocal {
 public:
  TaskLocal() = default;
  TaskLocal(const TaskLocal&) = delete;
  TaskLocal& operator=(const TaskLocal&) = delete;

  /// The innermost binding of the calling task, or null.
  [[nodiscard]] T* get() const noexcept { return static_cast<T*>(detail::find_local(this)); }
};

/// Binds a value for the calling task while it lives. Bindings nest like blocks (checked).
template <class T>
class Bind {
 public:
  template <class U>
  Bind(TaskLocal<T>& key, U&& value) : key_(key) {
    detail::push_local(&key_, std::make_shared<T>(std::forward<U>(value)));
  }
  Bind(const Bind&) = delete;
  Bind& operator=(const Bind&) = delete;
  ~Bind() { detail::pop_local(&key_); }

 private:
  TaskLocal<T>& key_;
};

template <class T, class U>
Bind(TaskLocal<T>&, U&&) -> Bind<T>;

}  // namespace weft

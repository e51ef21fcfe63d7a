#include <weft/task/local.hpp>

#include <utility>

namespace weft {

LocalBinding* share_locals(LocalBinding* chain) noexcept {
  if (chain != nullptr)
    chain->refs.fetch_add(1, std::memory_order_relaxed);  // relaxed: we hold one
  return chain;
}

void drop_locals(LocalBinding* chain) noexcept {
  // acq_rel: the last holder must see all uses of the value before it is destroyed.
  while (chain != nullptr && chain->refs.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    LocalBinding* next = chain->next;
    delete chain;
    chain = next;
  }
}

namespace detail {

void* find_local(const void* key) noexcept {
  const Task* task = this_task();
  if (task == nullptr) return nullptr;
  for (LocalBinding* b = task->locals(); b != nullptr; b = b->next) {
    if (b->key == key) return b->value.get();
  }
  return nullptr;
}

void push_local(const void* key, std::shared_ptr<void> value) {
  Task* task = this_task();
  WEFT_CHECK(task != nullptr, "task-locals can be bound only inside a task");
  auto* binding = new LocalBinding{};
  binding->key = key;
  binding->value = std::move(value);
  binding->next = task->locals();  // the task's reference moves into the chain
  task->set_locals(binding);
}

void pop_local(const void* key) noexcept {
  Task* task = this_task();
  LocalBinding* top = task == nullptr ? nullptr : task->locals();
  WEFT_CHECK(top != nullptr && top->key == key, "task-local bindings must nest like blocks");
  task->set_locals(share_locals(top->next));
  drop_locals(top);
}

}  // namespace detail
}  // namespace weft

#include <weft/task/fiber.hpp>

#include <new>

namespace weft {

Fiber* Fiber::create(stack::Stack stack) {
  auto* place = stack.top() - sizeof(Fiber);
  place -= reinterpret_cast<std::uintptr_t>(place) % 64;
  auto* fiber = ::new (place) Fiber(stack);
  stack::begin_strand(fiber->strand_.sanitizer, stack.bottom(), stack.size());
  return fiber;
}

stack::Stack Fiber::destroy(Fiber* fiber) noexcept {
  const stack::Stack stack = fiber->stack_;
  stack::end_strand(fiber->strand_.sanitizer);
  fiber->~Fiber();
  return stack;
}

}  // namespace weft

#include <weft/task/fiber.hpp>

#include <new>

namespace weft {

namespace {

constexpr std::size_t line = 64;
// Few: what they take is missing in the first page, which is all that most fibers need.
constexpr std::size_t colours = 8;

}  // namespace

Fiber* Fiber::create(stack::Stack stack) {
  auto* place = stack.top() - sizeof(Fiber);
  place -= reinterpret_cast<std::uintptr_t>(place) % line;
  place -= stack.number() % colours * line;
  auto* fiber = ::new (place) Fiber(stack);
  stack::begin_strand(fiber->strand_.sanitizer, stack.bottom(), stack.size());
  return fiber;
}

void Fiber::start(void (*entry)(void*), bool keep_float_control) noexcept {
  strand_.context = stack::make_context(this, entry);
  resting_ = false;
  strand_.exceptions = {};
  strand_.keep_float_control = keep_float_control;
  stack::restart_strand(strand_.sanitizer);
}

stack::Stack Fiber::destroy(Fiber* fiber) noexcept {
  const stack::Stack stack = fiber->stack_;
  stack::end_strand(fiber->strand_.sanitizer);
  fiber->~Fiber();
  return stack;
}

}  // namespace weft

#include <weft/task/io.hpp>
#include <weft/task/local.hpp>
#include <weft/task/worker.hpp>

#include <cstring>
#include <stdexcept>

namespace weft {

namespace {

std::uint32_t checked_size(std::size_t stack_size) {
  if (stack_size > stack::max_stack_size) {
    throw std::invalid_argument("SpawnOptions::stack_size is " + std::to_string(stack_size) +
                                " bytes; at most " + std::to_string(stack::max_stack_size) +
                                " are possible");
  }
  return static_cast<std::uint32_t>(stack_size);
}

char* copy_name(std::string_view name) {
  if (name.empty()) return nullptr;
  char* copy = new char[name.size() + 1];
  std::memcpy(copy, name.data(), name.size());
  copy[name.size()] = '\0';
  return copy;
}

}  // namespace

const char* to_string(TaskState state) noexcept {
  switch (state) {
    case TaskState::created:
      return "created";
    case TaskState::ready:
      return "ready";
    case TaskState::running:
      return "running";
    case TaskState::blocked:
      return "blocked";
    case TaskState::complete:
      return "complete";
  }
  return "unknown";
}

Task::Task(Io& io, Flow flow, const SpawnOptions& options)
    : Wait(flow),
      CancelNode(Kind::task, this),
      io_(io),
      observer_(io.observer()),
      tid_(io.next_tid()),
      stack_size_(checked_size(options.stack_size)),
      io_number_(io.number()),
      keep_float_control_(options.keep_float_control),
      isolated_(options.isolated),
      wanted_worker_(options.worker),
      priority_(options.priority) {
  name_ = copy_name(options.name);
  obey(flag());
  if (const Task* spawner = this_task()) locals_ = share_locals(spawner->locals_);
}

Task::~Task() {
  drop_locals(locals_);
  delete[] name_;
}

std::string_view Task::name() const noexcept {
  return name_ == nullptr ? "task" : name_;
}

// Made of the tid rather than drawn from the common counter: a spawn need not touch it. Other
// objects never get this far.
ObjectId Task::id() const noexcept {
  constexpr unsigned io_shift = 48;
  constexpr std::uint64_t task_bit = std::uint64_t{1} << 63;
  return static_cast<ObjectId>(task_bit | std::uint64_t{io_number_} << io_shift | tid_);
}

void* Task::operator new(std::size_t size) {
  return allocate_block(size);
}
void Task::operator delete(void* block, std::size_t size) noexcept {
  release_block(block, size);
}

void* Task::operator new(std::size_t size, std::align_val_t alignment) {
  return ::operator new(size, alignment);
}
void Task::operator delete(void* block, std::size_t size, std::align_val_t alignment) noexcept {
  ::operator delete(block, size, alignment);
}

void Task::release() noexcept {
  // acquire: the last holder need not say that it lets go. Its partner, and the meaning of acq_rel:
  // release our use of the task to the last holder, acquire everybody's before destroying.
  if (refs_.load(std::memory_order_acquire) == 1 ||
      refs_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

void Task::illegal_edge(TaskState from, TaskState to) const noexcept {
  WEFT_CHECK(false, "task '", name(), "' (tid ", tid_, ") cannot go from ", to_string(from), " to ",
             to_string(to));
  std::abort();
}

void Task::start(Scope& scope) {
  io_.admit();
  scope.add_child(*this);
  to_state(TaskState::ready);
  io_.launch(*this);
}

void Task::finish() noexcept {
  // Users' destructors run here, in the task itself, and before the scope is told.
  drop_locals(std::exchange(locals_, nullptr));
  if (!has_handles()) discard_value();
  // A failure concerns its siblings too: to a simulation that is anything.
  const bool failed = detail::simulated() && error() != nullptr;
  detail::point(failed ? ObjectId::none : id(), Access::write, "end");
  to_state(TaskState::complete);
  auto& scope = static_cast<Scope&>(*parent());
  if (const std::exception_ptr failure = error()) scope.child_failed(*this, failure);
  {
    WakeList wakes;
    const LeaningGuard guard(lock());
    done_.store(true, std::memory_order_release);  // release: partner is the load in done()
    while (Arm* arm = joiners_.pop_front()) {
      if (arm->claim()) wakes.add(*arm);
    }
  }
  scope.child_done(*this);
}

bool Task::run_for_waiter() {
  Worker* const worker = this_worker();
  return worker != nullptr && worker->give_turn_to(*this);
}

Armed Task::arm_joiner(Arm& arm) noexcept {
  const LeaningGuard guard(lock());
  if (done()) return arm.claim() ? Armed::won : Armed::lost;
  joiners_.push_back(arm);
  return Armed::waiting;
}

void Task::disarm_joiner(Arm& arm) noexcept {
  const LeaningGuard guard(lock());
  arm.unlink();
}

void Task::suspend() {
  switch (flow()) {
    case Flow::fiber:
      this_worker()->park_fiber(*this);
      break;
    case Flow::thread:
      io_.block(*this);
      break;
    case Flow::coroutine:
      WEFT_CHECK(may_wait_on_stack_,
                 "a blocking call in a coroutine would stop its worker; co_await the "
                 "operation instead, for example co_await channel.recv_op()");
      this_worker()->park_fiber(*this);
  }
}

std::coroutine_handle<> Task::suspend_coroutine(std::coroutine_handle<> handle,
                                                Recheck* recheck) noexcept {
  recheck_ = recheck;
  return this_worker()->park_coroutine(*this, handle);
}

void Task::requeue_coroutine(std::coroutine_handle<> handle, Recheck* recheck) noexcept {
  recheck_ = recheck;
  this_worker()->leave_coroutine(*this, handle);
}

void Task::give_way() {
  if (flow() == Flow::fiber) yield();
}

void Task::resume() noexcept {
  to_state(TaskState::ready);
  Worker* const worker = this_worker();
  if (worker == nullptr || !worker->keep(*this)) io_.ready(*this);
}

}  // namespace weft

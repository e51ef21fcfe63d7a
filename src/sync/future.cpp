#include <weft/sync/future.hpp>

#include <weft/base/atomic.hpp>

namespace weft {

NoneSucceeded::NoneSucceeded(std::vector<std::exception_ptr> errors)
    : std::runtime_error([&] {
        std::string text = "none of " + std::to_string(errors.size()) + " futures succeeded";
        for (const std::exception_ptr& error : errors) {
          text += "\n  " + (error ? describe(error) : std::string("cancelled"));
        }
        return text;
      }()),
      errors_(std::move(errors)) {}

namespace detail {

namespace {

bool counts_as(Parts::Counts counts, const Task& task) noexcept {
  switch (counts) {
    case Parts::Counts::any:
      return true;
    case Parts::Counts::success:
      return task.ending().ok();
    case Parts::Counts::failure:
      return !task.ending().ok();
    case Parts::Counts::nothing:
      return false;
  }
  return false;
}

}  // namespace

Parts::~Parts() {
  for (Task* task : tasks_) {
    if (!task->done()) task->cancel_tree(CancelReason::requested);
  }
}

Coro<std::size_t> Parts::first(Counts counts) {
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i]->done() && counts_as(counts, *tasks_[i])) co_return i;
  }
  Atomic<std::size_t> winner{none};
  Scope scope({.name = "futures"});
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    if (tasks_[i]->done() && !counts_as(counts, *tasks_[i])) continue;
    scope.spawn([this, counts, i, &winner, &scope]() -> Coro<> {
      co_await EndOp(tasks_[i]);
      std::size_t nobody = none;
      if (counts_as(counts, *tasks_[i]) && winner.compare_exchange_strong(nobody, i)) {
        scope.cancel();
      }
    });
  }
  co_await scope.joined();
  co_return winner.load();
}

std::vector<std::exception_ptr> Parts::errors() const {
  std::vector<std::exception_ptr> errors;
  errors.reserve(tasks_.size());
  for (const Task* task : tasks_) errors.push_back(task->error());
  return errors;
}

}  // namespace detail
}  // namespace weft

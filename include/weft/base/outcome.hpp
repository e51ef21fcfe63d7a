/// How a computation ended: with a value, with an error, or cancelled for a reason.
///
///     Outcome<int> o = handle.join();
///     if (o.cancelled() && o.reason() == CancelReason::timeout) retry();
///     int v = std::move(o).value();    // rethrows the error; CancelledError if cancelled
///
/// Cancellation is not failure: it has its own arm, and inside a task it travels as `Cancelled`,
/// which is deliberately not a std::exception, so that `catch (const std::exception&)` does not
/// swallow it.
#pragma once

#include <weft/base/check.hpp>

#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

namespace weft {

/// Why a task was told to stop. `none` means it was not.
enum class CancelReason : std::uint8_t {
  none,
  requested,       // somebody called cancel()
  timeout,         // a deadline passed
  sibling_failed,  // another child of the same scope ended in an error
  killed,          // this one task was killed
  shutdown,        // the Io is going away
  deadlock,        // nothing could ever wake it
};

[[nodiscard]] const char* to_string(CancelReason reason) noexcept;

/// Thrown by the suspension of a cancelled task. Let it pass, or catch it, clean up and rethrow.
class Cancelled {
 public:
  explicit Cancelled(CancelReason reason) noexcept : reason_(reason) {}
  [[nodiscard]] CancelReason reason() const noexcept { return reason_; }

 private:
  CancelReason reason_;
};

/// Thrown by `Outcome::value()` when there is no value because the computation was cancelled.
/// Unlike `Cancelled` it concerns somebody else's cancellation, and so it is an ordinary error.
class CancelledError : public std::runtime_error {
 public:
  explicit CancelledError(CancelReason reason)
      : std::runtime_error(std::string("the task was cancelled: ") + to_string(reason)),
        reason_(reason) {}
  [[nodiscard]] CancelReason reason() const noexcept { return reason_; }

 private:
  CancelReason reason_;
};

/// The message of an exception, for reports.
[[nodiscard]] std::string describe(const std::exception_ptr& error);

namespace detail {

/// void becomes an empty value and a reference a pointer, so that both can be stored.
struct Unit {
  friend bool operator==(Unit, Unit) = default;
};
template <class T>
using Stored = std::conditional_t<
    std::is_void_v<T>, Unit,
    std::conditional_t<std::is_reference_v<T>, std::add_pointer_t<std::remove_reference_t<T>>,
                       std::remove_cv_t<T>>>;

}  // namespace detail

template <class T>
class [[nodiscard]] Outcome {
  using Value = detail::Stored<T>;

 public:
  /// Calls `f` and keeps how it ended.
  template <class F>
  static Outcome of(F&& f) {
    try {
      if constexpr (std::is_void_v<T>) {
        std::forward<F>(f)();
        return success();
      } else {
        return success(std::forward<F>(f)());
      }
    } catch (...) {
      return caught();
    }
  }
  /// In a catch block: what was thrown.
  static Outcome caught() {
    try {
      throw;
    } catch (const Cancelled& c) {
      return cancel(c.reason());
    } catch (...) {
      return failure(std::current_exception());
    }
  }

  template <class... Args>
  static Outcome success(Args&&... args) {
    if constexpr (std::is_reference_v<T>) {
      return Outcome(std::in_place_index<0>, std::addressof(args)...);
    } else {
      return Outcome(std::in_place_index<0>, std::forward<Args>(args)...);
    }
  }
  static Outcome failure(std::exception_ptr error) {
    return Outcome(std::in_place_index<1>, std::move(error));
  }
  static Outcome cancel(CancelReason reason) { return Outcome(std::in_place_index<2>, reason); }

  [[nodiscard]] bool ok() const noexcept { return state_.index() == 0; }
  [[nodiscard]] bool failed() const noexcept { return state_.index() == 1; }
  [[nodiscard]] bool cancelled() const noexcept { return state_.index() == 2; }

  /// The error, or null.
  [[nodiscard]] std::exception_ptr error() const noexcept {
    return failed() ? std::get<1>(state_) : nullptr;
  }
  /// Why it was cancelled, or `none`.
  [[nodiscard]] CancelReason reason() const noexcept {
    return cancelled() ? std::get<2>(state_) : CancelReason::none;
  }

  /// The value; otherwise throws the error, or CancelledError.
  decltype(auto) value() & {
    require_value();
    return access(*this);
  }
  decltype(auto) value() const& {
    require_value();
    return access(*this);
  }
  T value() && {
    require_value();
    if constexpr (std::is_void_v<T>) {
      return;
    } else if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(*std::get<0>(state_));
    } else {
      return std::move(std::get<0>(state_));
    }
  }

 private:
  template <std::size_t I, class... Args>
  explicit Outcome(std::in_place_index_t<I> index, Args&&... args)
      : state_(index, std::forward<Args>(args)...) {}

  template <class Self>
  static decltype(auto) access(Self& self) {
    if constexpr (std::is_void_v<T>) {
      return;
    } else if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(*std::get<0>(self.state_));
    } else {
      return (std::get<0>(self.state_));
    }
  }

  void require_value() const {
    if (failed()) std::rethrow_exception(std::get<1>(state_));
    if (cancelled()) throw CancelledError(std::get<2>(state_));
  }

  std::variant<Value, std::exception_ptr, CancelReason> state_;
};

}  // namespace weft

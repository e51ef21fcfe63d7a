/// Ordered: results in the order in which the work was handed in, however long each piece takes.
///
///     weft::Ordered<Page> pages(8);                        // 8 pieces under way at most
///     weft::Scope scope;
///     scope.spawn([&] {
///       for (auto& url : urls) pages.send_task(scope, [&url] { return fetch(url); });
///       pages.close();
///     });
///     while (auto page = pages.recv()) print(page->value());   // as in `urls`
///
/// A piece of work counts from when it is handed in until its result is received: who hands in the
/// next one waits until there is room, so a slow receiver slows the work down. The result is an
/// Outcome; an error stays there. A piece that is cancelled, also one that never began, has its
/// place in the order like the others.
///
/// After close() nothing more is accepted, and receivers get what is under way. The tasks belong to
/// the scope they were spawned into; declare the Ordered before it.
#pragma once

#include <weft/sync/turnstile.hpp>
#include <weft/task/scope.hpp>

#include <optional>
#include <vector>

namespace weft {

template <class T>
class Ordered : public Turnstile<Ordered<T>> {
  static_assert(std::is_nothrow_move_constructible_v<Outcome<T>>,
                "Ordered<T>: results change hands under a lock, so moving a T must not throw");

 public:
  explicit Ordered(std::size_t limit) : ring_(limit) {
    WEFT_CHECK(limit > 0, "an Ordered with no room for work");
  }
  ~Ordered() = default;

  /// Starts `f`, or a coroutine that it returns, when there is room. False: closed, nothing was
  /// started.
  template <class F>
  [[nodiscard]] auto send_task_op(Scope& scope, F f, SpawnOptions options = {}) {
    return map(PassOp<Ordered, Enter>(*this, {Request::Kind::enter}),
               [&scope, options, f = std::move(f)](Place place) mutable {
                 if (!place) return false;
                 start(scope, std::move(f), std::move(place), options);
                 return true;
               });
  }
  template <class F>
  bool send_task(Scope& scope, F f, SpawnOptions options = {}) {
    return perform(send_task_op(scope, std::move(f), options));
  }

  /// The next result; nothing once it is closed and all have been received.
  [[nodiscard]] auto recv_op() { return PassOp<Ordered, Leave>(*this, {Request::Kind::leave}); }
  std::optional<Outcome<T>> recv() { return perform(recv_op()); }

  void close() noexcept { close_with(nullptr); }
  /// Receivers throw the error once they have got what is under way. The first one counts.
  void close_with(std::exception_ptr error) noexcept {
    this->change([&] {
      if (!std::exchange(closed_, true)) error_ = std::move(error);
    });
  }
  /// Under way, or waiting to be received.
  [[nodiscard]] std::size_t size() const noexcept {
    return this->look([&] { return count_; });
  }

 private:
  friend Turnstile<Ordered>;
  template <class, class>
  friend class PassOp;

  using Result = std::optional<Outcome<T>>;

  /// Where a result goes. If it goes away without one, the work was cancelled.
  class Place {
   public:
    Place() = default;
    Place(Ordered& ordered, Result& result) noexcept : ordered_(&ordered), result_(&result) {}
    Place(Place&& other) noexcept
        : ordered_(std::exchange(other.ordered_, nullptr)), result_(other.result_) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (ordered_ != nullptr) put(Outcome<T>::cancel(CancelReason::requested));
    }
    explicit operator bool() const noexcept { return ordered_ != nullptr; }
    void put(Outcome<T> outcome) noexcept {
      std::exchange(ordered_, nullptr)->change([&] { result_->emplace(std::move(outcome)); });
    }

   private:
    Ordered* ordered_ = nullptr;
    Result* result_ = nullptr;
  };

  struct Request {
    enum class Kind : std::uint8_t { enter, leave };
    Kind kind;
    Result* place = nullptr;                          // of the one that enters
    std::optional<Outcome<T>> result = std::nullopt;  // of the one that leaves
  };
  struct Enter {
    using Result = Place;
    static constexpr Reason reason{"ordered send"};
    static Place result(Ordered& ordered, Request& request) noexcept {
      return request.place == nullptr ? Place() : Place(ordered, *request.place);
    }
  };
  struct Leave {
    using Result = std::optional<Outcome<T>>;
    static constexpr Reason reason{"ordered recv"};
    static Result result(Ordered& ordered, Request& request) {
      if (!request.result) ordered.throw_if_failed();
      return std::move(request.result);
    }
  };

  // Of one kind all ask for the same, and whoever may pass has passed: so none overtakes another.
  static constexpr bool in_order = false;
  static constexpr bool chained = true;
  [[nodiscard]] bool may_pass(const Request& request) const noexcept {
    if (request.kind == Request::Kind::enter) return closed_ || count_ < ring_.size();
    return count_ == 0 ? closed_ : ring_[first_].has_value();
  }
  void let_pass(Request& request) noexcept {
    if (request.kind == Request::Kind::leave) {
      if (count_ == 0) return;  // closed
      request.result.emplace(*std::move(ring_[first_]));
      ring_[first_].reset();
      first_ = (first_ + 1) % ring_.size();
      --count_;
    } else if (!closed_) {
      request.place = &ring_[(first_ + count_) % ring_.size()];
      ++count_;
    }
  }

  void throw_if_failed() const {
    const std::exception_ptr error = this->look([&] { return error_; });
    if (error) std::rethrow_exception(error);
  }

  template <class F>
  static void start(Scope& scope, F f, Place place, SpawnOptions options) {
    options.isolated = true;
    using R = std::invoke_result_t<F&>;
    if constexpr (is_coro<R>) {
      static_cast<void>(scope.spawn(
          [f = std::move(f), place = std::move(place)]() mutable -> Coro<> {
            std::optional<Outcome<T>> outcome;
            try {
              if constexpr (std::is_void_v<T>) {
                co_await f();
                outcome.emplace(Outcome<T>::success());
              } else {
                outcome.emplace(Outcome<T>::success(co_await f()));
              }
            } catch (...) {
              outcome.emplace(Outcome<T>::caught());
            }
            place.put(std::move(*outcome));
          },
          options));
    } else {
      static_cast<void>(scope.spawn(
          [f = std::move(f), place = std::move(place)]() mutable { place.put(Outcome<T>::of(f)); },
          options));
    }
  }

  std::vector<Result> ring_;  // those under way are empty
  std::size_t first_ = 0;
  std::size_t count_ = 0;
  bool closed_ = false;
  std::exception_ptr error_;
};

}  // namespace weft

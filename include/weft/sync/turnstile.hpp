/// Turnstile: what is common to all that lets its waiters through one after the other. Locks,
/// semaphores, events and latches are turnstiles; each only says when it lets whom pass.
///
///     class Gate : public Turnstile<Gate> {
///      public:
///       struct Request {};                          // what a waiter asks for
///       struct Pass {                               // an operation: what it is called, and gives
///         static constexpr Reason reason{"gate"};
///         using Result = void;
///         static void result(Gate&, Request&) {}
///       };
///       auto pass_op() { return PassOp<Gate, Pass>(*this, {}); }
///       void open() { change([&] { open_ = true; }); }      // and whoever may pass now does
///      private:
///       friend Turnstile;
///       bool may_pass(const Request&) const { return open_; }   // both under the lock
///       void let_pass(Request&) {}
///       bool open_ = false;
///     };
///
/// Waiters pass in the order in which they came, and nobody overtakes: whoever finds others waiting
/// waits behind them, even if it could pass. So a large request is not starved by small ones. Where
/// waiters take nothing from each other (a Barrier), `static constexpr bool in_order = false` lets
/// everybody pass who may. Where one that passes may open the way for others (an Ordered: who
/// leaves makes room), `static constexpr bool chained = true` looks at all of them again.
///
/// What many want all the time, and nobody for long, one at a time (a Mutex), is better left to
/// whoever comes and finds it free: handed to the one who has waited longest, it would cost a
/// change of tasks, often to another core, each time. With `static constexpr bool overtaking =
/// true` the first in line is only told that it may pass. When it comes somebody may have been
/// faster; then it stands in front of all who have not come in vain, and is handed what it waits
/// for when it is its turn. Only so many may be faster while one is on its way: after that all
/// newcomers stand in line (but for `try_pass`, which cannot). Invariant: if the first in line may
/// pass, somebody has been told and is on its way (test/model/overtaking.pml). Such a turnstile
/// needs no may_pass() and let_pass(): it is taken or free. All that decides is in the lock's own
/// word, so that taking what is free is one step, without the lock, and so is giving it back if
/// nobody has to be told:
///
///     held     the lock          line   somebody waits
///     taken    not free          owed   and the first of them has come in vain
///     told     one is on its way, and in the bits above: so many have been faster
///
/// What has been passed to a waiter is its own: it is passed only to one that has been claimed, so
/// that its cancellation comes too late, and a waiter that gave up has got nothing. When one gives
/// up, those behind it are looked at: they may have waited only for it.
#pragma once

#include <weft/base/check.hpp>
#include <weft/base/list.hpp>
#include <weft/base/spinlock.hpp>
#include <weft/wait/perform.hpp>

#include <cstdint>
#include <utility>

namespace weft {

template <class Self, class How>
class PassOp;

template <class Self>
class Turnstile {
 public:
  Turnstile(const Turnstile&) = delete;
  Turnstile& operator=(const Turnstile&) = delete;

 protected:
  static constexpr bool in_order = true;
  static constexpr bool chained = false;
  static constexpr bool overtaking = false;
  /// What a Request needs then: of one wait.
  struct Overtaken {
    bool told = false;    // once
    bool passed = false;  // it has been handed over
  };

  Turnstile() = default;
  ~Turnstile() {
    WEFT_CHECK((lock_.glimpse() & told_bit) == 0,
               "a lock is destroyed while a task is about to take it");
  }

  [[nodiscard]] ObjectId id() const noexcept { return id_; }

  /// Calls f under the lock, then lets those pass who may.
  template <class F>
  decltype(auto) change(F&& f, const char* what = "change") {
    detail::point(id_, Access::write, what);
    WakeList wakes;
    const Hold hold(*this);
    struct Serve {
      Turnstile& turnstile;
      WakeList& wakes;
      ~Serve() { turnstile.serve(wakes); }
    } serve{*this, wakes};
    return f();
  }
  /// Calls f under the lock.
  template <class F>
  decltype(auto) look(F&& f) const {
    detail::point(id_, Access::read, "look");
    const Hold hold(const_cast<Turnstile&>(*this));  // which changes nothing
    return f();
  }
  /// Passes without waiting, or does not. Where one may overtake, any number of times: whoever does
  /// not wait cannot stand in line.
  template <class Request>
  [[nodiscard]] bool try_pass(Request& request) {
    detail::point(id_, Access::write, "try");
    if constexpr (Self::overtaking) {
      const Hold hold(*this);
      return take();
    } else {
      return pass_now(request);
    }
  }

  // Of overtaking ones:

  /// Under the lock.
  [[nodiscard]] bool taken() const noexcept { return (bits_ & taken_bit) != 0; }
  [[gnu::always_inline]] void give_back(const char* what) noexcept {
    const BitLock::Bits bits = lock_.glimpse();
    // Nobody waits; or somebody is on its way already, and nobody is owed it.
    if ((bits == taken_bit || (bits & (BitLock::held | owed_bit | told_bit)) == told_bit) &&
        !detail::simulated() &&
        // release: partner is take_free(), or whoever takes the lock.
        lock_.change(bits, bits - taken_bit, std::memory_order_release)) [[likely]] {
      return;
    }
    change([&] { bits_ &= ~taken_bit; }, what);
  }

 private:
  template <class, class>
  friend class PassOp;
  static consteval bool overtakes() { return Self::overtaking; }  // which may be private

  template <class Request>
  [[nodiscard]] bool pass_now(Request& request) {
    ChainWakes<> wakes;
    const Hold hold(*this);
    return pass_if_first(request, wakes);
  }

  struct Nothing {};
  template <class S = Self>
  using ChainWakes = std::conditional_t<S::chained, WakeList, Nothing>;

  Self& self() noexcept { return static_cast<Self&>(*this); }

  /// Holds the lock.
  class Hold {
   public:
    [[gnu::always_inline]] explicit Hold(Turnstile& turnstile) noexcept : turnstile_(turnstile) {
      turnstile_.bits_ = turnstile_.lock_.lock();
    }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;
    [[gnu::always_inline]] ~Hold() {
      BitLock::Bits bits = turnstile_.bits_;
      if constexpr (Self::overtaking) {
        bits &= ~(line_bit | owed_bit);
        if (Arm* const first = turnstile_.line_.front()) {
          bits |= request_of(*first).told ? line_bit | owed_bit : line_bit;
        }
      }
      turnstile_.lock_.unlock(bits);
    }

   private:
    Turnstile& turnstile_;
  };

  /// Of overtaking ones, without the lock: false if it is not that simple.
  [[nodiscard, gnu::always_inline]] bool take_free() noexcept {
    const BitLock::Bits bits = lock_.glimpse();
    BitLock::Bits more = taken_bit;
    if (bits != 0) [[unlikely]] {
      if ((bits & (BitLock::held | taken_bit | told_bit)) != told_bit || bits >= overtaken_enough) {
        return false;
      }
      more += one_overtaker;
    }
    // acquire: partner is give_back(), or whoever had the lock.
    return lock_.change(bits, bits + more, std::memory_order_acquire);
  }
  /// The same with the lock.
  [[nodiscard]] bool take() noexcept {
    return (std::exchange(bits_, bits_ | taken_bit) & taken_bit) == 0;
  }
  [[nodiscard]] bool looks_free() const noexcept { return (lock_.glimpse() & taken_bit) == 0; }

  template <class Request>
  bool open_to(const Request& request) noexcept {
    if constexpr (Self::overtaking) {
      return !taken();
    } else {
      return self().may_pass(request);
    }
  }
  template <class Request>
  void admit(Request& request) {
    if constexpr (Self::overtaking) {
      bits_ |= taken_bit;
    } else {
      self().let_pass(request);
    }
  }

  template <class Request>
  bool may_pass_now(const Request& request) noexcept {
    if (!open_to(request)) return false;
    if constexpr (Self::overtaking) return !told() || request.told || bits_ < overtaken_enough;
    return !Self::in_order || line_.empty();
  }
  template <class Request, class Wakes>
  void pass(Request& request, Wakes& wakes) {
    admit(request);
    if constexpr (Self::overtaking) {
      if (told() && !request.told) [[unlikely]]
        bits_ += one_overtaker;
    }
    if constexpr (Self::chained) serve(wakes);
  }
  template <class Request, class Wakes>
  bool pass_if_first(Request& request, Wakes& wakes) {
    if (!may_pass_now(request)) return false;
    pass(request, wakes);
    return true;
  }
  template <class Request>
  Armed arm(Arm& arm, Request& request) {
    ChainWakes<> wakes;
    const Hold hold(*this);
    if (may_pass_now(request)) {
      if (!arm.claim()) return Armed::lost;
      pass(request, wakes);
      if constexpr (Self::overtaking) request.passed = true;
      return Armed::won;
    }
    arm.slot = &request;
    stand_in_line(arm, request);
    return Armed::waiting;
  }
  template <class Request>
  void stand_in_line(Arm& arm, const Request& request) noexcept {
    if constexpr (Self::overtaking) {
      if (request.told) {  // behind others who have come in vain
        Arm* before = line_.front();
        while (before != nullptr && request_of(*before).told) before = line_.next(*before);
        if (before != nullptr) return line_.insert_before(*before, arm);
      }
    }
    line_.push_back(arm);
  }
  void disarm(Arm& arm) noexcept {
    WakeList wakes;
    const Hold hold(*this);
    arm.unlink();
    serve(wakes);
  }
  void serve(WakeList& wakes) noexcept {
    if constexpr (Self::overtaking) {
      static_assert(!Self::chained, "only one may pass at a time");
      tell_first(wakes);
    } else {
      let_all_pass(wakes);
    }
  }
  void let_all_pass(WakeList& wakes) noexcept {
    for (Arm* arm = line_.front(); arm != nullptr;) {
      Arm* next = line_.next(*arm);
      auto& request = request_of(*arm);
      if (open_to(request)) {
        arm->unlink();
        if (arm->claim()) {
          admit(request);
          wakes.add(*arm);
          if (Self::chained) next = line_.front();
        }
      } else if (Self::in_order) {
        return;
      }
      arm = next;
    }
  }
  /// That it may pass; or, if it has been told before, lets it.
  void tell_first(WakeList& wakes) noexcept {
    while (Arm* arm = line_.front()) {
      auto& request = request_of(*arm);
      if (taken() || (told() && !request.told)) return;
      arm->unlink();
      if (!arm->claim()) continue;
      if (request.told) {
        bits_ |= taken_bit;
        request.passed = true;
      } else {
        bits_ |= told_bit;
        request.told = true;
      }
      wakes.add(*arm);
      return;
    }
  }
  /// One that was told, or has passed. False: somebody was faster. True: its wait is over, and the
  /// next one will know nothing of it.
  template <class Request>
  bool come(Request& request) noexcept {
    if (!request.passed) {
      detail::point(id_, Access::write, "come");
      const Hold hold(*this);
      bits_ &= told_bit - 1;  // and nobody has been faster than the next
      if (!take()) return false;
    }
    request.told = request.passed = false;
    return true;
  }
  static auto& request_of(Arm& arm) noexcept {
    return *static_cast<typename Self::Request*>(arm.slot);
  }

  // Of overtaking ones. The overtakers come last, so that they are counted by comparing words.
  static constexpr BitLock::Bits taken_bit = 2;
  static constexpr BitLock::Bits line_bit = 4;  // this one and the next: by Hold
  static constexpr BitLock::Bits owed_bit = 8;
  static constexpr BitLock::Bits told_bit = 16;
  static constexpr BitLock::Bits one_overtaker = 32;
  static constexpr BitLock::Bits overtaken_enough = 128 * one_overtaker;
  [[nodiscard]] bool told() const noexcept { return (bits_ & told_bit) != 0; }

  const ObjectId id_ = new_object_id();
  BitLock lock_;
  // Under lock_, like everything of Self's.
  BitLock::Bits bits_ = 0;  // what its word will be
  List<Arm> line_;
};

/// `How` names it in dumps and makes the result: see above.
template <class Self, class How>
class PassOp {
 public:
  using Result = typename How::Result;
  static constexpr Reason reason = How::reason;

  PassOp(Self& self, typename Self::Request request) noexcept
      : self_(&self), request_(std::move(request)) {}
  ObjectId object() const noexcept { return stile().id_; }
  [[gnu::always_inline]] bool at_once() noexcept
    requires(Turnstile<Self>::overtakes())
  {
    return stile().take_free();
  }
  bool try_now() {
    if constexpr (Turnstile<Self>::overtakes()) {
      request_.told = request_.passed = false;  // of an earlier wait, which was given up
      if (!stile().looks_free()) return false;
    }
    return stile().pass_now(request_);
  }
  Armed arm(Arm& arm) { return stile().arm(arm, request_); }
  void disarm(Arm& arm) noexcept { stile().disarm(arm); }
  bool confirm() noexcept
    requires(Turnstile<Self>::overtakes())
  {
    return stile().come(request_);
  }
  Result take() { return How::result(*self_, request_); }

 private:
  [[nodiscard]] Turnstile<Self>& stile() const noexcept { return *self_; }

  Self* self_;
  typename Self::Request request_;
};

}  // namespace weft

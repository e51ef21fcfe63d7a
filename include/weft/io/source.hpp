/// Source: an open descriptor, what is known of its readiness, and who waits for it.
///
/// The kernel reports only changes (edges). A change is latched here until somebody has found, by
/// EAGAIN or a short transfer, that it is used up; so no edge is lost, whoever looks when.
///
///            ready(), by the Kernel                       one word:  bits | number of changes
///     [not ready] ───────────────▶ [ready]
///                 ◀───────────────
///            used_up(what was seen before the call): only if nothing changed since then
///
/// Invariant: bit set and waiters present  ⇒  a claimed waiter is on its way to try, and will pass
/// on what it leaves. One change therefore wakes one waiter, in order; an end or an error, which
/// are never used up, wake all.
///
/// Closing wakes all waiters; they find the source closed. The number itself is closed, and may be
/// given out again by the machine, only when no call on it is in progress: a call is bracketed by
/// enter() and leave(). A reused number has a new Source, so it never wakes an old waiter.
///
/// A source is watched by one kernel at a time: that of the first task that had to wait. A waiter
/// on another Io moves it there if nobody else is waiting, and otherwise is served by the first, as
/// long as somebody waits there; then the watch follows those who still wait, since nobody may be
/// running that kernel any more. (So a loop with tasks that wait for a shared descriptor must be
/// run, or destroyed.)
///
/// Conversations. If the kernel of a TCP stream's reader can carry (Carrier, io/kernel.hpp), it
/// does not report readiness but receives by itself, once for each read that waits, and sends for
/// whoever waits for nothing else:
///
///     [plain] ─── a read waits ──▶ [carried] ─── anything else waits: ──▶ [watched]
///                                             room to send, readiness, another Io
///
/// At first there is one receive for each read that waits, of no more than it has asked for. After
/// a few it is a conversation, and there is one that goes on and on; it is stopped when bytes pile
/// up that nobody reads, so that the peer feels it. Who has had to wait for room has much to send,
/// and is better off with readiness: it stays watched for as long as this kernel has it. Bytes that
/// come when nobody waits for them are kept here. While a receive is under way, or there are bytes
/// left, nobody reads past it: the order of bytes is that of the stream. So a stream that is read
/// elsewhere in the middle of a conversation waits there until the thread that drives its last
/// kernel has next looked outside (settle() spares that).
///
/// Any thread may call any member.
#pragma once

#include <weft/base/atomic.hpp>
#include <weft/base/list.hpp>
#include <weft/base/spinlock.hpp>
#include <weft/io/kernel.hpp>
#include <weft/wait/op.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <sys/uio.h>

namespace weft {

enum class Direction : std::uint8_t { read, write };

class Source;

/// What an operation that waits lets a Carrier do for it: the slot of its arm.
struct Transfer {
  Source* source;
  iovec* part = nullptr;  // null: nothing can be done for it
  SysResult result = 0;
  std::uint32_t seen = 0;  // of the latch, before
  bool delivered = false;  // the result is there
  // The operation's own:
  bool held = false;   // it has retained the source
  bool alone = false;  // it is waited for alone, and may be carried
};

class Source {
 public:
  enum Bits : std::uint32_t {
    readable = 1,
    writable = 2,
    read_end = 4,   // the peer will send no more: reads never block again
    write_end = 8,  // error or hang-up: nothing blocks again
    assumed = 16,   // nothing has been reported yet: the bits are a guess, to be tried
  };
  enum class Kind : std::uint8_t { tcp, socket, pipe, other };

  /// Takes the descriptor over, even if it throws.
  [[nodiscard]] static Source* open(std::shared_ptr<World> world, int fd, Kind kind);

  // Calls on the descriptor

  /// False: closed.
  [[nodiscard]] bool enter() noexcept {
    std::uint32_t users =
        users_.load(std::memory_order_relaxed);  // relaxed: checked by the exchange
    do {
      if ((users & closed_bit) != 0) return false;
      // acquire: the call does not start before we are counted. Its partner is leave().
    } while (!users_.compare_exchange_weak(users, users + 1, std::memory_order_acquire,
                                           std::memory_order_relaxed));
    return true;
  }
  void leave() noexcept {
    // acq_rel: the call ends before the number is closed, by whoever is last.
    if (users_.fetch_sub(1, std::memory_order_acq_rel) == (closed_bit | 1)) close_number();
  }
  [[nodiscard]] bool closed() const noexcept {
    return (users_.load(std::memory_order_relaxed) & closed_bit) != 0;  // relaxed: a hint
  }
  [[nodiscard]] World& world() const noexcept { return *world_; }
  [[nodiscard]] const std::shared_ptr<World>& shared_world() const noexcept { return world_; }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool is_socket() const noexcept {
    return kind_ == Kind::tcp || kind_ == Kind::socket;
  }
  /// Of byte streams without marks in them: fewer bytes than asked for were all there were.
  [[nodiscard]] bool short_read_means_empty() const noexcept {
    return kind_ == Kind::tcp || kind_ == Kind::pipe;
  }

  // The latch

  /// To be taken before a call, and given to used_up() after it.
  [[nodiscard]] std::uint32_t seen() const noexcept {
    return latch_.load(std::memory_order_acquire);  // acquire: partner is the store in ready()
  }
  /// May a call in this direction succeed?
  [[nodiscard]] static bool worth_trying(std::uint32_t seen, Direction direction) noexcept {
    return (seen & (direction == Direction::read ? readable | read_end | write_end
                                                 : writable | write_end)) != 0;
  }
  /// A call made after `seen` transferred less than it could have: there is no more for now. What
  /// is known of an end stays known, because its change may have been reported along with the data.
  void used_up(std::uint32_t seen, Direction direction) noexcept {
    clear(seen, direction == Direction::read ? readable : writable);
  }
  /// It would have blocked. Then what looked like an end was none (a datagram socket that had an
  /// error, say).
  void would_block(std::uint32_t seen, Direction direction) noexcept {
    clear(seen,
          direction == Direction::read ? readable | read_end | write_end : writable | write_end);
  }

  // Waiting

  [[nodiscard]] ObjectId id() const noexcept { return id_; }
  /// Publishes `arm`, or finds that it is worth trying (or closed): won. Throws std::system_error.
  /// `into`: of a read whose bytes may be brought.
  [[nodiscard]] Armed arm(Arm& arm, Direction direction, Transfer* into = nullptr);
  void disarm(Arm& arm) noexcept;
  /// A waiter that was woken has tried: if it left something, the next one is woken.
  void pass_on(Direction direction) noexcept;
  /// Does anybody wait? For deadlock reports.
  [[nodiscard]] bool awaited() noexcept;

  // Being carried

  /// A hint: send_later() may be worth asking.
  [[nodiscard]] bool carried() const noexcept {
    return carried_.load(std::memory_order_relaxed);  // relaxed: a hint
  }
  /// True: `arm` is published, and the result will be delivered. False: make the call.
  [[nodiscard]] bool send_later(Arm& arm, Transfer& from) noexcept;
  /// What has been waited for so far was something else (a connection): begins anew.
  void begin_conversation() noexcept;
  /// Is a receive under way, or are there bytes left? Then read_kept() comes before any call.
  [[nodiscard]] bool keeps() const noexcept {
    // relaxed: set by a read that has waited. Reads that follow it know; others come in any order.
    return keeps_.load(std::memory_order_relaxed);
  }
  /// Ends a receive that is under way; see Fd::settle(). Under no lock.
  bool settle() noexcept;
  /// Nothing: make the call.
  [[nodiscard]] std::optional<SysResult> read_kept(const iovec* parts, int count) noexcept;

  // The Kernel's side

  /// `bits` have become true.
  void ready(std::uint32_t bits, WakeList& wakes) noexcept;
  /// What a receive has brought: so many bytes in `from`, 0 for the end, or minus an error number.
  /// `then`: whether there may be more of it now, and whether that will come by itself.
  enum class Then : std::uint8_t { empty, maybe_more, goes_on };
  void received(SysResult result, const std::byte* from, Then then, WakeList& wakes) noexcept;
  /// The kernel goes away: the source will be watched again when somebody waits. Nobody does now:
  /// the kernel's own tasks have ended, and to others the watch has followed.
  void lose_kernel(Kernel& kernel) noexcept;
  /// The watching kernel's own, under our lock: what it knows this source by; null if it does not.
  void* registration = nullptr;

  // Lifetime

  void retain() noexcept { refs_.fetch_add(1, std::memory_order_relaxed); }  // relaxed: we hold one
  void release() noexcept;
  /// The owner's last word, before its release(). Idempotent.
  void close() noexcept;
  /// Closes all but the descriptor itself, which is the caller's now; -1 if a call is in progress,
  /// or bytes have been received that nobody has read.
  [[nodiscard]] int take_number() noexcept;

 private:
  Source(std::shared_ptr<World> world, int fd, Kind kind) noexcept
      : world_(std::move(world)), fd_(fd), kind_(kind) {}
  ~Source() = default;

  [[nodiscard]] List<Arm>& waiters(Direction direction) noexcept {
    return direction == Direction::read ? readers_ : writers_;
  }
  void clear(std::uint32_t seen, std::uint32_t bits) noexcept {
    // relaxed: who waits next looks at the latch under the lock, and ready() sets it under the
    // lock.
    latch_.compare_exchange_strong(seen, seen & ~bits, std::memory_order_relaxed);
  }
  static void wake_all(List<Arm>& waiting, WakeList& wakes) noexcept;
  static void wake_one(List<Arm>& waiting, WakeList& wakes) noexcept;
  void set_latch(std::uint32_t bits, bool whole = true) noexcept;
  /// Of what was received: says nothing about the other bits.
  void note(std::uint32_t bits) noexcept { set_latch(bits, false); }
  [[nodiscard]] bool nobody_waits() const noexcept { return readers_.empty() && writers_.empty(); }
  void watch_by(Kernel& kernel);
  void leave_kernel() noexcept;
  [[nodiscard]] bool receive_by(Kernel& kernel, std::size_t most);
  void keep(SysResult result, const std::byte* from) noexcept;
  [[nodiscard]] SysResult hand_over(SysResult result, const std::byte* from,
                                    WakeList& wakes) noexcept;
  void follow_waiters(WakeList& wakes) noexcept;
  void leave_kernel_and_waiters() noexcept;
  void close_number() noexcept { world_->close(fd_); }

  /// Bytes that have come for nobody, or an error that nobody has met.
  struct Kept {
    std::vector<std::byte> bytes;
    std::size_t used = 0;
    SysResult error = 0;
  };

  static constexpr std::uint8_t until_conversation = 16;
  static constexpr std::size_t most_kept = std::size_t{16} << 10;  // then receiving is stopped
  static constexpr std::uint32_t closed_bit = 1U << 31;
  static constexpr std::uint32_t one_change = 32;  // above the bits

  const std::shared_ptr<World> world_;
  const ObjectId id_ = new_object_id();
  const int fd_;
  const Kind kind_;
  Atomic<std::uint32_t> refs_{1};
  Atomic<std::uint32_t> users_{0};  // calls in progress | closed_bit
  // Optimistic at first: a call is tried before anybody asks the kernel to watch.
  Atomic<std::uint32_t> latch_{readable | writable | assumed};

  Spinlock lock_;
  Kernel* watcher_ = nullptr;  // under lock_, like all that follows
  List<Arm> readers_;
  List<Arm> writers_;
  std::unique_ptr<Kept> kept_;
  bool watched_ = false;           // the watcher reports readiness; else it carries
  bool receiving_ = false;         // for the watcher, or one before it
  std::uint8_t reads_waited_ = 0;  // up to until_conversation
  // Written under lock_, and looked at without:
  Atomic<bool> mixed_{false};  // some wait on other Ios than the watcher's
  Atomic<bool> carried_{false};
  Atomic<bool> keeps_{false};  // receiving_, or there is something in kept_
};

}  // namespace weft

#if defined(WEFT_HAVE_LIBURING)

#include "io/uring_ring.hpp"

#include <weft/io/world.hpp>

#include "io/real_kernel.hpp"

#include <array>
#include <atomic>
#include <bitset>
#include <cstdio>
#include <cstring>
#include <system_error>

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace weft::io {

namespace {

// SUBMIT_ALL: a bad entry does not keep those after it from being submitted.
unsigned flags_for(const Ring::Options& options) noexcept {
  return IORING_SETUP_SUBMIT_ALL |
         (options.interrupts ? 0 : IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
}

int set_up(io_uring& ring, const Ring::Options& options, unsigned flags,
           io_uring_params& parameters) {
  parameters = {};
  parameters.flags = IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE | flags;
  parameters.cq_entries = options.completions;
  return ::io_uring_queue_init_params(options.submissions, &ring, &parameters);
}

// A new ring may lie where an old one was, on another thread. The machine orders the two, and this
// tells the compiler (and ThreadSanitizer, which does not see liburing's mappings come and go).
std::atomic<std::uint32_t> rings_ended{0};

}  // namespace

Ring::~Ring() {
  rings_ended.fetch_add(1, std::memory_order_release);  // release: partner is the load in Ring()
  ::io_uring_queue_exit(&ring_);
}

Ring::Ring(Options options) {
  io_uring_params parameters{};
  int result = set_up(ring_, options, flags_for(options), parameters);
  if (result == -EINVAL) result = set_up(ring_, options, 0, parameters);  // interrupts, then
  if (result != 0) throw_sys_error(result, "io_uring_setup failed while setting up an Io");
  // acquire: partner is the release in ~Ring().
  static_cast<void>(rings_ended.load(std::memory_order_acquire));
  entries_ = parameters.sq_entries;
  completions_ = parameters.cq_entries;
  // Entries are used in the order of their places.
  for (unsigned i = 0; i < entries_; ++i) ring_.sq.array[i] = i;
}

void Ring::check(int result) noexcept {
  switch (-result) {
    case ETIME:
    case EINTR:
    case ENOMEM:
    case EAGAIN:  // no memory now; what was not submitted stays in the queue
    case EBUSY:   // completions overflow; they must be taken first
    case EBADR:   // a completion was lost for want of memory
      return;
    default:
      WEFT_CHECK(result >= 0, "io_uring_enter: ", ::strerror(-result),
                 " (was the ring's descriptor closed by somebody else?)");
  }
}

void Ring::submit() noexcept {
  while (const unsigned count = pending()) {
    const int result = ::io_uring_enter(static_cast<unsigned>(fd()), count, 0, 0, nullptr);
    check(result);
    if (result < 0) ::sched_yield();
  }
}

void Ring::sleep(unsigned count, const timespec* limit) noexcept {
  enter(count, 1, limit);
}

int Ring::enter(unsigned count, unsigned wait_for, const timespec* limit) noexcept {
  __kernel_timespec time{};
  io_uring_getevents_arg how{};
  if (limit != nullptr) {
    time.tv_sec = limit->tv_sec;
    time.tv_nsec = limit->tv_nsec;
    how.ts = reinterpret_cast<std::uintptr_t>(&time);
  }
  const int result = ::io_uring_enter2(static_cast<unsigned>(fd()), count, wait_for,
                                       IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG,
                                       reinterpret_cast<sigset_t*>(&how), sizeof how);
  check(result);
  return result;
}

namespace {

constexpr std::size_t most_operations = 256;
std::bitset<most_operations> known_operations;  // set once, by probe_uring()

std::string read_setting(const char* path) {
  std::array<char, 64> text{};
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return "";
  const char* line = std::fgets(text.data(), static_cast<int>(text.size()), file);
  std::fclose(file);
  std::string value = line == nullptr ? "" : line;
  while (!value.empty() && value.back() == '\n') value.pop_back();
  return value;
}

std::string explain(int error) {
  switch (error) {
    case ENOSYS:
      return "this machine's kernel has no io_uring";
    case EPERM: {
      const std::string off = read_setting("/proc/sys/kernel/io_uring_disabled");
      if (off == "1" || off == "2") {
        return "io_uring is switched off here (sysctl kernel.io_uring_disabled=" + off + ")";
      }
      return "io_uring is not permitted here (a seccomp filter, as containers have?)";
    }
    case ENOMEM:
      return "there is too little memory for io_uring (or RLIMIT_MEMLOCK, see ulimit -l)";
    case EMFILE:
    case ENFILE:
      return "no descriptor was left to try io_uring with (see ulimit -n)";
    default:
      return std::string("io_uring cannot be set up: ") + ::strerror(error);
  }
}

void find_operations(Ring& ring) {
  io_uring_probe* probe = ::io_uring_get_probe_ring(&ring.raw());
  if (probe == nullptr) return;
  for (unsigned i = 0; i < most_operations; ++i) {
    known_operations[i] = ::io_uring_opcode_supported(probe, static_cast<int>(i)) != 0;
  }
  ::io_uring_free_probe(probe);
}

/// The completion of what was pushed, within a second.
bool comes_back(Ring& ring, std::uint64_t data, io_uring_cqe& cqe) {
  const timespec second{1, 0};
  const Instant until = monotonic_now() + std::chrono::seconds(1);
  while (ring.completed() == 0) {
    if (monotonic_now() > until) return false;
    ring.sleep(ring.pending(), &second);
  }
  cqe = ring.take();
  return cqe.user_data == data;
}

/// Empty if it does what the kernel needs of it.
std::string try_out(Ring& ring) {
  io_uring_cqe cqe{};
  ring.push(1, [](io_uring_sqe* sqe) { ::io_uring_prep_nop(sqe); });
  if (!comes_back(ring, 1, cqe) || cqe.res != 0) return "a test submission did not come back";
  const UniqueFd event = checked_fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), "eventfd");
  ring.push(2,
            [&](io_uring_sqe* sqe) { ::io_uring_prep_poll_multishot(sqe, event.get(), POLLIN); });
  ring.submit();
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t one = 1;
    if (::write(event.get(), &one, sizeof one) != sizeof one || !comes_back(ring, 2, cqe) ||
        cqe.res != POLLIN || (cqe.flags & IORING_CQE_F_MORE) == 0) {
      return "its repeated poll does not work here";
    }
  }
  return "";
}

}  // namespace

bool uring_can(unsigned operation) noexcept {
  return operation < most_operations && known_operations[operation];
}

std::string probe_uring() {
  try {
    Ring ring({.submissions = 4, .completions = 8});
    constexpr unsigned needed =
        IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG | IORING_FEAT_RW_CUR_POS | IORING_FEAT_CQE_SKIP;
    find_operations(ring);
    // IORING_OP_SOCKET is not used: it marks Linux 5.19, which brought the cancelling of all there
    // is.
    if ((ring.features() & needed) != needed || !uring_can(IORING_OP_POLL_ADD) ||
        !uring_can(IORING_OP_ASYNC_CANCEL) || !uring_can(IORING_OP_SOCKET)) {
      return "this machine's io_uring is too old or restricted (that of Linux 5.19 is needed)";
    }
    return try_out(ring);
  } catch (const std::system_error& error) {
    return explain(error.code().value());
  }
}

}  // namespace weft::io

#endif  // WEFT_HAVE_LIBURING

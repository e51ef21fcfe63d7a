#if defined(WEFT_HAVE_LIBURING)

#include "io/uring_calls.hpp"

#include "io/file_status.hpp"
#include "io/machine.hpp"

#include <algorithm>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>

namespace weft::io {

namespace {

using Code = SlowCall::Code;

constexpr unsigned op_none = ~0U;
constexpr unsigned op_ftruncate = 55;  // Linux 6.9; younger than the headers of some

unsigned operation_of(Code code) noexcept {
  switch (code) {
    case Code::open:
      return IORING_OP_OPENAT;
    case Code::read:
      return IORING_OP_READ;
    case Code::write:
      return IORING_OP_WRITE;
    case Code::sync:
      return IORING_OP_FSYNC;
    case Code::truncate:
      return op_ftruncate;
    case Code::stat:
      return IORING_OP_STATX;
    case Code::rename:
      return IORING_OP_RENAMEAT;
    case Code::unlink:
    case Code::remove_dir:
      return IORING_OP_UNLINKAT;
    case Code::make_dir:
      return IORING_OP_MKDIRAT;
    case Code::list_dir:
    case Code::resolve:
      return op_none;
  }
  return op_none;
}

constexpr std::size_t most_bytes = std::size_t{1} << 30;  // of one call; the machine's limit is 2G

// A write to a pipe that nobody reads raises a signal in the thread that does it. The machine's own
// threads are deaf to it.
bool may_raise_signal(int fd) noexcept {
  struct stat status{};
  return ::fstat(fd, &status) != 0 || !(S_ISREG(status.st_mode) || S_ISBLK(status.st_mode));
}

void prepare_transfer(io_uring_sqe* sqe, SlowCall& call) noexcept {
  const std::size_t size = std::min(call.buffer.size(), most_bytes);
  // An offset of -1 means the file's own position, there as here.
  const auto offset = static_cast<std::uint64_t>(call.offset < 0 ? -1 : call.offset);
  bool aside = size > most_at_once;  // else it does what it can on the thread that submits
  if (call.code == Code::read) {
    ::io_uring_prep_read(sqe, call.fd, call.buffer.data(), static_cast<unsigned>(size), offset);
  } else {
    ::io_uring_prep_write(sqe, call.fd, call.buffer.data(), static_cast<unsigned>(size), offset);
    aside = aside || may_raise_signal(call.fd);
  }
  if (aside) sqe->flags |= IOSQE_ASYNC;
}

void prepare_call(io_uring_sqe* sqe, SlowCall& call, StatAnswer* answer) noexcept {
  const char* path = call.path.c_str();
  switch (call.code) {
    case Code::open:
      ::io_uring_prep_openat(sqe, AT_FDCWD, path, call.flags | O_CLOEXEC | O_NOCTTY, call.mode);
      break;
    case Code::read:
    case Code::write:
      prepare_transfer(sqe, call);
      break;
    case Code::sync:
      ::io_uring_prep_fsync(sqe, call.fd, (call.flags & 1) != 0 ? IORING_FSYNC_DATASYNC : 0);
      break;
    case Code::truncate:
      ::io_uring_prep_rw(op_ftruncate, sqe, call.fd, nullptr, 0,
                         static_cast<std::uint64_t>(call.offset));
      break;
    case Code::stat: {
      const StatxArguments with = statx_arguments(call);
      ::io_uring_prep_statx(sqe, with.at, with.path, with.flags, with.mask, &answer->status);
      break;
    }
    case Code::rename:
      ::io_uring_prep_renameat(sqe, AT_FDCWD, path, AT_FDCWD, call.path2.c_str(), 0);
      break;
    case Code::unlink:
      ::io_uring_prep_unlinkat(sqe, AT_FDCWD, path, 0);
      break;
    case Code::remove_dir:
      ::io_uring_prep_unlinkat(sqe, AT_FDCWD, path, AT_REMOVEDIR);
      break;
    case Code::make_dir:
      ::io_uring_prep_mkdirat(sqe, AT_FDCWD, path, call.mode);
      break;
    case Code::list_dir:
    case Code::resolve:
      ::io_uring_prep_nop(sqe);  // not reached: see fits_uring()
      break;
  }
}

bool declined(SysResult result) noexcept {
  // What the machine tells itself when a call was interrupted before it had done anything:
  // ERESTARTSYS and its kind, which have no names out here.
  constexpr SysResult restart_first = -516;
  constexpr SysResult restart_last = -512;
  // EAGAIN: it would block, and the descriptor asked not to. ECANCELED, EINTR, ERESTART...: the
  // thread that submitted it has ended; nothing has been done.
  return result == -EAGAIN || result == -EINTR || result == -ECANCELED || result == -EOPNOTSUPP ||
         (result >= restart_first && result <= restart_last);
}

void finish_call(SlowCall& call, SysResult result, const StatAnswer* answer) noexcept {
  call.result = result;
  if (call.code == Code::read) {
    call.buffer.resize(static_cast<std::size_t>(std::max(result, SysResult{0})));
  }
  if (answer != nullptr && result == 0) call.status = to_file_status(answer->status);
}

}  // namespace

bool fits_uring(const SlowCall& call) noexcept {
  // Another World's calls are for it to make.
  return call.world == machine() && uring_can(operation_of(call.code));
}

std::unique_ptr<StatAnswer> CallsInFlight::begin(SlowCall& call) {
  std::unique_ptr<StatAnswer> answer;
  if (call.code == Code::stat) answer = std::make_unique<StatAnswer>(call);
  const std::size_t before = count_.fetch_add(1);
  if (before >= most_) {
    count_.fetch_sub(1);
    throw Overloaded("too many file calls: " + std::to_string(before) +
                     " are under way; retry later, or raise KernelOptions::most_queued");
  }
  return answer;
}

void CallsInFlight::enter(SlowCall& call, StatAnswer* answer) noexcept {
  const auto data = answer == nullptr ? data_of(Tag::call, &call) : data_of(Tag::stat, answer);
  ring_.push(data, [&](io_uring_sqe* sqe) { prepare_call(sqe, call, answer); });
}

void CallsInFlight::came_back(const io_uring_cqe& cqe, bool closing) noexcept {
  std::unique_ptr<StatAnswer> answer;
  if (tag_of(cqe.user_data) == Tag::stat) answer.reset(&pointed_at<StatAnswer>(cqe.user_data));
  SlowCall& call = answer ? answer->call : pointed_at<SlowCall>(cqe.user_data);
  bool elsewhere = declined(cqe.res) && !closing;
  if (elsewhere) {
    try {
      pool_.start(call);
    } catch (const std::exception&) {
      elsewhere = false;  // there is too much to do: then this is the result
    }
  }
  if (!elsewhere) {
    finish_call(call, cqe.res, answer.get());
    call.complete();
  }
  count_.fetch_sub(1);  // not sooner: whoever finds none has seen what their ends brought about
}

}  // namespace weft::io

#endif  // WEFT_HAVE_LIBURING

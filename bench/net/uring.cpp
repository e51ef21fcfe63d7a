#if defined(WEFT_BENCH_URING)

#include "net/uring.hpp"

#include <cerrno>
#include <system_error>

#include <sys/mman.h>

namespace weft::bench {

namespace {

void check(int result, const char* what) {
  if (result < 0) throw std::system_error(-result, std::generic_category(), what);
}

void* map(std::size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) check(-errno, "mmap");
  return memory;
}

}  // namespace

Ring::Ring(unsigned flags) {
  io_uring_params parameters{};
  parameters.flags = flags | IORING_SETUP_CQSIZE;
  parameters.cq_entries = 16384;
  check(::io_uring_queue_init_params(4096, &ring_, &parameters),
        "io_uring is forbidden here, or the kernel is older than 6.1: io_uring_queue_init_params");
  ::io_uring_register_ring_fd(&ring_);  // saves a little in each call; may fail
}

io_uring_sqe* Ring::next() {
  io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {
    check(::io_uring_submit(&ring_), "io_uring_submit");
    sqe = ::io_uring_get_sqe(&ring_);
  }
  return sqe;
}

void Ring::enter(__kernel_timespec* timeout) {
  io_uring_cqe* cqe = nullptr;
  const int result = timeout == nullptr
                         ? ::io_uring_submit_and_wait(&ring_, 1)
                         : ::io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, timeout, nullptr);
  if (result != -EINTR && result != -ETIME) check(result, "io_uring_enter");
}

Buffers::Buffers(Ring& ring)
    : owner_(ring),
      ring_(static_cast<io_uring_buf_ring*>(map(count * sizeof(io_uring_buf)))),
      memory_(static_cast<char*>(map(count * size))) {
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(ring_);
  registration.ring_entries = count;
  check(::io_uring_register_buf_ring(owner_.get(), &registration, 0), "io_uring_register_buf_ring");
  ::io_uring_buf_ring_init(ring_);
  for (unsigned id = 0; id < count; ++id) give(static_cast<std::uint16_t>(id));
}

Buffers::~Buffers() {
  ::io_uring_unregister_buf_ring(owner_.get(), 0);
  ::munmap(ring_, count * sizeof(io_uring_buf));
  ::munmap(memory_, count * size);
}

}  // namespace weft::bench

#endif

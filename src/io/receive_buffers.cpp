#if defined(WEFT_HAVE_LIBURING)

#include "io/receive_buffers.hpp"

#include <sys/mman.h>

namespace weft::io {

namespace {
constexpr std::size_t entries_size = ReceiveBuffers::count * sizeof(io_uring_buf);
constexpr std::size_t total_size = entries_size + ReceiveBuffers::count * ReceiveBuffers::size;
}  // namespace

bool ReceiveBuffers::make() noexcept {
  if (state_ == State::impossible) return false;
  state_ = State::impossible;
  // Pages come when they are used; the entries must begin a page.
  void* const memory =
      ::mmap(nullptr, total_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  io_uring_buf_reg registration{};
  registration.ring_addr = reinterpret_cast<std::uintptr_t>(memory);
  registration.ring_entries = count;
  registration.bgid = group;
  if (::io_uring_register_buf_ring(&ring_.raw(), &registration, 0) != 0) {
    ::munmap(memory, total_size);
    return false;
  }
  entries_ = static_cast<io_uring_buf_ring*>(memory);
  memory_ = static_cast<std::byte*>(memory) + entries_size;
  state_ = State::ready;
  for (unsigned id = 0; id < count; ++id) give(static_cast<std::uint16_t>(id));
  return true;
}

ReceiveBuffers::~ReceiveBuffers() {
  if (state_ != State::ready) return;
  ::io_uring_unregister_buf_ring(&ring_.raw(), group);
  ::munmap(entries_, total_size);
}

void ReceiveBuffers::give(std::uint16_t id) noexcept {
  // Not by the array in io_uring_buf_ring, which some versions of the header misplace in C++. The
  // tail lies in an unused field of the first entry.
  io_uring_buf& entry = reinterpret_cast<io_uring_buf*>(entries_)[tail_ & (count - 1)];
  entry.addr = reinterpret_cast<std::uintptr_t>(data(id));
  entry.len = size;
  entry.bid = id;
  ++tail_;
  ::io_uring_smp_store_release(&entries_->tail, tail_);  // release: partner is in the machine
}

}  // namespace weft::io

#endif

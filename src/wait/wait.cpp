#include <weft/wait/wait.hpp>

// initial-exec: one load instead of a call into the dynamic linker; eight bytes of static TLS are
// always available, also in a library loaded with dlopen. Its name stands in current()'s assembly.
extern "C" {
[[gnu::tls_model("initial-exec"),
  gnu::used]] constinit thread_local weft::Current* weft_this_thread = nullptr;
}

namespace weft {

namespace {

std::atomic<std::uint64_t> last_object_id{0};

}  // namespace

const CancelFlag Wait::never_cancelled;

void Wait::throw_cancelled() const {
  throw Cancelled(cancel_reason());
}

#if !defined(__x86_64__)
// The empty asm keeps compilers from treating the function as pure and merging two calls around a
// switch. Not for ThreadSanitizer: it is the thread's, whatever tasks it runs.
[[gnu::noinline]] __attribute__((no_sanitize("thread"))) Current* current() noexcept {
  asm volatile("" ::: "memory");
  return weft_this_thread;
}
#endif

[[gnu::noinline]] __attribute__((no_sanitize("thread"))) void set_current(
    Current* current) noexcept {
  weft_this_thread = current;
}

ObjectId new_object_id() noexcept {
  // relaxed: uniqueness is all that is asked for.
  return static_cast<ObjectId>(last_object_id.fetch_add(1, std::memory_order_relaxed) + 1);
}

}  // namespace weft

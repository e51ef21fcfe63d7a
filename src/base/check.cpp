#include <weft/base/check.hpp>

#include <unistd.h>

namespace weft::detail {

std::atomic<WhoAmI> who_am_i{nullptr};

void panic(const char* file, int line, const char* condition, std::string_view message) noexcept {
  char who[256] = {};
  if (const WhoAmI name = who_am_i.load(std::memory_order_relaxed)) {  // relaxed: it never changes
    name(who, sizeof who - 1);
  }
  char text[2048];
  const int size =
      std::snprintf(text, sizeof text, "weft: check failed%s%s: %.*s\n  at %s:%d: %s\n",
                    who[0] != '\0' ? " in " : "", who, static_cast<int>(message.size()),
                    message.data(), file, line, condition);
  if (size > 0) {
    const auto count = static_cast<std::size_t>(size) < sizeof text ? static_cast<std::size_t>(size)
                                                                    : sizeof text - 1;
    // Nothing can be done about a failing write on the way to abort.
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, count);
  }
  std::abort();
}

}  // namespace weft::detail

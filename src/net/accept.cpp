#include <weft/net/accept.hpp>

#include <cstdio>
#include <cstring>

#include <netinet/tcp.h>
#include <sys/resource.h>

namespace weft::detail {

namespace {

// accept(2): errors of the connection that is being accepted, not of the listener.
bool concerns_one_connection(SysResult error) noexcept {
  switch (-error) {
    case ECONNABORTED:
    case ECONNRESET:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
    case ETIMEDOUT:
      return true;
    default:
      return false;
  }
}

bool is_want(SysResult error) noexcept {
  return error == -EMFILE || error == -ENFILE || error == -ENOBUFS || error == -ENOMEM;
}

/// Broken connections to skip before others get their turn.
constexpr int most_skipped = 64;

}  // namespace

AcceptCore::~AcceptCore() {
  if (accepted_ >= 0) source().world().close(accepted_);
}

SysResult AcceptCore::call(Source& source) noexcept {
  return source.world().accept(source.fd(), nullptr, nullptr);
}

Verdict AcceptCore::judge(SysResult result) noexcept {
  if (result >= 0) {
    accepted_ = static_cast<int>(result);
    return Verdict::done;
  }
  if (result == -EAGAIN) return Verdict::wait;
  if (concerns_one_connection(result)) {
    if (++skipped_ % most_skipped != 0) return Verdict::again;
    return Verdict::pause;
  }
  if (!is_want(result)) return Verdict::done;
  starve(result);
  return Verdict::pause;
}

void AcceptCore::starve(SysResult error) noexcept {
  // relaxed: a count
  if (listening_->starved.fetch_add(1, std::memory_order_relaxed) > 0) return;
  if (simulated()) return;  // in so many runs it says nothing
  char why[96] = "no memory";
  if (error == -ENFILE) {
    std::snprintf(why, sizeof why, "the machine has no descriptor left, see fs.file-max");
  } else if (error == -EMFILE) {
    rlimit limit{};
    // A simulated World has limits of its own.
    const bool known =
        &source().world() == machine().get() && ::getrlimit(RLIMIT_NOFILE, &limit) == 0;
    char value[32] = "";
    if (known) {
      std::snprintf(value, sizeof value, " of %llu",
                    static_cast<unsigned long long>(limit.rlim_cur));
    }
    std::snprintf(why, sizeof why, "no descriptor left, RLIMIT_NOFILE%s is too low, see ulimit -n",
                  value);
  }
  std::fprintf(stderr,
               "weft: listener %s cannot accept (%s: %s); connections wait in the kernel, next try "
               "every %lld ms\n",
               listening_->name.c_str(), ::strerrorname_np(static_cast<int>(-error)), why,
               static_cast<long long>(accept_pause / std::chrono::milliseconds(1)));
}

Fd AcceptCore::take_fd(Source::Kind kind) {
  if (accepted_ < 0) throw_sys_error(result(), "accepting a connection at " + listening_->name);
  return Fd(source().shared_world(), std::exchange(accepted_, -1), kind);
}

Fd listen_at(const Address& address, Source::Kind kind, const ListenOptions& options) {
  const std::string what = "listening at " + address.to_string();
  Socket socket(open_socket(address.family(), SOCK_STREAM, kind, what));
  World& world = socket.fd().world();
  const int number = socket.fd().number();
  if (!address.is_unix()) {
    socket.set_option(SOL_SOCKET, SO_REUSEADDR, 1);
    if (options.reuse_port) socket.set_option(SOL_SOCKET, SO_REUSEPORT, 1);
    if (address.is_v6()) {
      socket.set_option(IPPROTO_IPV6, IPV6_V6ONLY, options.ipv6_only ? 1 : 0);
    }
    // Inherited by what is accepted, which saves a call for each.
    socket.set_option(IPPROTO_TCP, TCP_NODELAY, 1);
  }
  SysResult result = world.bind(number, address.native(), address.native_size());
  if (result >= 0) result = world.listen(number, options.backlog);
  if (result < 0) throw_sys_error(result, what);
  return std::move(socket.fd());
}

}  // namespace weft::detail

/// Looking up names: from a host and a port to addresses.
///
///     std::vector<Address> all = resolve("example.com", 80);     // never empty
///     auto all = co_await resolve_op("example.com", 80);
///
/// The machine's resolver blocks, so it runs on the side (io/job.hpp), never on a worker. One that
/// is given up goes on there until it has an answer that nobody wants. An address instead of a name
/// is its own answer, at once; no host at all means this machine.
///
/// The order is the resolver's: what it thinks works best comes first.
#pragma once

#include <weft/io/slow_call.hpp>
#include <weft/net/address.hpp>
#include <weft/wait/perform.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// "looking up nosuch.example: Name or service not known"
class ResolveError : public std::runtime_error {
 public:
  /// `code`: one of EAI_.
  ResolveError(std::string_view host, int code);

  [[nodiscard]] const std::string& host() const noexcept { return host_; }
  [[nodiscard]] int code() const noexcept { return code_; }
  /// May it be different in a minute?
  [[nodiscard]] bool temporary() const noexcept;

 private:
  std::string host_;
  int code_;
};

class ResolveOp {
 public:
  using Result = std::vector<Address>;
  static constexpr Reason reason{"resolve"};
  static constexpr bool outside = true;

  ResolveOp(std::string_view host, std::uint16_t port);
  ResolveOp(ResolveOp&&) noexcept = default;

  ObjectId object() const noexcept { return job_ ? job_->id() : ObjectId::none; }
  bool try_now() const noexcept { return !known_.empty() || job_->done(); }
  Armed arm(Arm& arm) { return job_->arm(arm); }
  void disarm(Arm& arm) noexcept { job_->disarm(arm); }
  Result take();

 private:
  std::vector<Address> known_;  // without asking; then there is no job
  JobRef<SlowCall> job_;
};

[[nodiscard]] inline ResolveOp resolve_op(std::string_view host, std::uint16_t port) {
  return {host, port};
}
inline std::vector<Address> resolve(std::string_view host, std::uint16_t port) {
  return perform(resolve_op(host, port));
}

}  // namespace weft

#include <weft/net/resolve.hpp>

#include <weft/io/fd.hpp>

#include <algorithm>
#include <optional>

#include <netdb.h>

namespace weft {

namespace {

/// The answer if no resolver is needed.
std::vector<Address> answer_to(std::string_view host, std::uint16_t port) {
  if (host.empty()) return {Address::loopback6(port), Address::loopback(port)};
  const std::string number = std::to_string(port);
  const bool v6 = host.find(':') != std::string_view::npos;
  const std::string text =
      v6 ? "[" + std::string(host) + "]:" + number : std::string(host) + ":" + number;
  if (const auto literal = Address::try_parse(text); literal && !literal->is_unix()) {
    return {*literal};
  }
  return {};
}

}  // namespace

ResolveError::ResolveError(std::string_view host, int code)
    : std::runtime_error("looking up " + std::string(host) + ": " + ::gai_strerror(code)),
      host_(host),
      code_(code) {}

bool ResolveError::temporary() const noexcept {
  return code_ == EAI_AGAIN || code_ == EAI_MEMORY;
}

ResolveOp::ResolveOp(std::string_view host, std::uint16_t port) : known_(answer_to(host, port)) {
  if (!known_.empty()) return;
  job_ = JobRef(new SlowCall(SlowCall::Code::resolve, this_world()));
  job_->path = host;
  job_->path2 = std::to_string(port);
}

std::vector<Address> ResolveOp::take() {
  if (!known_.empty()) return std::move(known_);
  if (job_->result != 0) throw ResolveError(job_->path, static_cast<int>(job_->result));
  std::vector<Address> found;
  for (const std::vector<std::byte>& bytes : job_->addresses) {
    const Address address = Address::from_native(reinterpret_cast<const sockaddr*>(bytes.data()),
                                                 static_cast<socklen_t>(bytes.size()));
    if (std::ranges::find(found, address) == found.end()) found.push_back(address);
  }
  if (found.empty()) throw ResolveError(job_->path, EAI_NONAME);
  return found;
}

}  // namespace weft

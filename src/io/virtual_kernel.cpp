#include <weft/io/kernel.hpp>

namespace weft {

namespace {

class VirtualKernel final : public Kernel {
 public:
  explicit VirtualKernel(Instant start) noexcept : now_(start) {}
  Instant now() noexcept override { return now_; }
  void wait(Instant deadline) override {
    if (deadline > now_) now_ = deadline;
  }
  void interrupt() noexcept override {}
  bool outside_may_wake() noexcept override { return false; }
  Duration patience() const noexcept override { return Duration::zero(); }
  Description describe() const override { return {"virtual", "time is virtual"}; }

 private:
  Instant now_;
};

}  // namespace

std::unique_ptr<Kernel> make_virtual_kernel(Instant start) {
  return std::make_unique<VirtualKernel>(start);
}

}  // namespace weft

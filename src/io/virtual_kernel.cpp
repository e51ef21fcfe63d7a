#include <weft/io/kernel.hpp>

namespace weft {

namespace {

class VirtualKernel final : public Kernel {
 public:
  explicit VirtualKernel(Instant start) noexcept : now_(start) {}
  Instant now() noexcept override { return now_.load(); }
  // Only the waiting thread changes the time; others read it. Without a deadline it is another
  // thread that must end the wait.
  void wait(Instant deadline) override {
    if (deadline.is_never()) {
      interrupted_.wait(0);
    } else if (deadline > now_.load()) {
      now_.store(deadline);
    }
    interrupted_.store(0);
  }
  void interrupt() noexcept override {
    interrupted_.store(1);
    interrupted_.notify_one();
  }
  bool outside_may_wake(std::size_t) noexcept override { return false; }
  Duration patience() const noexcept override { return Duration::zero(); }
  Description describe() const override { return {"virtual", "time is virtual"}; }

 private:
  std::atomic<Instant> now_;
  std::atomic<std::uint32_t> interrupted_{0};
};

}  // namespace

std::unique_ptr<Kernel> make_virtual_kernel(Instant start) {
  return std::make_unique<VirtualKernel>(start);
}

}  // namespace weft

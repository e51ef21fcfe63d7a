/// Descriptors that are nothing but a number of bytes, and kernels that report their changes as
/// epoll does: edges, merged until they are fetched, with the state of then.
///
///     auto world = std::make_shared<MemoryWorld>();
///     Fd fd = world->make(Source::Kind::pipe);
///     Loop loop({.kernel = world->make_kernel(), .on_deadlock = OnDeadlock::wait});
///     world->supply(fd.number(), 3);
///
/// Any number of kernels, on any threads. A number that is closed is given out again by the next
/// make(). A call on a number that is not open is counted, as it must never happen.
#pragma once

#include <weft/io/fd.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace weft::test {

class MemoryWorld : public World, public std::enable_shared_from_this<MemoryWorld> {
 public:
  [[nodiscard]] Fd make(Source::Kind kind) {
    int number = 0;
    {
      const std::lock_guard guard(mutex_);
      while (files_.contains(number)) ++number;
      files_[number];
    }
    return Fd(shared_from_this(), number, kind);
  }
  [[nodiscard]] std::unique_ptr<Kernel> make_kernel();

  // The far end

  void supply(int number, std::size_t bytes) {
    change(number, [&](File& file) { file.bytes += bytes; });
  }
  /// The same, but no kernel reports it.
  void supply_unseen(int number, std::size_t bytes) {
    const std::lock_guard guard(mutex_);
    files_.at(number).bytes += bytes;
  }
  void end(int number) {
    change(number, [](File& file) { file.ended = true; });
  }
  /// How much can be written from now on; at first, as much as anybody likes.
  void give_room(int number, std::size_t bytes) {
    change(number, [&](File& file) { file.room = bytes; });
  }

  // Facts

  [[nodiscard]] std::size_t bytes(int number) {
    const std::lock_guard guard(mutex_);
    const auto file = files_.find(number);
    return file == files_.end() ? 0 : file->second.bytes;
  }
  [[nodiscard]] std::size_t written(int number) {
    const std::lock_guard guard(mutex_);
    const auto file = files_.find(number);
    return file == files_.end() ? 0 : file->second.written;
  }
  [[nodiscard]] bool open(int number) {
    const std::lock_guard guard(mutex_);
    return files_.contains(number);
  }
  [[nodiscard]] std::size_t open() {
    const std::lock_guard guard(mutex_);
    return files_.size();
  }
  [[nodiscard]] std::size_t reads() {
    const std::lock_guard guard(mutex_);
    return reads_;
  }
  [[nodiscard]] std::size_t wrong_calls() {
    const std::lock_guard guard(mutex_);
    return wrong_calls_;
  }
  /// Who watches it; null if nobody does.
  [[nodiscard]] const Kernel* watcher(int number);

  /// Called in the middle of a read: when its answer is known, and not yet given.
  std::function<void()> during_read;
  /// Called in the middle of arming on this kernel, under the source's lock. May throw.
  std::function<void(const Kernel&)> during_arm;
  /// The next this many watches fail.
  int failing_watches = 0;

  // World

  SysResult read(int number, const iovec* parts, int count) override {
    SysResult result = -EAGAIN;
    {
      const std::lock_guard guard(mutex_);
      ++reads_;
      const auto file = files_.find(number);
      if (file == files_.end()) {
        ++wrong_calls_;
        return -EBADF;
      }
      const std::size_t n = std::min(size_of(parts, count), file->second.bytes);
      file->second.bytes -= n;
      if (n > 0 || file->second.ended) result = static_cast<SysResult>(n);
    }
    if (during_read) during_read();
    return result;
  }
  SysResult write(int number, const iovec* parts, int count) override {
    const std::lock_guard guard(mutex_);
    const auto file = files_.find(number);
    if (file == files_.end()) {
      ++wrong_calls_;
      return -EBADF;
    }
    const std::size_t n = std::min(size_of(parts, count), file->second.room);
    file->second.room -= n;
    file->second.written += n;
    return n > 0 ? static_cast<SysResult>(n) : -EAGAIN;
  }
  SysResult close(int number) noexcept override {
    const std::lock_guard guard(mutex_);
    if (files_.erase(number) == 0) ++wrong_calls_;
    return 0;
  }

 private:
  class MemoryKernel;
  struct Watch {
    Watch(MemoryKernel& by, Source& of) : kernel(by), source(of) { source.retain(); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    ~Watch() { source.release(); }
    MemoryKernel& kernel;
    Source& source;
    bool edge = false;
  };
  struct File {
    std::size_t bytes = 0;
    std::size_t room = std::size_t{1} << 40;
    std::size_t written = 0;
    bool ended = false;
    std::vector<std::shared_ptr<Watch>> watches;

    [[nodiscard]] std::uint32_t bits() const {
      std::uint32_t bits = 0;
      if (room > 0) bits |= Source::writable;
      if (bytes > 0 || ended) bits |= Source::readable;
      if (ended) bits |= Source::read_end;
      return bits;
    }
  };

  static std::size_t size_of(const iovec* parts, int count) {
    std::size_t size = 0;
    for (int i = 0; i < count; ++i) size += parts[i].iov_len;
    return size;
  }
  template <class Change>
  void change(int number, Change make_change);

  std::mutex mutex_;  // after a source's lock
  std::map<int, File> files_;
  std::size_t reads_ = 0;
  std::size_t wrong_calls_ = 0;
};

/// Waits as a plain thread does; the rest comes from the world.
class MemoryWorld::MemoryKernel final : public Kernel {
 public:
  explicit MemoryKernel(std::shared_ptr<MemoryWorld> world) : world_(std::move(world)) {}
  ~MemoryKernel() override {
    std::vector<std::shared_ptr<Watch>> mine;
    {
      const std::lock_guard guard(world_->mutex_);
      for (auto& [number, file] : world_->files_) {
        for (const auto& watch : file.watches) {
          if (&watch->kernel == this) mine.push_back(watch);
        }
        std::erase_if(file.watches, [this](const auto& watch) { return &watch->kernel == this; });
      }
    }
    for (const auto& watch : mine) watch->source.lose_kernel(*this);
  }

  Instant now() noexcept override { return waiting_->now(); }
  Duration patience() const noexcept override { return waiting_->patience(); }
  bool outside_may_wake(std::size_t own) noexcept override {
    return waiting_->outside_may_wake(own);
  }
  std::shared_ptr<World> world() override { return world_; }
  Description describe() const override { return {"memory", "for tests"}; }
  void interrupt() noexcept override { waiting_->interrupt(); }
  void wait(Instant deadline) override {
    if (!report()) waiting_->wait(deadline);
    report();
  }

  Kernel& watcher() override {
    if (world_->during_arm) world_->during_arm(*this);
    return *this;
  }
  void watch(Source& source) override {
    use();
    const auto watch = std::make_shared<Watch>(*this, source);
    const std::lock_guard guard(world_->mutex_);
    if (world_->failing_watches > 0) {
      --world_->failing_watches;
      throw_sys_error(-ENOSPC, "watching");
    }
    world_->files_.at(source.fd()).watches.push_back(watch);
    watch->edge = true;  // the present state counts as a change
    interrupt();
  }
  void unwatch(Source& source) noexcept override {
    const std::lock_guard guard(world_->mutex_);
    std::erase_if(world_->files_.at(source.fd()).watches, [&](const auto& watch) {
      return &watch->kernel == this && &watch->source == &source;
    });
  }

 private:
  bool report() {
    std::vector<std::pair<std::shared_ptr<Watch>, std::uint32_t>> events;
    {
      const std::lock_guard guard(world_->mutex_);
      for (auto& [number, file] : world_->files_) {
        for (const auto& watch : file.watches) {
          if (&watch->kernel == this && std::exchange(watch->edge, false)) {
            events.emplace_back(watch, file.bits());
          }
        }
      }
    }
    WakeList wakes;
    for (const auto& [watch, bits] : events) watch->source.ready(bits, wakes);
    return !events.empty();
  }

  const std::shared_ptr<MemoryWorld> world_;
  const std::unique_ptr<Kernel> waiting_ = make_thread_kernel();
};

inline std::unique_ptr<Kernel> MemoryWorld::make_kernel() {
  return std::make_unique<MemoryKernel>(std::static_pointer_cast<MemoryWorld>(shared_from_this()));
}

inline const Kernel* MemoryWorld::watcher(int number) {
  const std::lock_guard guard(mutex_);
  const auto& watches = files_.at(number).watches;
  return watches.empty() ? nullptr : &watches.front()->kernel;
}

template <class Change>
void MemoryWorld::change(int number, Change make_change) {
  const std::lock_guard guard(mutex_);
  File& file = files_.at(number);
  make_change(file);
  for (const auto& watch : file.watches) {
    watch->edge = true;
    watch->kernel.interrupt();  // it is there as long as its watch is
  }
}

}  // namespace weft::test

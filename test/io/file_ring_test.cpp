// Files on a ring of their own, under epoll: what becomes of calls whose thread ends, that block,
// or that nobody waits for any more.
#include <weft/base/unique_fd.hpp>
#include <weft/io/file.hpp>

#include "support/real.hpp"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/stat.h>

using namespace weft;
using namespace weft::test;

namespace {

#define NEEDS_URING() \
  if (!why_no_uring().empty()) GTEST_SKIP() << "no io_uring: " << why_no_uring()

class Scratch {
 public:
  Scratch() {
    std::string name = std::filesystem::temp_directory_path() / "weft-files.XXXXXX";
    path_ = ::mkdtemp(name.data());
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

std::unique_ptr<Loop> mixed_loop() {
  return std::make_unique<Loop>(
      LoopOptions{.kernel = make_real_kernel({.backend = Backend::mixed})});
}

/// Opening a FIFO for writing (with O_CREAT, which the machine does on the side) blocks until
/// somebody reads.
constexpr OpenMode blocking_open = OpenMode::write | OpenMode::create;

TEST(FileRing, S8_CallsOfAThreadThatEndsAreMadeAgain) {
  NEEDS_URING();
  const Scratch scratch;
  const std::string fifo = scratch / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  auto loop = mixed_loop();
  auto opened = loop->spawn([&] {
    const File file = File::open(fifo, blocking_open);
    return true;
  });
  std::thread([&] { loop->block_on([] { sleep(std::chrono::milliseconds(20)); }); }).join();
  const UniqueFd reader(::open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  loop->run();
  EXPECT_TRUE(opened.get());
}

TEST(FileRing, S8_CallsThatBlockLeaveRoomForOthers) {
  NEEDS_URING();
  const Scratch scratch;
  constexpr std::size_t count = 24;  // more than the machine has threads by itself
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_EQ(::mkfifo((scratch / std::to_string(i)).c_str(), 0600), 0);
  }
  mixed_loop()->run([&] {
    Scope scope;
    for (std::size_t i = 0; i < count; ++i) {
      scope.spawn([&, i] { return File::open(scratch / std::to_string(i), blocking_open); });
    }
    sleep(std::chrono::milliseconds(20));
    for (int i = 0; i < 5; ++i) EXPECT_EQ(file_status("/").kind, FileStatus::Kind::directory);
    EXPECT_EQ(scope.size(), count);  // they still block
    std::array<UniqueFd, count> readers;
    for (std::size_t i = 0; i < count; ++i) {
      const std::string path = scratch / std::to_string(i);
      readers[i] = UniqueFd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    }
    scope.join();
  });
}

TEST(FileRing, S8_ACancelledCallIsNotMadeLater) {
  NEEDS_URING();
  const Scratch scratch;
  const std::string path = scratch / "file";
  auto loop = mixed_loop();
  loop->run([] { sleep(std::chrono::microseconds(1)); });  // this thread is the one that waits
  for (int round = 0; round < 20; ++round) {
    std::ofstream(path) << "old";
    loop->run([&] {
      Scope scope;
      scope.spawn([&] { remove_file(path); });
      yield();  // it is begun
      scope.cancel();
    });
    // It has been made, or is being made: nobody need wait on the loop for that.
    while (std::filesystem::exists(path)) std::this_thread::yield();
    std::ofstream(path) << "new";
    loop->run([] { sleep(std::chrono::milliseconds(1)); });
    EXPECT_TRUE(std::filesystem::exists(path)) << "round " << round;
  }
}

}  // namespace

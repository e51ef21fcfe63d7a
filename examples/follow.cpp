// Follows a file as it grows, like tail -F: also when it is truncated, and when it is rotated, that
// is, renamed, with a new file in its place.
//
//     follow FILE    prints its lines, and those that are added, until interrupted
//     follow         a demonstration
#include <weft/weft.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include <unistd.h>

using namespace std::chrono_literals;

namespace {

class Follower {
 public:
  Follower(std::string path, weft::Duration interval)
      : path_(std::move(path)), interval_(interval) {}

  /// The next whole line; waits until there is one.
  std::string next_line() {
    for (;;) {
      if (const auto end = text_.find('\n'); end != std::string::npos) {
        std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        return line;
      }
      if (!read_on() && !find_change()) weft::sleep(interval_);
    }
  }

 private:
  bool read_on() {
    if (!file_) return false;
    const std::size_t n = file_.read(buffer_);
    text_ += weft::as_text(weft::Bytes(buffer_).first(n));
    return n > 0;
  }

  // We are at the end of our file. True: there may be more to read after all.
  bool find_change() {
    const auto named = weft::find_file(path_);
    if (!file_) {
      if (named) file_ = weft::File::open(path_);
      return named.has_value();
    }
    const weft::FileStatus ours = file_.status();
    if (ours.size < file_.position()) {  // truncated: what is in it now is new
      text_.clear();
      file_.seek(0);
      return true;
    }
    if (!named || (named->inode == ours.inode && named->device == ours.device)) return false;
    // Rotated. Something may have been added to the old file before it lost its name, so it is
    // read to its end once more; then the new one is opened.
    if (rotated_) {
      file_.close();
      if (!text_.empty()) text_ += '\n';
    }
    rotated_ = !rotated_;
    return true;
  }

  const std::string path_;
  const weft::Duration interval_;
  weft::File file_;
  bool rotated_ = false;  // file_ has lost its name
  std::string text_;      // read, not yet given out
  std::array<std::byte, 4096> buffer_{};
};

void follow(const std::string& path) {
  Follower follower(path, 100ms);
  for (;;) {
    std::puts(follower.next_line().c_str());
    std::fflush(stdout);
  }
}

void append(const std::string& path, std::string_view text) {
  weft::File::open(path, weft::OpenMode::append | weft::OpenMode::create).write(text);
}

void demonstrate(const std::string& directory) {
  const std::string path = directory + "/log";
  weft::Channel<std::string> lines;
  weft::Scope scope;
  auto follower = scope.spawn([&] {
    Follower following(path, 1ms);
    for (;;) lines.send(following.next_line());
  });
  auto expect = [&](int count) {
    for (; count > 0; --count) std::printf("  %s\n", lines.recv()->c_str());
  };

  std::puts("a file appears and grows:");
  append(path, "first\nsecond\nthird, ");
  expect(2);
  append(path, "completed later\n");
  expect(1);

  std::puts("it is rotated:");
  append(path, "last of the old file\n");
  weft::rename_file(path, path + ".1");
  append(path, "first of the new file\n");
  expect(2);

  std::puts("it is truncated:");
  weft::write_file(path, "a new start\n");
  expect(1);

  follower.cancel();  // it would follow for ever
}

}  // namespace

int main(int argc, char** argv) {
  try {
    weft::Loop loop;
    loop.run([&] {
      if (argc > 1) return follow(argv[1]);
      const std::string directory =
          std::filesystem::temp_directory_path() / ("weft-follow-" + std::to_string(::getpid()));
      weft::make_dir(directory);
      demonstrate(directory);
      weft::blocking([directory] { std::filesystem::remove_all(directory); });
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "follow: %s\n", error.what());
    return 1;
  }
  return 0;
}

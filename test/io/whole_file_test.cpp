#include <weft/io/file.hpp>

#include "support/files.hpp"
#include "support/real.hpp"

#include <utility>

using namespace weft;
using namespace weft::test;

namespace {

REAL(WholeFile, F4_FilesThatDoNotKnowTheirSize) {
  const std::string status = co_await co_read_file("/proc/self/status");
  EXPECT_NE(status.find("Name:"), std::string::npos);
  EXPECT_EQ(co_await co_read_file("/dev/null"), "");
}

REAL(WholeFile, F4_AtomicWriteReplacesOrMakes) {
  const TempDir dir;
  co_await co_write_file_atomically(dir / "a", "one", 0640);
  EXPECT_EQ(co_await co_read_file(dir / "a"), "one");
  EXPECT_EQ((co_await file_status_op(dir / "a")).mode, 0640U);
  std::filesystem::permissions(dir / "a", std::filesystem::perms{0600});
  co_await co_write_file_atomically(dir / "a", "two");
  EXPECT_EQ(co_await co_read_file(dir / "a"), "two");
  EXPECT_EQ((co_await file_status_op(dir / "a")).mode, 0600U);
  EXPECT_EQ((co_await list_dir_op(dir.path())).size(), 1U);

  Failure f = co_await failure_of([&] { return co_write_file_atomically(dir / "none/a", "x"); });
  EXPECT_EQ(f.code, ENOENT);
  co_await make_dir_op(dir / "d");
  f = co_await failure_of([&] { return co_write_file_atomically(dir / "d", "x"); });
  EXPECT_EQ(f.code, EISDIR);
  EXPECT_EQ((co_await list_dir_op(dir.path())).size(), 2U);  // and no temporary file
}

bool is_one_version(const std::string& text) {
  return text.size() == 200'000 && text.find_first_not_of(text[0]) == std::string::npos;
}

REAL(WholeFile, F4_AtomicWriteNeverShowsAPart) {
  const TempDir dir;
  co_await co_write_file_atomically(dir / "a", std::string(200'000, 'a'));
  Scope scope;
  auto reader = here.spawn(scope, [&]() -> Coro<int> {
    int versions = 0;
    for (char last = 'a'; last != 'z';) {
      const std::string text = co_await co_read_file(dir / "a");
      EXPECT_TRUE(is_one_version(text));
      if (text.empty()) break;
      versions += text[0] != std::exchange(last, text[0]) ? 1 : 0;
    }
    co_return versions;
  });
  for (char c = 'b'; c <= 'z'; ++c) {
    const std::string text(200'000, c);
    co_await co_write_file_atomically(dir / "a", text);
  }
  EXPECT_GE((co_await reader.join_op()).value(), 1);
}

REAL(WholeFile, F9_CancelledAtomicWriteLeavesNoTemporaryFile) {
  const TempDir dir;
  Rng rng(7);
  co_await co_write_file_atomically(dir / "a", std::string(200'000, 'a'));
  const std::size_t rounds = scaled(20, 100, 2000);
  for (std::size_t i = 0; i < rounds; ++i) {
    Scope scope;
    const std::string text(200'000, static_cast<char>('a' + rng.below(26)));
    auto writer =
        here.spawn(scope, [&]() -> Coro<> { co_await co_write_file_atomically(dir / "a", text); });
    co_await sleep_op(std::chrono::microseconds(rng.below(1000)));
    writer.cancel();
    static_cast<void>(co_await writer.join_op());
    // A rename nobody waited for may still be under way; the next write is not disturbed.
    EXPECT_TRUE(is_one_version(co_await co_read_file(dir / "a")));
  }
  EXPECT_EQ((co_await list_dir_op(dir.path())).size(), 1U);
}

}  // namespace

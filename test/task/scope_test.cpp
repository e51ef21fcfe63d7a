#include "support/everywhere.hpp"

#include <stdexcept>

namespace weft::test {
namespace {

EVERYWHERE(Scope, JoinWaitsForChildren) {
  int done = 0;
  Scope scope;
  for (int i = 0; i < 3; ++i) {
    here.spawn(scope, [&]() -> Coro<> {
      co_await sleep_op(1ms * i);
      ++done;
    });
  }
  co_await scope.joined();
  EXPECT_EQ(done, 3);
}

CONCURRENT(Scope, F10_FirstErrorCancelsSiblingsAndIsRethrown) {
  bool unwound = false;
  bool later = false;
  Scope scope;
  here.spawn(scope, [&]() -> Coro<> {
    struct Note {
      bool& flag;
      ~Note() { flag = true; }
    } note{unwound};
    co_await sleep_op(1h);
    later = true;
  });
  here.spawn(scope, []() -> Coro<> {
    co_await sleep_op(5ms);
    throw std::runtime_error("boom");
  });
  try {
    co_await scope.joined();
    ADD_FAILURE() << "joined() must rethrow";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "boom");
  }
  EXPECT_TRUE(unwound);
  EXPECT_FALSE(later);
  EXPECT_EQ(now(), Instant(5ms)) << "virtual time must not advance to a cancelled deadline";
}

}  // namespace
}  // namespace weft::test

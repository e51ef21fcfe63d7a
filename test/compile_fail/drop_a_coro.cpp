// expect: nodiscard
// flags: -Werror=unused-result
// A coroutine that is neither awaited nor spawned never runs.
#include <weft/weft.hpp>

static weft::Coro<> work() {
  co_return;
}

weft::Coro<> use() {
#ifdef WEFT_CONTROL
  co_await work();
#else
  work();
  co_return;
#endif
}
